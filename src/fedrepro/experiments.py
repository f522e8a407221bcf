"""From settings to work: which runs an experiment consists of at the active scale, and where each of them lies.

A run's folder is `results/runs/<paper>/<dataset>-<algorithm>-s<seed>-<hash>`; the hash covers its resolved config, its data's
identity and the code that it executes, so that a changed number or line names another folder and nothing stale is ever read.
Committed results under `results/kept/` stand for every run with the same config and data, whatever was refactored since.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedrepro import algorithms, datasets, intact, lookup, models, partitions, provenance, registry, schedules, studies, tasks
from fedrepro.config import Experiment, Params, RunConfig, merge, renamed
from fedrepro.engine import augmentation
from fedrepro.errors import Unavailable, UserError, unknown
from fedrepro.fields import Choice, parse
from fedrepro.lookup import Data, Finder
from fedrepro.packing import Piece
from fedrepro.results import is_kept
from fedrepro.runs import Run
from fedrepro.words import count

log = logging.getLogger(__name__)
BESIDE = {"series", "seeds", "studies"}  # what an experiment says beside the training that its runs share
CHANGED = "code changed since the work was planned; start the same command again"


@dataclass(frozen=True)
class Paths:
    """Every folder, in one place."""

    data: Path = Path("data")
    results: Path = Path("results")
    reports: Path = Path("reports")

    @property
    def raw(self) -> Path:
        return self.data / "raw"

    def prepared(self, dataset: Choice | str) -> Path:
        return self.data / "prepared" / datasets.key(dataset)

    def partition(self, config: RunConfig, data: str) -> Path:
        """Where a run's partition is stored; its name covers all that it depends on."""
        choice = config.partition
        images = (config.train_images, config.test_images)
        held = [] if config.proxy is None else [[config.proxy.share, config.proxy.removed]]
        about = [choice.model_dump(mode="json"), images, data, provenance.partition_digest(choice.name), *held]
        key = provenance.digest(about, 8)
        return self.data / "partitions" / f"{config.dataset.name}-{choice.name}-s{config.seed}-{key}.npz"

    def runs(self, paper: str) -> Path:
        return self.results / "runs" / paper

    def kept(self, paper: str) -> Path:
        return self.results / "kept" / paper

    def stored(self, paper: str) -> Path:
        return self.results / "stored" / paper


@dataclass(frozen=True)
class Series:
    """One line of a figure: an algorithm with its settings, one run per seed."""

    label: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Planned:
    """An experiment at the active scale; `skipped` says why it has no series, `waiting` names all that it would have if its
    runs were finished, where they are not; `remarks` is what a user should know before it is trained; `elsewhere`: runs that
    are to be trained though they are kept, of other data; `where` its settings stand, for messages about them."""

    paper: str
    name: str
    training: Experiment | None
    series: tuple[Series, ...]
    skipped: str | None = None
    waiting: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    elsewhere: tuple[Run, ...] = ()
    lacking: bool = False  # skipped since its data are not here
    where: str = ""

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(run for series in self.series for run in series.runs)


def plan(params: Params, paths: Paths, file: str = "params.yaml", fetching: bool = True) -> dict[str, dict[str, Planned]]:
    """paper -> experiment -> what it consists of. Without `fetching` nothing is fetched or drawn to learn what the runs' data
    are. Raises UserError, naming `file`, for any name or number that cannot be."""
    data = Data(params, paths.raw, paths.prepared, fetching)
    planned: dict[str, dict[str, Planned]] = {}
    for paper, experiments in params.papers.items():
        finder = _finder(paths, paper, params.kept)
        planned[paper] = {}
        for name, values in experiments.items():
            where = f"{file}: papers.{paper}.{name} at scale {params.scale}"
            training = _training(params, paper, name, values, file)
            if isinstance(training, str):
                planned[paper][name] = Planned(paper, name, None, (), training)
                continue
            try:
                series = tuple(
                    Series(label, tuple(_runs(params, training, choice, data, finder, f"{where}: series.{label}")))
                    for label, choice in training.series.items()
                )
            except Unavailable as error:
                planned[paper][name] = Planned(paper, name, None, (), f"data not available: {error}", lacking=True)
                continue
            item = Planned(paper, name, training, series, where=where)
            planned[paper][name] = _reportable(item) if params.only_finished else _remarked(item, data, finder)
    return planned


