"""Captions for `snakemake --report`, which reads them as reStructuredText that Jinja has rendered."""

import json
import re
from pathlib import Path

from fedrepro.report import artifacts
from fedrepro.report.paper import Paper
from fedrepro.report.verdicts import summary
from fedrepro.report.verdicts.summary import VERDICTS


def write(paper: Paper, folder: Path, out: Path) -> None:
    """`<out>/<artifact>.rst` for every artifact in a paper's `folder`."""
    found = artifacts.of(paper, folder)
    out.mkdir(parents=True, exist_ok=True)
    for key in paper.artifacts:
        text = _verdicts(folder) if key == VERDICTS else paper[key].caption(found)
        (out / f"{key}.rst").write_text(f"{_plain(text)}\n\n*{_plain(paper.reference)}*\n", encoding="utf-8")


def _verdicts(folder: Path) -> str:
    return f"A verdict for each claim: {summary.summary(summary.read(folder))}."


def _plain(text: str) -> str:
    """Without meaning to reStructuredText and to Jinja."""
    return "{{ " + json.dumps(re.sub(r"([\\*`_|])", r"\\\1", text), ensure_ascii=False) + " }}"
