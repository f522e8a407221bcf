"""The committed reports, and the numbers that they are made from, gathered from what is kept."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from fedrepro.config.params import read_params
from fedrepro.core import provenance
from fedrepro.experiments import plan
from fedrepro.experiments.reports import Reports
from fedrepro.report import paper as spec
from fedrepro.runs import records
from fedrepro.runs.gather import gather
from fedrepro.runs.paths import Paths
from support.checkout import ROOT

SCALES = ("small", "paper")


def has_history() -> bool:
    """Whether the repository has the commits of all kept runs, which pages read."""
    return all(provenance.commit_date(commit) for commit in kept_commits())


def kept_commits() -> set[str]:
    """The commits of all kept runs and studies."""
    runs = [
        run
        for path in (ROOT / "results/kept").glob("*.jsonl")
        for run in records.load_kept(path).values()
    ]
    return {one["environment"]["commit"] for run in runs for one in (run, *run["studies"].values())}


needs_history = pytest.mark.skipif(
    not has_history(), reason="a shallow clone, or no git: registration is unknown here"
)


def reports(scale: str, paths: Paths) -> Reports:
    """Of a scale, from the repository's top folder."""
    params = read_params(overrides={"scale": scale, "report_only": True})
    planned = plan.plan_experiments(params, paths)
    papers = {
        paper: own
        for paper, own in spec.read_papers(params).items()
        if paper in params.default_papers
    }
    return Reports(params, papers, planned, {})


def gathered(own: Reports, folder: Path, papers: Iterable[str]) -> None:
    """All that is gathered for some papers of a scale, into its `folder`."""
    for paper in papers:
        for given in own.sources(paper):
            gather(given, folder / paper / "data")