def check(params: Params, file: str = "params.yaml") -> None:
    """Raises UserError, naming `file`, for a name or number that cannot be at one of the scales that are not asked for: so that
    nobody learns of it when that one begins."""
    for scale in [name for name in params.scales if name != params.scale]:
        other = params.model_copy(update={"scale": scale})
        for paper, experiments in params.papers.items():
            for name, values in experiments.items():
                training = _training(other, paper, name, values, file)
                for label, choice in () if isinstance(training, str) else training.series.items():
                    where = f"{file}: papers.{paper}.{name} at scale {scale}: series.{label}"
                    next(_configs(other, training, choice, where))  # the seed has no say in it


def _training(params: Params, paper: str, name: str, values: dict, file: str) -> Experiment | str:
    """An experiment with the active scale's overlay; where that leaves it out, why."""
    overlay = dict(params.active.experiments.get(paper, {}).get(name, {}))
    where = f"{file}: papers.{paper}.{name} at scale {params.scale}"
    reason = overlay.pop("skip", None)
    if reason is not None and reason is not False:  # with either it is not skipped, though one that it is like is
        if not isinstance(reason, str) or not reason.strip():
            raise UserError(f"{where}: skip: expected the reason as text (got {reason!r})")
        return reason
    _check_series(values, overlay, f"{file}: scales.{params.scale}.experiments.{paper}.{name}")
    training = parse(Experiment, merge(values, overlay), where)
    _check_studies(training, where)
    return training


def _finder(paths: Paths, paper: str, kept: bool) -> Finder:
    def new(config: RunConfig, data: str) -> Run:
        return Run(paths.runs(paper) / run_id(config, data), config, data, code_digest(config))

    return Finder(stored_runs(paths.kept(paper)) if kept else {}, lambda: stored_runs(paths.runs(paper)), new)


def _check_series(values: dict, overlay: dict, where: str) -> None:
    """That what an overlay changes of a series, and does not name a method for, is there to be changed."""
    known, changed = (given.get("series") if isinstance(given.get("series"), dict) else {} for given in (values, overlay))
    for label, choice in changed.items():
        if label not in known and isinstance(choice, dict) and "name" not in choice:
            raise UserError(f"{where}: {unknown('series', label, list(known))}")


def _check_studies(training: Experiment, where: str) -> None:
    """Their names and keys, so that nobody learns of a misspelt one after the runs that it looks at."""
    for name, values in training.studies.items():
        try:
            studies.settings(name, values)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None


def _reportable(planned: Planned) -> Planned:
    """With `only_finished` a series is left out until all its runs are finished; with less than two, which could be compared,
    an experiment counts as skipped."""
    missing = [run for run in planned.runs if not run.summary.exists()]
    if not missing:
        return planned
    done = tuple(series for series in planned.series if not set(series.runs) & set(missing))
    waiting = replace(planned, series=done, waiting=tuple(series.label for series in planned.series))
    reason = f"{len(missing)} of {count(len(planned.runs), 'run')} {'is' if len(missing) == 1 else 'are'} not finished"
    return waiting if len(done) > 1 else replace(waiting, training=None, series=(), skipped=reason)


def _remarked(planned: Planned, data: Data, finder: Finder) -> Planned:
    """With what is to be said of its data and methods."""
    keys = dict.fromkeys(datasets.key(run.config.dataset) for run in planned.runs)
    about = [f"{key} {data.told[key]}" for key in keys if key in data.told]
    elsewhere = finder.elsewhere(dict.fromkeys(planned.runs))
    said = [finder.remark(elsewhere), *dict.fromkeys(algorithms.caution(run.config) for run in planned.runs)]
    return replace(planned, remarks=(*about, *filter(None, said)), elsewhere=tuple(elsewhere))


def remarks(chosen: list[Planned]) -> list[str]:
    """What is to be said before some experiments are trained, each of it once; also of those whose data are not here, where
    others are trained without them."""
    about: dict[str, list[str]] = {}
    for item in chosen:
        lacking = [item.skipped] if item.lacking and item.skipped else []
        for remark in (*item.remarks, *lacking):
            about.setdefault(remark, []).append(f"{item.paper} {item.name}")
    return [f"{', '.join(names)}: {remark}" for remark, names in about.items()] + _shelved(chosen)


