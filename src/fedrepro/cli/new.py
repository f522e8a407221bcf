"""The files of a new method, model, data set or paper, made of the templates in this package."""

import keyword
import re
from pathlib import Path

from fedrepro.config.params import PAPERS
from fedrepro.config.registry import UNREGISTERED
from fedrepro.core.errors import UserError
from fedrepro.core.files import atomic_write
from fedrepro.report.paper import RULES

TEMPLATES = Path(__file__).with_name("templates")
PARAMS = Path("params.yaml")
PLACEHOLDER, CLASS = "NAME", "CLASS"
FILES = {  # kind -> template -> file to write
    "method": {
        "method.py.txt": "src/fedrepro/algorithms/NAME.py",
        "test_method.py.txt": "tests/algorithms/test_NAME.py",
    },
    "model": {"model.py.txt": "src/fedrepro/models/NAME.py"},
    "dataset": {"dataset.py.txt": "src/fedrepro/data/datasets/NAME.py"},
    "paper": {
        f"{part}.yaml": f"{PAPERS}/NAME/{part}.yaml"
        for part in ("experiments", "scales", "artifacts", "claims")
    },
}
NEXT = {  # kind -> commands to go on with
    "method": (
        "uv run fedrepro run fedavg NAME --data digits",
        "uv run pytest -n 0 tests/algorithms/test_NAME.py",
        "uv run fedrepro docs",
    ),
    "model": ("uv run pytest -n 0 tests/models -k NAME", "uv run fedrepro docs"),
    "dataset": (
        "uv run pytest -n 0 tests/data/test_datasets.py -k contract",
        "uv run fedrepro docs",
    ),
    "paper": ("uv run snakemake --cores 2 NAME", "uv run fedrepro plan NAME --scale paper"),
}


def write(kind: str, name: str, root: Path = Path()) -> list[Path]:
    """Write the files of a new `kind` in the repository `root`, and return their paths below it.

    Raises UserError for a name that cannot be used, or if a file exists; then nothing is
    written."""
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name in UNREGISTERED:
        raise UserError(
            f"new {kind}: {name}: cannot be used as a name. Choose one of a to z, 0 to 9 and _, "
            f"such as my_{kind}."
        )
    if kind == "paper" and name in RULES:
        raise UserError(
            f"new paper: {name}: a target of Snakemake has this name. Choose another name."
        )
    texts = {}
    for template, path in FILES[kind].items():
        text = (
            (TEMPLATES / template)
            .read_text(encoding="utf-8")
            .replace(CLASS, name.title().replace("_", ""))
        )
        texts[Path(path.replace(PLACEHOLDER, name))] = text.replace(PLACEHOLDER, name)
    if not (root / PARAMS).is_file():
        raise UserError(f"{PARAMS}: no such file. Run the command in the folder of the repository.")
    for path in texts:
        if (root / path).exists() or (root / path).is_symlink():
            raise UserError(f"{path}: already exists. Choose another name.")
    params = (
        _with_paper((root / PARAMS).read_text(encoding="utf-8"), name) if kind == "paper" else None
    )
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        with (root / path).open("x", encoding="utf-8") as file:
            file.write(text)
    if params is None:
        return list(texts)
    with atomic_write(root / PARAMS) as temporary:
        temporary.write_text(params, encoding="utf-8")
    return [*texts, PARAMS]


def _with_paper(params: str, name: str) -> str:
    """Return the text of params.yaml with a paper in `papers`, and in each list `on_request`: until
    its runs are kept, only commands that name it make it. Raises UserError without a list of papers
    in one line."""
    text, changed = re.subn(r"(?m)^(papers: \[[^\]\n]+)\]", rf"\1, {name}]", params)
    if not changed:
        raise UserError(
            f"{PARAMS}: papers: expected a list in one line. Write it as [fedmmd, fedmax]."
        )
    text = re.sub(r"(?m)^( +on_request: \[[^\]\n]+)\]", rf"\1, {name}]", text)
    return re.sub(r"(?m)^( +on_request: )\[\]", rf"\1[{name}]", text)
