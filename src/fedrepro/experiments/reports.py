"""Reports as work: the artifacts that a paper's job makes, the runs that they need, and the digest
that says whether they are up to date."""

from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from fedrepro.config.params import PAPERS, Params
from fedrepro.core import provenance
from fedrepro.core.errors import unknown_name
from fedrepro.experiments import plan
from fedrepro.experiments.plan import Plan
from fedrepro.report import artifacts
from fedrepro.report import paper as paper_spec
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData, split_results_name
from fedrepro.report.paper import Paper
from fedrepro.report.verdicts.summary import VERDICTS
from fedrepro.runs.gather import ResultSources
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run


def result_sources(paper: str, source: str, params: Params, paths: Paths) -> ResultSources:
    """Return what is gathered for an experiment or, named `<experiment>-<study>`, for a study of
    one. Raises UserError for an unknown name."""
    if paper not in params.papers:
        raise unknown_name("paper", paper, params.papers)
    experiment, study = split_results_name(source)
    group = plan.plan_experiments(params.model_copy(update={"papers": (paper,)}), paths)[paper]
    if experiment not in group:
        raise unknown_name("experiment", experiment, group)
    return plan.result_sources(group[experiment], study, params)


class Reports:
    """The reports of the active scale.

    Args:
        papers: the specification of each paper's artifacts.
        planned: the experiments.
        requested: paper -> the artifacts that a command asks for; all if the paper is missing.
    """

    def __init__(
        self,
        params: Params,
        papers: Mapping[str, Paper],
        planned: Plan,
        requested: Mapping[str, Collection[str]],
    ) -> None:
        self.params, self.papers, self.plan, self.requested = params, papers, planned, requested
        self.folder = Path("reports", params.scale)
        self.code = provenance.report_digest()
        compared = {name: scale for name, scale in params.scales.items() if scale.compare != "none"}
        # the papers' own first
        names = sorted(compared, key=lambda name: compared[name].compare != "full")
        self.compared_scales = {  # scale -> the papers of which it has a page
            name: [paper for paper in params.papers if self._has_page(paper, name)]
            for name in names
        }

    def _has_page(self, paper: str, scale: str) -> bool:
        """Return whether a paper has a page at a scale: at the active one, whether it will have
        one."""
        if scale == self.params.scale:
            return paper in self.params.default_papers
        made = self.folder.parent / scale / paper / "index.html"
        return paper not in self.params.scales[scale].on_request and made.exists()

    @property
    def overview_files(self) -> list[str]:
        """The first page of the results, over all scales. It stays as it is if this scale is not
        compared, or it shows papers that the settings leave out."""
        pages = [
            page
            for scale in self.compared_scales
            for page in (self.folder.parent / scale).glob("*/index.html")
        ]
        others = {page.parent.name for page in pages} - set(self.params.papers)
        if self.params.scale not in self.compared_scales or any(
            (PAPERS / paper).is_dir() for paper in others
        ):
            return []
        return [
            str(self.folder.parent / name) for name in ("index.html", "findings.svg", "claims.csv")
        ]

    def sources(self, paper: str, keys: Collection[str] | None = None) -> list[ResultSources]:
        """Return what is gathered for some artifacts of a paper; by default for all, and for the
        documents."""
        names = map(split_results_name, self.papers[paper].sources(keys))
        return [
            plan.result_sources(self.plan[paper][experiment], study, self.params)
            for experiment, study in names
        ]

    def paper_data(self, paper: str) -> PaperData:
        """Return a paper's results as they are before anything is run: notes without numbers."""
        results = {
            source.note["experiment"]: Results(source.note, []) for source in self.sources(paper)
        }
        return paper_spec.paper_data(self.papers[paper], results, {})

    @cached_property
    def shown(self) -> dict[str, list[str]]:
        """The artifacts of each paper that show something once all runs of the scale are
        finished."""
        return {
            paper: artifacts.available_artifacts(spec, self.paper_data(paper))
            for paper, spec in self.papers.items()
        }

    def artifact_keys(self, paper: str) -> list[str]:
        """Return the artifacts that the paper's job makes."""
        requested = self.requested.get(paper)
        return [key for key in self.shown[paper] if not requested or key in requested]

    def requested_sources(self, paper: str) -> list[ResultSources]:
        """Return what the paper's job gathers."""
        return self.sources(paper, self.artifact_keys(paper) if self.requested.get(paper) else None)

    def done_files(self, paper: str) -> list[Path]:
        """Return the files that exist exactly if all runs and studies are finished that the paper's
        job gathers."""
        return list(
            dict.fromkeys(
                path for source in self.requested_sources(paper) for path in source.done_files
            )
        )

    def digest(self, paper: str) -> str:
        """Return the hash of the settings, the planned runs and the code that determine a paper's
        artifacts."""
        return provenance.value_digest(
            [paper_spec.spec_digest(self.papers[paper]), self.code, str(self.sources(paper))]
        )

    def files(self, paper: str) -> list[str]:
        """Return the files that the paper's job makes: artifacts, and the numbers from which they
        are drawn."""
        names: list[str] = []
        for key in self.artifact_keys(paper):
            names += artifacts.artifact_files(self.papers[paper], key)
        for source in self.requested_sources(paper):
            names += [f"data/{source.note['experiment']}.{ending}" for ending in ("csv", "json")]
        return [str(self.folder / paper / name) for name in names]

    def artifact_files(self, paper: str, key: str) -> list[str]:
        """Return the files of one artifact; none if it shows nothing."""
        names = (
            artifacts.artifact_files(self.papers[paper], key) if key in self.shown[paper] else []
        )
        return [str(self.folder / paper / name) for name in names]

    def snakemake_labels(self, paper: str, file: str) -> dict[str, Any] | None:
        """Return the arguments with which `snakemake --report` shows an artifact's file; None if it
        does not."""
        key, folder = Path(file).stem, Path(file).parent.name
        group = {("figures", ".png"): "Figures", ("tables", ".csv"): "Tables"}.get(
            (folder, Path(file).suffix)
        )
        if group is None or key == VERDICTS:
            return None
        spec = self.papers[paper]
        return {
            "category": spec.title,
            "subcategory": group,
            "labels": {"name": key, "title": spec[key].title},
        }

    @property
    def unfinished(self) -> dict[str, dict[str, tuple[Run, ...]]]:
        """The unfinished runs by paper and experiment, with `report_only`."""
        return {
            paper: {name: item.unfinished for name, item in group.items()}
            for paper, group in self.plan.items()
        }

    @property
    def notebooks(self) -> dict[Path, tuple[str, str]]:
        """The notebook of the first figure that each paper shows, with both names; `fedrepro
        notebook` writes any other."""
        notebooks: dict[Path, tuple[str, str]] = {}
        for paper in self.params.default_papers:
            figures = [key for key in self.shown[paper] if key in self.papers[paper].figures]
            notebooks |= {
                self.folder / "notebooks" / f"{paper}_{key}.ipynb": (paper, key)
                for key in figures[:1]
            }
        return notebooks