def _shelved(chosen: list[Planned]) -> list[str]:
    """That results are shown which were not made here."""
    runs = unique(chosen)
    kept = sum(is_kept(run.folder) for run in runs)
    told = f"{kept} of {count(len(runs), 'run')} {'is' if kept == 1 else 'are'} kept, as earlier code trained"
    return [f"{told} {'it' if kept == 1 else 'them'}; kept=false trains all here"] if kept else []


def _runs(params: Params, training: Experiment, choice: Choice, data: Data, finder: Finder, where: str) -> Iterator[Run]:
    """One per seed."""
    for config in _configs(params, training, choice, where):
        yield finder.find(config, data.identity(config.dataset), params.only_finished)


def _configs(params: Params, training: Experiment, choice: Choice, where: str) -> Iterator[RunConfig]:
    """One per seed, resolved."""
    shared = training.model_dump(exclude=BESIDE)
    own = dict(choice.options)
    shared = merge(shared, _overrides(own.pop("with", {}), where))
    for seed in training.seeds or params.active.seeds:
        values = shared | {"algorithm": {"name": choice.name, **own}, "seed": seed}
        try:
            config = resolve(parse(RunConfig, values, where))
            _suited(config)
        except UserError as error:
            raise UserError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None
        yield config


def _suited(config: RunConfig) -> None:
    """What can be told of the data before any are there; the rest fails when the partition is drawn."""
    shape, train, test = datasets.extent(config.dataset)
    augmentation.check(config, shape[0], datasets.is_real(config.dataset))
    for key, asked, there in (("train_images", config.train_images, train), ("test_images", config.test_images, test)):
        if asked and asked > there:
            raise UserError(f"{key}: {config.dataset.name} has {there} (got {asked})")
    clients, images = config.partition.options["clients"], config.train_images or train
    if clients > images:
        raise UserError(f"partition.clients: at most the {images} train images of {config.dataset.name} (got {clients})")
    if config.proxy and config.proxy.removed and clients > (left := images - partitions.proxy_size(config.proxy, images)):
        told = f"removed: true takes its images from the clients' {images}, and leaves {left} for {clients} clients"
        raise UserError(f"proxy.share: {told} (got {config.proxy.share:g})")


def _overrides(values: Any, where: str) -> dict[str, Any]:
    """What a series sets for itself beside its algorithm's options."""
    if not isinstance(values, dict):
        raise UserError(f"{where}: with: expected settings of the training, e.g. {{lr: 0.01}} (got {values!r})")
    if refused := {"seed", "algorithm", *BESIDE} & set(values):
        raise UserError(f"{where}: with: {', '.join(sorted(refused))} cannot be set for one series")
    return values


def resolve(config: RunConfig) -> RunConfig:
    """With every option of every choice written out. Raises UserError for an unknown name or option."""
    filled = {
        kind: {"name": choice.name, **room.settings(choice).model_dump(mode="json")}
        for kind, choice, room in (
            ("dataset", config.dataset, datasets),
            ("partition", config.partition, partitions),
            ("model", config.model, models),
            ("algorithm", config.algorithm, algorithms),
            ("schedule", config.schedule, schedules),
            ("task", config.task, tasks),
        )
    }
    resolved = parse(RunConfig, config.model_dump() | filled, "run")
    clients = filled["partition"]["clients"]
    if resolved.clients_per_round > clients:
        raise UserError(f"clients_per_round: at most the {clients} clients of the partition (got {resolved.clients_per_round})")
    if resolved.keep_momentum and not registry.module("algorithms", resolved.algorithm.name).Algorithm.keeps_momentum:
        raise UserError(f"keep_momentum: {resolved.algorithm.name} begins each round without (got true)")
    return resolved


def code_digest(config: RunConfig) -> str:
    return provenance.code_digest(provenance.modules(config))


def hold_to_plan(run: Run) -> None:
    """Raise UserError where this process executes other code than a run was planned with: what Snakemake starts imports what
    lies there by then, and the run would be named after code that never trained it."""
    for module in provenance.modules(run.config):
        registry.module(*module.split("."))  # imported before it is read: an edit in between is noticed
    if code_digest(run.config) != run.code:
        raise UserError(CHANGED)


