"""What settings are made of: numbers that are checked, choices by name, and one message on what is wrong and what is valid."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    WithJsonSchema,
    WrapSerializer,
    model_validator,
)

from fedrepro.core.errors import UserError
from fedrepro.core.files import sha256
from fedrepro.core.metrics import MEASURES


def _no_bool(value: Any) -> Any:
    """YAML's `true` is no number, though Python counts it as 1."""
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


def distinct(values: tuple) -> tuple:
    if len(set(values)) < len(values):
        raise ValueError("values must be unique")
    return values


def _listed(value: Any) -> Any:
    if isinstance(value, int | float | str):
        raise ValueError("expected a list such as [0]")
    return value


def _fits(value: float) -> float:
    """In 64 bits as a whole number, in 32 as a real one."""
    if value > LARGEST[type(value)]:
        raise ValueError(f"at most {LARGEST[type(value)]:g}")
    return value


def _key(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch(NAME, value):
        close = re.sub("[^a-z0-9]+", "_", str(value).lower()).strip("_")[:LONGEST]
        advice = f", such as {close}" if close else ""
        raise ValueError(f"a name consists of a to z, 0 to 9 and _, at most {LONGEST} of them{advice}")
    return value


LONGEST = 60  # letters of a name: several of them make up the name of a file, which has 255 bytes at most
NAME = f"[a-z0-9_]{{1,{LONGEST}}}"
LARGEST = {int: (1 << 63) - 1, float: 3.4e38}
Number = BeforeValidator(_no_bool)
Listed = BeforeValidator(_listed)
Seed = Annotated[int, Field(ge=0), Number, AfterValidator(_fits)]
# Planning takes a millisecond a run. For 1,000 seeds the error of a mean is a thirtieth of their scatter
Seeds = Annotated[tuple[Seed, ...], Field(min_length=1, max_length=1000), AfterValidator(distinct), Listed]
Count = Annotated[int, Field(ge=1), Number]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), Number]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), Number, AfterValidator(_fits)]
Fraction = Annotated[float, Field(ge=0, le=1), Number]
Share = Annotated[float, Field(gt=0, le=1), Number]  # of something, not nothing
Rate = Annotated[float, Field(ge=0, lt=1), Number]  # of what is put out by dropout: not all
Numbers = Annotated[tuple[Annotated[int, Field(ge=0), Number], ...], Field(min_length=1), AfterValidator(distinct), Listed]
Key = Annotated[str, BeforeValidator(_key)]  # it becomes a file, a target on the command line, an address on the page
Device = Literal["auto", "cpu", "cuda"]
Executor = Literal["auto", "sequential", "stacked", "plain", "sequential+graph", "stacked+graph"]
Change = Literal[
    "crop", "reflected_crop", "resized_crop", "flip", "vertical_flip", "affine", "brightness", "contrast", "contrast_jitter"
]
Measures = Annotated[tuple[Literal[tuple(MEASURES)], ...], Field(min_length=1), AfterValidator(distinct)]


class Frozen(BaseModel):
    """Base of every settings model: immutable, and a misspelt key is an error, never a silent default."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Model = TypeVar("Model", bound=BaseModel)


class Choice(Frozen):
    """A name from a registry with the options that its module declares: `{name: fedprox, mu: 0.1}`. A plain name means one
    without options."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: str

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(core)]}

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class _InputFile(Frozen):
    """A file that an option names, with its sha256: a run on other content has another name. Settings name the path alone."""

    path: str
    sha256: str

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: Any) -> Any:
        return {"path": value, "sha256": sha256(_content(value))} if isinstance(value, str) else value

    def read(self) -> bytes:
        """Return the content. Raises UserError if it is not what it was when the settings were read."""
        try:
            content = _content(self.path)
        except ValueError as error:
            raise UserError(str(error)) from None
        if sha256(content) != self.sha256:
            raise UserError(f"{self.path}: changed since the work was planned; start the same command again")
        return content


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


InputFile = Annotated[_InputFile, WithJsonSchema({"type": "string"})]


def _plain(choice: Choice, written: SerializerFunctionWrapHandler) -> Any:
    """As users write it, and as results of old have it: a name where there are no options."""
    return written(choice) if choice.options else choice.name


PlainChoice = Annotated[Choice, WrapSerializer(_plain)]


def parse(model: type[Model], values: Any, where: str) -> Model:
    """`model` from plain values. Raises UserError with one line per mistake: where, which key, what is valid."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        found = error.errors()
        within = {item["loc"][:-1] for item in found}  # a list of which all items are wrong is not short too
        lines = [_explain(model, item) for item in found if item["type"] != "too_short" or item["loc"] not in within]
        raise UserError("\n".join(f"{where}: {line}" for line in lines)) from None


RENAMED = {  # keys of earlier settings files -> today's
    "with": "overrides",
    "inputs": "pixel_scaling",
    "kept": "use_kept_results",
    "only_finished": "report_only",
    "cell": "quantity",
    "ours": "own_question",
    "afterwards": "registered_after_results",
    "beyond": "not_testable_at",
    "looked": "seeds_at_first_look",
    "chose": "calibrated_on",
}


def _explain(model: type[BaseModel], item: Any) -> str:
    place = item["loc"][:-2] if item["loc"][-1:] == ("[key]",) else item["loc"]  # the message itself shows a wrong key
    key = ".".join(map(str, place))
    if item["type"] == "extra_forbidden":
        if (new := RENAMED.get(str(item["loc"][-1]))) in _fields_at(model, item["loc"][:-1]):
            return f"{key}: is called {new} now. Rename the key."
        valid = ", ".join(sorted(_fields_at(model, item["loc"][:-1])))
        return f"{key}: unknown key" + (f": choose from {valid}" if valid else "")
    message = str(item["ctx"]["error"]) if item["type"] == "value_error" else item["msg"]  # ours, without pydantic's words
    given = f" (got {item['input']!r})" if isinstance(item["input"], str | int | float) else ""
    return f"{key}: {message}{given}" if key else message


def _fields_at(model: Any, path: tuple) -> list[str]:
    """The fields of the model at a path of keys, as far as plain nesting and dictionaries of models lead."""
    for key in path:
        field = getattr(model, "model_fields", {}).get(key)
        annotation = field.annotation if field else model
        arguments = [a for a in getattr(annotation, "__args__", ()) if hasattr(a, "model_fields")]
        model = annotation if hasattr(annotation, "model_fields") else (arguments[0] if arguments else None)
    return list(getattr(model, "model_fields", {}))
