"""What the rules of reports read: which artifacts there are, what each is made from, and when it is up to date."""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from fedrepro.config.params import Params
from fedrepro.core import provenance
from fedrepro.experiments import partition_jobs, plan, study_plan
from fedrepro.experiments.plan import Planned
from fedrepro.experiments.study_plan import Studied
from fedrepro.report import artifacts, incremental
from fedrepro.report import paper as spec
from fedrepro.report.inputs.panel import split_source
from fedrepro.report.paper import Paper
from fedrepro.report.verdicts.summary import VERDICTS
from fedrepro.runs.gather import Gathering
from fedrepro.runs.paths import Paths


class Reports:
    """The reports of the active scale. `planned`, `studies`: paper -> experiment -> its runs, and its studies by name; `build`:
    what a clone does not have."""

    def __init__(
        self,
        params: Params,
        paths: Paths,
        papers: Mapping[str, Paper],
        planned: Mapping[str, Mapping[str, Planned]],
        studies: Mapping[str, Mapping[str, Mapping[str, Studied]]],
        build: Path,
    ) -> None:
        self.params, self.paths, self.papers = params, paths, papers
        self.plan, self.studies = planned, studies
        self.folder = Path("reports", params.scale)
        self.stamps = build / f"made-{params.scale}"  # which artifacts are up to date, by content
        self.code = provenance.report_digest()

    @property
    def kept_as_they_are(self) -> list[str]:
        """Messages on numbers that stay, since some of the runs behind them are gone."""
        return [
            f"{paper} {source}: {given.staying}"
            for paper in self.papers
            for source, given in self.gathering(paper).items()
            if given.stays(self.folder / paper / "data")
        ]

    @cached_property
    def heatmaps(self) -> list[Path]:
        """Of the partitions. Where only what is finished is reported nothing is fetched: those that a report lacks and whose
        data are there."""
        if not self.params.only_finished:
            return [path.with_suffix(".png") for job in partition_jobs.drawings(self.plan, self.paths) for path in job.configs]
        groups = self.plan.items()
        return [path for paper, group in groups for path in partition_jobs.wanted(group, self.paths, self.folder / paper)]

    def gathering(self, paper: str, keys: Collection[str] | None = None) -> dict[str, Gathering]:
        """What reports get of each source of some artifacts of a paper (None: of all)."""
        found = {}
        for source in self.papers[paper].sources(keys):
            experiment, study = split_source(source)
            found[source] = (
                study_plan.gathering(self.studies[paper][experiment][study], self.params)
                if study
                else plan.gathering(self.plan[paper][experiment], self.params)
            )
        return found

    def finished(self, paper: str, keys: Collection[str] | None = None) -> list[Path]:
        """The files that say that all runs and studies behind some artifacts are over."""
        return list(dict.fromkeys(path for source in self.gathering(paper, keys).values() for path in source.over))

    @cached_property
    def known(self) -> dict[str, dict[str, str]]:
        """Paper -> artifact -> digest of all that it follows from, as far as it is known before anything is run."""

        def digest(paper: str, keys: Collection[str] | None = None) -> str:
            about = spec.identity(self.papers[paper], keys)
            return provenance.digest([about, self.code, str(self.gathering(paper, keys))])

        return {
            paper: {key: digest(paper, [key]) for key in own.artifacts} | {incremental.ALL: digest(paper)}
            for paper, own in self.papers.items()
        }

    def stamp(self, paper: str, key: str = incremental.ALL) -> Path:
        """The file that says that an artifact is up to date, or that all are."""
        return incremental.stamp(self.stamps / paper, key, self.known[paper][key])

    def files(self, paper: str) -> list[str]:
        """All of a paper's artifacts, and the numbers that they were made from."""
        own = self.papers[paper]
        named = [name for key in own.artifacts for name in artifacts.files(own, key)]
        return [str(self.folder / paper / name) for name in (*named, *artifacts.data(own))]

    def captions(self, paper: str) -> Path:
        """The folder of the captions that `snakemake --report` shows."""
        return self.stamps / paper / "captions"

    def shown(self, paper: str, file: str) -> dict[str, Any] | None:
        """What `snakemake --report` says of an artifact's file; None of one that it does not show."""
        key, room = Path(file).stem, Path(file).parent.name
        ending, group = {"figures": (".png", "Figures"), "tables": (".csv", "Tables")}.get(room, (None, None))
        if Path(file).suffix != ending:
            return None
        own, verdicts = self.papers[paper], key == VERDICTS
        return {
            "caption": str((self.captions(paper) / f"{key}.rst").resolve()),
            "category": own.title,
            "subcategory": "Verdicts" if verdicts else group,
            "labels": {"name": key, "title": "All claims" if verdicts else own[key].title},
        }

    @property
    def notebooks(self) -> list[Path]:
        """Of each paper that of the first figure that was run: `fedrepro notebook` writes any other."""
        found = []
        for paper, own in self.papers.items():
            run = (key for key, figure in own.figures.items() if self._was_run(paper, figure.experiments(own.figures)))
            found += [self.folder / "notebooks" / f"{paper}_{key}.ipynb" for key in list(run)[:1]]
        return found

    def _was_run(self, paper: str, experiments: Iterable[str]) -> bool:
        return any(self.plan[paper][name].runs for name in experiments)

    @property
    def partition_maps(self) -> dict[str, dict[Path, Path]]:
        """Paper -> the heat maps of its pages, each with the one that it is a copy of."""
        return {paper: partition_jobs.shown(group, self.paths, self.folder / paper) for paper, group in self.plan.items()}

    @property
    def whole_papers(self) -> list[str]:
        """Those that wait for no run."""
        return [paper for paper, group in self.plan.items() if not any(item.waiting for item in group.values())]

    def distrust_stamps(self) -> None:
        """Forget that artifacts are up to date whose files were changed or removed."""
        for paper, own in self.papers.items():
            incremental.distrust(own, self.folder / paper, self.stamps / paper)