def run_id(config: RunConfig, data: str) -> str:
    """Readable slug and hash of all that determines the result."""
    key = intact.key({"config": config.model_dump(mode="json"), "data": data, "code": code_digest(config)})
    return f"{config.dataset.name}-{config.algorithm.name}-s{config.seed}-{key}"


def stored_runs(folder: Path) -> dict[str, Run]:
    """The finished runs in a folder by what they ask. One that today's settings cannot express is left out, with a warning.
    Raises UserError for one whose settings are damaged, which might be left out for another reason or pass for another run."""
    return {lookup.same(run.config, run.data): run for run in begun_runs(folder) if run.summary.exists()}


def begun_runs(folder: Path) -> Iterator[Run]:
    """The runs in a folder, finished or not; otherwise as `stored_runs`."""
    for path in sorted(folder.glob("*/config.json")):
        record = intact.settings(path.parent)
        try:
            config = resolve(parse(RunConfig, renamed(record["config"]), str(path)))
        except UserError as error:
            log.warning("stored result left out: %s", error)
            continue
        yield Run(path.parent, config, record["data"], record["code"])


def select(planned: dict[str, dict[str, Planned]], paper: str | None, names: list[str] | None) -> list[Planned]:
    """The experiments of one paper (or all) with these names (or all). Raises UserError for a name that is unknown, or that
    several papers have."""
    chosen = [item for key in papers(paper, planned) for item in planned[key].values()]
    valid = [item.name for item in chosen]
    for name in names or []:
        if name not in valid:
            raise unknown("experiment", name, valid, "; `fedrepro list` shows all")
        if valid.count(name) > 1:
            owners = ", ".join(item.paper for item in chosen if item.name == name)
            raise UserError(f"experiment '{name}': several papers have one; add --paper with one of {owners}")
    return [item for item in chosen if not names or item.name in names]


def papers(paper: str | None, known: Iterable[str]) -> list[str]:
    """The one that is named, or all. Raises UserError for a name that is unknown."""
    names = list(known)
    if paper is not None and paper not in names:
        raise unknown("paper", paper, names)
    return [name for name in names if paper in (None, name)]


def unique(chosen: list[Planned]) -> list[Run]:
    """Their runs, each once: a baseline that two figures share is trained once."""
    return list({run.folder: run for item in chosen for run in item.runs}.values())


def pieces(planned: dict[str, dict[str, Planned]]) -> list[Piece[Run]]:
    """Every run that is not kept, once, named by the first experiment and series that need it."""
    first: dict[Path, Piece[Run]] = {}
    for paper, name, label, run in listed(planned):
        first.setdefault(run.folder, Piece(f"{paper}_{name}", f"{label}_s{run.config.seed}", run, run.summary, run.recorded))
    return [piece for piece in first.values() if not is_kept(piece.work.folder)]


def note(planned: Planned, params: Params) -> dict[str, Any]:
    """What the gathered results say of an experiment beside its numbers; of a series its first run's config."""
    training = planned.training and planned.training.model_dump(mode="json", exclude=BESIDE)
    configs = {series.label: series.runs[0].config.model_dump(mode="json") for series in planned.series}
    missing = [label for label in planned.waiting if label not in configs] if configs else []
    return {
        "paper": planned.paper,
        "experiment": planned.name,
        "scale": params.scale,
        "scale_note": params.active.note,
        "compare": params.active.compare,
        "skipped": planned.skipped,
        "training": training,
        "series": {label: {"algorithm": config["algorithm"], "config": config} for label, config in configs.items()},
        **({"missing": missing} if missing else {}),
    }


def folders(planned: Planned) -> dict[str, list[Path]]:
    """Label -> the run folders of its seeds."""
    return {series.label: [run.folder for run in series.runs] for series in planned.series}


def listed(planned: dict[str, dict[str, Planned]]) -> list[tuple[str, str, str, Run]]:
    """(paper, experiment, label, run) of everything that is planned."""
    return [
        (paper, item.name, series.label, run)
        for paper, group in planned.items()
        for item in group.values()
        for series in item.series
        for run in series.runs
    ]
