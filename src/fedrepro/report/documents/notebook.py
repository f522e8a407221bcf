"""Jupyter notebooks for figures: the runs and curves behind a figure, and the figure, as a start
for own analyses."""

from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from fedrepro.config.params import Params
from fedrepro.core.errors import UserError, unknown_name
from fedrepro.core.files import atomic_write
from fedrepro.core.provenance import value_digest
from fedrepro.report import paper as spec
from fedrepro.report.inputs.panel import DisplayOptions, split_results_name
from fedrepro.report.paper import Paper

LOADED = """from fedrepro import results

runs = results.runs(paper, {name!r}, scale)
curves = results.curves(paper, {name!r}, scale)
shown = ("series", "seed", "status", "rounds", "bytes_up", "dataset", "settings.lr")
runs[[column for column in shown if column in runs]]"""

LAST = """last = curves.groupby(["series", "seed"], sort=False).tail(1)
ended = last.groupby("series", sort=False)
stats = ["mean", "std", "count"]
"nothing was run" if measure not in last else ended[measure].agg(stats)"""

DRAWN = """import seaborn as sns

if not curves.empty:
    marks = {"hue": "series", "units": "seed", "estimator": None, "linewidth": 0.8}
    axes = sns.lineplot(curves, x="round", y=measure, **marks)"""

WHOLE = """%matplotlib inline
results.plot(paper, figure, scale)"""


def write(target: str, params: Params, path: Path | None = None) -> Path:
    """Write the notebook of a figure, not executed, to `path` or below the scale's reports, and
    return its path. Raise UserError if there is no such figure, or if the file exists: the user may
    have changed it."""
    specs = spec.read_papers(params)
    figures = {
        name: (paper, key)
        for name, (paper, key) in spec.targets(specs).items()
        if key in specs[paper].figures
    }
    if target not in figures:
        raise unknown_name("figure", target, figures, "; `fedrepro list` shows all")
    paper, figure = figures[target]
    path = path or notebook_path(params.scale, paper, figure)
    if path.exists():
        raise UserError(
            f"{path}: already exists and was left unchanged; choose another file with --out"
        )
    _save(compose(specs[paper], paper, figure, params.scale), path)
    return path


def notebook_path(scale: str, paper: str, figure: str) -> Path:
    """Return the path of the notebook of a figure in the pipeline."""
    return Path("reports", scale, "notebooks", f"{paper}_{figure}.ipynb")


def compose(specification: Paper, paper: str, figure: str, scale: str) -> nbformat.NotebookNode:
    """Return the notebook of a figure: the runs and curves of all seeds behind it, then the figure
    as the pipeline draws it."""
    shown = specification.figures[figure]
    text = (
        f"# {figure}: {shown.title}\n\n{specification.title}, scale {scale}. What is loaded: "
        f"`help(results)`."
    )
    cells = [
        new_markdown_cell(text),
        new_code_cell(f"paper, figure, scale = {paper!r}, {figure!r}, {scale!r}"),
    ]
    for name in shown.sources(specification.figures):
        cells += [new_markdown_cell(f"## {name}"), new_code_cell(LOADED.format(name=name))]
        if split_results_name(name)[1]:  # the table of a study has other columns
            cells.append(new_code_cell("curves"))
            continue
        measure = specification.experiments.get(name, DisplayOptions()).measure
        cells += [new_code_cell(f"measure = {measure!r}\n{LAST}"), new_code_cell(DRAWN)]
    cells += [new_markdown_cell("## The figure"), new_code_cell(WHOLE)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # nbformat draws a random one
    digest = {"fedrepro": {"cells": _cells_digest(cells)}}  # for `has_user_changes`
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(
        cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}} | digest
    )


def has_user_changes(path: Path) -> bool:
    """Return whether a notebook exists whose cells differ from the ones that were written."""
    if not path.exists():
        return False
    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: cannot be read as a notebook. Delete it and run again."
        ) from error
    return notebook.metadata.get("fedrepro", {}).get("cells") != _cells_digest(notebook.cells)


def _cells_digest(cells: list) -> str:
    return value_digest([[cell["cell_type"], cell["source"]] for cell in cells])


def execute(notebooks: Mapping[Path, nbformat.NotebookNode]) -> None:
    """Run the cells of notebooks in their folder, and save each at its path, unless the user has
    changed it meanwhile.

    One kernel, emptied before each, runs all, since importing the libraries takes longer than
    drawing. Raise CellExecutionError if a cell fails.
    """
    folder = next(iter(notebooks)).parent
    folder.mkdir(parents=True, exist_ok=True)
    quiet = {"extra_arguments": ["--log-level=ERROR"], "record_timing": False}
    where = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        new_notebook(), timeout=300, kernel_name="python3", resources=where, **quiet
    )
    with client.setup_kernel():
        for out, notebook in notebooks.items():
            client.nb = new_notebook(cells=[new_code_cell("get_ipython().reset()")])
            client.execute_cell(client.nb.cells[0], 0, store_history=False)
            client.nb = notebook
            client.execute(cleanup_kc=False)
            if not has_user_changes(out):
                _save(notebook, out)


def _save(notebook: nbformat.NotebookNode, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            nbformat.write(notebook, temporary)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
