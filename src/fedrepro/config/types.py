"""Types of settings: checked numbers and names, choices by name, input files, and error messages
with the valid keys."""

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

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
from fedrepro.core.files import read_file, sha256
from fedrepro.core.metrics import MEASURES


def _no_bool(value: Any) -> Any:
    """Raise ValueError for a boolean, which Python would accept as 0 or 1."""
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


def distinct(values: tuple) -> tuple:
    """Return the values. Raises ValueError if two are equal."""
    if len(set(values)) < len(values):
        raise ValueError("values must be unique")
    return values


def _listed(value: Any) -> Any:
    if isinstance(value, int | float | str):
        raise ValueError("expected a list such as [0]")
    return value


def _fits(value: float) -> float:
    """Raise ValueError for an int that needs more than 64 bits, or a float that needs more than
    32."""
    if value > LARGEST[type(value)]:
        raise ValueError(f"at most {LARGEST[type(value)]:g}")
    return value


def _key(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch(NAME, value):
        suggestion = re.sub("[^a-z0-9]+", "_", str(value).lower()).strip("_")[:MAX_LETTERS]
        advice = f", such as {suggestion}" if suggestion else ""
        raise ValueError(
            f"a name consists of a to z, 0 to 9 and _, at most {MAX_LETTERS} of them{advice}"
        )
    return value


LARGE_FILE = 1 << 20  # bytes
MAX_FILE = 1 << 32  # bytes of an input file, which is read whole
MAX_LETTERS = 60  # of a name: several names make up the name of a file, which has at most 255 bytes
NAME = f"[a-z0-9_]{{1,{MAX_LETTERS}}}"
LARGEST = {int: (1 << 63) - 1, float: 3.4e38}
Number = BeforeValidator(_no_bool)
Listed = BeforeValidator(_listed)
Seed = Annotated[int, Field(ge=0), Number, AfterValidator(_fits)]
# Planning takes a millisecond a run. With 1,000 seeds the error of a mean is a thirtieth of the
# standard deviation
Seeds = Annotated[
    tuple[Seed, ...], Field(min_length=1, max_length=1000), AfterValidator(distinct), Listed
]
Count = Annotated[int, Field(ge=1), Number]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), Number]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), Number, AfterValidator(_fits)]
Fraction = Annotated[float, Field(ge=0, le=1), Number]
Share = Annotated[float, Field(gt=0, le=1), Number]
Rate = Annotated[float, Field(ge=0, lt=1), Number]  # of dropout, of images held out
Numbers = Annotated[
    tuple[Annotated[int, Field(ge=0), Number], ...],
    Field(min_length=1),
    AfterValidator(distinct),
    Listed,
]
# used in names of files and of targets and in addresses on pages
Key = Annotated[str, BeforeValidator(_key)]
Device = Literal["auto", "cpu", "cuda"]
Executor = Literal["auto", "sequential", "stacked", "plain", "sequential+graph", "stacked+graph"]
Change = Literal[
    "crop",
    "reflected_crop",
    "resized_crop",
    "flip",
    "vertical_flip",
    "affine",
    "brightness",
    "contrast",
    "contrast_jitter",
]
if TYPE_CHECKING:
    MeasureName = str  # a type checker cannot read the names from MEASURES
else:
    MeasureName = Literal[tuple(MEASURES)]
Measures = Annotated[tuple[MeasureName, ...], Field(min_length=1), AfterValidator(distinct)]


class Frozen(BaseModel):
    """Base of all settings models: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Model = TypeVar("Model", bound=BaseModel)


class Choice(Frozen):
    """A name from the registry with the options that its module declares: `{name: fedprox, mu:
    0.1}`, or the name alone."""

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
    """A file of an option, with its sha256, so that a run on other content has another name.
    Settings give only the path."""

    path: str
    sha256: str

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: Any) -> Any:
        return {"path": value, "sha256": _digest(value)} if isinstance(value, str) else value

    def read(self) -> bytes:
        """Return the content. Raises UserError if it has changed since the settings were read."""
        return read_input(self.path, self.sha256)


def read_input(path: str, digest: str) -> bytes:
    """Return the content of an input file with this sha256. Raises UserError if it has another
    one."""
    try:
        content = _content(path)
    except ValueError as error:
        raise UserError(str(error)) from None
    if sha256(content) != digest:
        raise UserError(f"{path}: changed since the work was planned; start the same command again")
    return content


def _digest(path: str) -> str:
    """Return the sha256 of a file. That of a large file is cached until its size or time changes:
    settings are read often."""
    state = Path(path).stat() if Path(path).is_file() else None
    if state is None or state.st_size < LARGE_FILE:
        return sha256(_content(path))
    return _cached_digest(path, state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _cached_digest(path: str, size: int, time: int) -> str:
    return sha256(_content(path))


def _content(path: str) -> bytes:
    try:
        return read_file(Path(path), "give another file", MAX_FILE)
    except UserError as error:
        raise ValueError(str(error)) from None
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from None


InputFile = Annotated[_InputFile, WithJsonSchema({"type": "string"})]


def _plain(choice: Choice, serialize: SerializerFunctionWrapHandler) -> Any:
    """Return a choice without options as its name, as users write it and earlier results store
    it."""
    return serialize(choice) if choice.options else choice.name


PlainChoice = Annotated[Choice, WrapSerializer(_plain)]


def parse(model: type[Model], values: Any, where: str) -> Model:
    """Return a validated model. Raises UserError with one line per mistake: `<where>: <key>:
    <problem>`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        errors = error.errors()
        # a list whose items are wrong is not reported as too short
        parents = {item["loc"][:-1] for item in errors}
        lines = [
            _explain(model, item)
            for item in errors
            if item["type"] != "too_short" or item["loc"] not in parents
        ]
        raise UserError("\n".join(f"{where}: {line}" for line in lines)) from None


def _explain(model: type[BaseModel], item: Any) -> str:
    # the message itself shows a wrong key
    place = item["loc"][:-2] if item["loc"][-1:] == ("[key]",) else item["loc"]
    key = ".".join(map(str, place))
    if item["type"] == "extra_forbidden":
        valid = ", ".join(sorted(_fields_at(model, item["loc"][:-1])))
        return f"{key}: unknown key" + (f": choose from {valid}" if valid else "")
    # our text without pydantic's prefix
    message = str(item["ctx"]["error"]) if item["type"] == "value_error" else item["msg"]
    value = f" (got {item['input']!r})" if isinstance(item["input"], str | int | float) else ""
    return f"{key}: {message}{value}" if key else message


def _fields_at(model: Any, path: tuple) -> list[str]:
    """Return the fields of the model at a path of keys, following nested models and dictionaries of
    models."""
    for key in path:
        field = getattr(model, "model_fields", {}).get(key)
        annotation = field.annotation if field else model
        arguments = [a for a in getattr(annotation, "__args__", ()) if hasattr(a, "model_fields")]
        model = (
            annotation
            if hasattr(annotation, "model_fields")
            else (arguments[0] if arguments else None)
        )
    return list(getattr(model, "model_fields", {}))
