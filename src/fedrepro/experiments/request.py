"""What a command asks for: the experiments behind its targets, and the artifacts that it names
alone."""

import contextlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedrepro.config import registry
from fedrepro.config.params import Params
from fedrepro.core.errors import UserError
from fedrepro.experiments.plan import Plan, PlannedExperiment, all_experiments
from fedrepro.report import paper as spec
from fedrepro.report.inputs.panel import split_results_name
from fedrepro.report.paper import Paper

# options with which Snakemake runs no job, so that no data are prepared to name runs
READ_ONLY_OPTIONS = (
    "summary",
    "detailed_summary",
    "dag",
    "rulegraph",
    "filegraph",
    "d3dag",
    "unlock",
    "dryrun",
)
REPORTS = "reports/"
FILES = ("data/", REPORTS, "results/")  # beginnings of targets that are files
REPORTED = {"all", "mirror", "notebooks", "page", "pdf"}  # rules that show what there is


@dataclass(frozen=True)
class Command:
    """What a Snakemake command names."""

    targets: frozenset[str] = frozenset()  # none: all
    runs_jobs: bool = True


@dataclass(frozen=True)
class Request:
    """What targets ask for."""

    targets: frozenset[str]
    experiments: tuple[PlannedExperiment, ...]  # behind the targets
    trained: tuple[PlannedExperiment, ...]  # what may be trained for them
    # paper and name of the experiments of which reports show what is finished
    reported: frozenset[tuple[str, str]]
    # paper -> its artifacts that are named, if nothing else of the paper is
    alone: Mapping[str, frozenset[str]]

    @property
    def files(self) -> bool:
        """Whether a target is a file, which may depend on any experiment."""
        return any(target.startswith(FILES) for target in self.targets)


def read_command(arguments: Sequence[str]) -> Command:
    """Read Snakemake's own command line: Snakemake gives the targets only after it has read the
    rules, which depend on them.

    Raises UserError for triggers that do not see changed settings.
    """
    from snakemake.cli import parse_args

    # Snakemake itself has said which profiles it uses
    with contextlib.redirect_stderr(io.StringIO()):
        _, options = parse_args(list(arguments))
    if not any(trigger.name == "PARAMS" for trigger in options.rerun_triggers):
        raise UserError(
            "--rerun-triggers: without params nothing follows changed settings. Leave the option "
            "out"
        )
    return Command(
        frozenset(options.targets or ()),
        not any(getattr(options, name) for name in READ_ONLY_OPTIONS),
    )


def request(
    targets: Iterable[str], planned: Plan, trials: Plan, papers: Mapping[str, Paper], params: Params
) -> Request:
    """Return what some targets ask for; without any, the default papers.

    Reports of a paper with kept results show what is finished. All other targets train what is not.
    """
    targets = frozenset(targets)
    default = [item for paper in params.default_papers for item in planned[paper].values()]

    def needed(targets: frozenset[str]) -> list[PlannedExperiment]:
        """Return all experiments on which targets may depend."""
        if any(target.startswith(FILES) for target in targets):
            return all_experiments(planned)
        found = select(
            sorted(target for target in targets if not target.startswith("tune_")), planned, papers
        )
        general = {*spec.RULES, *(f"data_{name}" for name in registry.names("datasets"))} - {"tune"}
        return found + (default if targets & general else [])

    all_targets = targets or frozenset({"all"})
    shown = frozenset(
        target
        for target in all_targets
        if target in REPORTED | planned.keys() or target.startswith(REPORTS)
    )
    kept = {
        paper
        for paper, group in planned.items()
        if params.use_kept_results is True and any(map(_is_kept, group.values()))
    }
    trained = needed(all_targets - shown) + [
        item for item in needed(shown) if item.paper not in kept
    ]
    named = {(item.paper, item.name) for item in trained}
    return Request(
        targets,
        tuple(select(sorted(targets), planned, papers) or default),
        (*all_experiments(trials), *([] if params.report_only else trained)),
        frozenset(
            (paper, name) for paper in kept for name in planned[paper] if (paper, name) not in named
        ),
        _alone(targets, planned, papers),
    )


def _is_kept(item: PlannedExperiment) -> bool:
    """Return whether kept runs are all that an experiment needs."""
    return bool(item.runs) and all(run.is_kept for run in item.runs)


def select(
    targets: Iterable[str], planned: Plan, papers: Mapping[str, Paper]
) -> list[PlannedExperiment]:
    """Return the experiments behind targets, each once: papers, figures, tables or experiments by
    name."""
    artifacts = spec.targets(papers)
    found: dict[tuple[str, str], PlannedExperiment] = {}
    for target in targets:
        paper = target.removeprefix("train_").removeprefix("tune_")
        if target in artifacts:
            items = experiments_of(papers, planned, *artifacts[target])
        elif paper in planned:
            items = list(planned[paper].values())
        else:
            items = [
                item
                for item in all_experiments(planned)
                if item.name == target and target not in spec.RULES
            ]
        found |= {(item.paper, item.name): item for item in items}
    return list(found.values())


def experiments_of(
    papers: Mapping[str, Paper], planned: Plan, paper: str, artifact: str
) -> list[PlannedExperiment]:
    """Return the experiments that an artifact of a paper shows."""
    names = dict.fromkeys(
        split_results_name(source)[0] for source in papers[paper].sources([artifact])
    )
    return [planned[paper][name] for name in names]


def _alone(
    targets: frozenset[str], planned: Plan, papers: Mapping[str, Paper]
) -> dict[str, frozenset[str]]:
    if targets & {*spec.RULES} or any(target.startswith(FILES) for target in targets):
        return {}
    artifacts = [artifact for target, artifact in spec.targets(papers).items() if target in targets]
    return {
        paper: frozenset(key for owner, key in artifacts if owner == paper)
        for paper in planned
        if paper not in targets and any(owner == paper for owner, _ in artifacts)
    }
