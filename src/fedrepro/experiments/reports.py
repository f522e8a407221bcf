"""What the rules of reports read: which artifacts a paper's job makes, from which runs, and the digest by which Snakemake knows
whether they are up to date."""

from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from fedrepro.config.params import Params
from fedrepro.core import provenance
from fedrepro.core.errors import unknown_name
from fedrepro.experiments import plan, study_plan
from fedrepro.experiments.plan import PlannedExperiment
from fedrepro.experiments.study_plan import PlannedStudy
from fedrepro.report import artifacts
from fedrepro.report import paper as spec
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData, split_results_name
from fedrepro.report.paper import Paper
from fedrepro.report.verdicts.summary import VERDICTS
from fedrepro.runs.gather import ResultSources
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run


def result_sources(paper: str, source: str, params: Params, paths: Paths) -> ResultSources:
    """What is gathered of an experiment, or of its study, `<experiment>-<study>`. Raises UserError for what is unknown."""
    if paper not in params.papers:
        raise unknown_name("paper", paper, params.papers)
    experiment, study = split_results_name(source)
    group = plan.plan_experiments(params.model_copy(update={"papers": (paper,)}), paths)[paper]
    if experiment not in group:
        raise unknown_name("experiment", experiment, group)
    if not study:
        return plan.result_sources(group[experiment], params)
    studies = study_plan.plan_studies(group[experiment], params, paths)
    if study not in studies:
        raise unknown_name("study", study, studies)
    return study_plan.result_sources(studies[study], params)


class Reports:
    """The reports of the active scale. `planned`, `studies`: paper -> experiment -> its runs, and its studies by name;
    `requested`: paper -> the artifacts that a command asks for alone, none where it asks for all."""

    def __init__(
        self,
        params: Params,
        papers: Mapping[str, Paper],
        planned: Mapping[str, Mapping[str, PlannedExperiment]],
        studies: Mapping[str, Mapping[str, Mapping[str, PlannedStudy]]],
        requested: Mapping[str, Collection[str]],
    ) -> None:
        self.params, self.papers, self.plan, self.studies, self.requested = params, papers, planned, studies, requested
        self.folder = Path("reports", params.scale)
        self.code = provenance.report_digest()

    def gathering(self, paper: str, keys: Collection[str] | None = None) -> list[ResultSources]:
        """What is gathered for some artifacts of a paper (None: for all, and the documents)."""
        found = []
        for source in self.papers[paper].sources(keys):
            experiment, study = split_results_name(source)
            found.append(
                study_plan.result_sources(self.studies[paper][experiment][study], self.params)
                if study
                else plan.result_sources(self.plan[paper][experiment], self.params)
            )
        return found

    def evidence(self, paper: str) -> PaperData:
        """A paper's results as far as they are known before anything is run: their notes."""
        results = {given.note["experiment"]: Results(given.note, []) for given in self.gathering(paper)}
        return spec.paper_data(self.papers[paper], results, {})

    @cached_property
    def shown(self) -> dict[str, list[str]]:
        """Paper -> the artifacts that have something to show once all is run that a scale runs."""
        return {paper: artifacts.available_artifacts(own, self.evidence(paper)) for paper, own in self.papers.items()}

    def keys(self, paper: str) -> list[str]:
        """The artifacts that the paper's job makes."""
        requested = self.requested.get(paper)
        return [key for key in self.shown[paper] if not requested or key in requested]

    def gathered(self, paper: str) -> list[ResultSources]:
        """What that job gathers."""
        return self.gathering(paper, self.keys(paper) if self.requested.get(paper) else None)

    def finished(self, paper: str) -> list[Path]:
        """The files that say that all runs and studies behind its artifacts are over."""
        return list(dict.fromkeys(path for given in self.gathered(paper) for path in given.keeps_existing))

    def digest(self, paper: str) -> str:
        """Of the settings, the planned runs and the code that a paper's artifacts follow from."""
        return provenance.value_digest([spec.spec_digest(self.papers[paper]), self.code, str(self.gathering(paper))])

    def files(self, paper: str) -> list[str]:
        """What the job makes: artifacts, and the numbers that they are drawn from."""
        own, keys = self.papers[paper], self.keys(paper)
        named = [name for key in keys for name in artifacts.artifact_files(own, key)]
        numbers = [f"data/{given.note['experiment']}.{ending}" for given in self.gathered(paper) for ending in ("csv", "json")]
        return [str(self.folder / paper / name) for name in (*named, *numbers)]

    def made(self, paper: str, key: str) -> list[str]:
        """The files of one artifact; none where it has nothing to show."""
        names = artifacts.artifact_files(self.papers[paper], key) if key in self.shown[paper] else []
        return [str(self.folder / paper / name) for name in names]

    def in_report(self, paper: str, file: str) -> dict[str, Any] | None:
        """What `snakemake --report` says of an artifact's file; None of one that it does not show."""
        key, room = Path(file).stem, Path(file).parent.name
        group = {("figures", ".png"): "Figures", ("tables", ".csv"): "Tables"}.get((room, Path(file).suffix))
        if group is None or key == VERDICTS:
            return None
        own = self.papers[paper]
        return {"category": own.title, "subcategory": group, "labels": {"name": key, "title": own[key].title}}

    @property
    def unfinished(self) -> dict[str, dict[str, tuple[Run, ...]]]:
        """Paper -> experiment -> its runs that are not finished, where only what is finished is reported."""
        return {paper: {name: item.unfinished for name, item in group.items()} for paper, group in self.plan.items()}

    @property
    def notebooks(self) -> list[Path]:
        """Of each paper that of the first figure that is shown: `fedrepro notebook` writes any other."""
        found = []
        for paper, own in self.papers.items():
            figures = [key for key in self.shown[paper] if key in own.figures]
            found += [self.folder / "notebooks" / f"{paper}_{key}.ipynb" for key in figures[:1]]
        return found
