"""Execute a notebook as part of the pipeline."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient


def execute(source: Path, out: Path, **parameters: object) -> None:
    """Run `source` from the repository's top folder with `parameters` in place of its cell tagged `parameters`; save to `out`.

    Raises nbclient.exceptions.CellExecutionError where a cell fails.
    """
    notebook = nbformat.read(source, as_version=4)
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            cell.source = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
    NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False).execute()
    out.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, out)
