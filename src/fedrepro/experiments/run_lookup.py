"""Identities of a plan's data sets, and lookup of the run that answers a config: a kept one, or one
in `results/runs/`.

All runs of an experiment are of one copy of a data set: of one of which all are finished, the data
at hand first and then any of which they are kept; else of the data at hand, on which the whole
experiment can be trained.
"""

import functools
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from fedrepro.config.params import Params, RunConfig
from fedrepro.config.types import Choice, parse
from fedrepro.core import provenance
from fedrepro.core.errors import DataUnavailable, UserError
from fedrepro.data import datasets
from fedrepro.experiments.resolve import resolve
from fedrepro.runs import records
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run, code_digest

log = logging.getLogger(__name__)
UNKNOWN = "unknown"  # identity of data that are neither here nor pinned
NAMED_LATER = "is not here yet: its runs get their names once it is; training prepares it first"


class DatasetIdentities:
    """The identities of the data sets that a plan names. Only `prepare_unidentified` fetches or
    draws data.

    Attributes:
        warnings: data set key -> what the user should know before training on it.
    """

    def __init__(self, params: Params, paths: Paths, strict: bool = False) -> None:
        """With `strict`, damaged data are an error and none are assumed to be the official
        release."""
        self._params, self._paths, self._strict = params, paths, strict
        self._cache: dict[str, str] = {}
        self._tried: set[str] = set()
        self.warnings: dict[str, str] = {}

    def identity(self, choice: Choice) -> str:
        """Return the identity of the prepared data, else the one that the mirror declares, else the
        official release's."""
        key = datasets.key(choice)
        if key not in self._cache:
            self._cache[key] = self._identify(key, choice)
        return self._cache[key]

    def _identify(self, key: str, choice: Choice) -> str:
        where = self._paths.raw, self._paths.prepared(choice), self._params.mirror
        if self._strict:
            return datasets.planned_identity(choice, *where) or UNKNOWN
        release = datasets.pinned(choice) or UNKNOWN
        try:
            return datasets.planned_identity(choice, *where) or release
        except UserError as error:
            self.warnings[key] = f"is not available: {error}"
            return release

    def check_available(self, choice: Choice) -> None:
        """Add to `warnings` what stands against training on data. Raises DataUnavailable for those
        that no job may fetch."""
        key, raw, folder, mirror = (
            datasets.key(choice),
            self._paths.raw,
            self._paths.prepared(choice),
            self._params.mirror,
        )
        if self._strict or key in self.warnings:
            return
        try:
            if not mirror and datasets.is_copy(folder):
                copies = f"{datasets.raw_folder(choice, raw)} and {folder}"
                self.warnings[key] = (
                    f"is a copy that differs from the official release; delete {copies} to train "
                    f"on that"
                )
            if not (folder / datasets.META).exists() and key not in self._tried:
                datasets.check_available(choice, raw, mirror)
                if self.identity(choice) == UNKNOWN:
                    self.warnings[key] = NAMED_LATER
        except DataUnavailable:
            raise
        except UserError as error:
            self.warnings[key] = f"is not available: {error}"

    def prepare_unidentified(self, choices: Iterable[Choice]) -> bool:
        """Prepare the data sets whose identity only the data themselves tell, such as the user's
        own and drawn ones. Returns whether there were any, so that the plan has to be made
        again."""
        for key, choice in {datasets.key(choice): choice for choice in choices}.items():
            where = self._paths.raw, self._paths.prepared(choice), self._params.mirror
            try:
                if datasets.is_identified(choice, *where):
                    continue
                self._tried.add(key)
                self._cache.pop(key, None)
                self.warnings.pop(key, None)
                datasets.identify(choice, *where)
            except UserError as error:
                self.warnings[key] = f"is not available: {error}"
        return bool(self._tried)


class RunLookup:
    """Finds the run for a config: a kept one, or the one in `results/runs/`, which may be
    unfinished."""

    def __init__(
        self, kept: Iterable[Run], new: Callable[[RunConfig, str], Run], any_copy: bool = True
    ) -> None:
        """
        Args:
            new: makes the run of a config and a data identity.
            any_copy: whether runs that are kept of other data than those at hand answer, too.
        """
        self._new, self._any_copy = new, any_copy
        self._kept: dict[str, dict[str, Run]] = defaultdict(dict)  # config -> data -> run
        for run in kept:
            self._kept[config_key(run.config)][run.data] = run

    def find(self, config: RunConfig, data: str) -> Run:
        """Return the kept run of these data, else the one in `results/runs/`, which need not be
        finished."""
        return self._kept[config_key(config)].get(data) or self._new(config, data)

    def copies(self, configs: Sequence[RunConfig], here: str) -> tuple[str, str]:
        """Return the identity of the data that runs of one data set are of, and of those of which
        most are finished.

        Args:
            here: that of the data at hand, which come first, and the official release next.
        """
        copies = {here: None}
        if self._any_copy:
            kept = {data for config in configs for data in self._kept[config_key(config)]}
            copies |= dict.fromkeys(
                sorted(kept, key=lambda data: (data != datasets.pinned(configs[0].dataset), data))
            )
        finished = {
            data: sum(self.find(config, data).summary.exists() for config in configs)
            for data in copies
        }
        most = max(finished, key=lambda data: finished[data])
        return most if finished[most] == len(configs) else here, most


def stored_runs(folder: Path) -> dict[str, Run]:
    """Return the finished runs in a paper's folder, or its file of kept runs, by `run_key`,
    preferring today's code.

    A run that today's settings cannot express is left out, with a warning.

    Raises UserError for a run whose settings are damaged, which might be left out for another
    reason or pass for another run, and for kept runs that reports would refuse.
    """
    runs: dict[str, Run] = {}
    for run in begun_runs(folder):
        key = run_key(run.config, run.data)
        previous = runs.get(key)
        if run.summary.exists() and not (
            previous and previous.code == code_digest(previous.config)
        ):
            runs[key] = run
    return runs


def begun_runs(folder: Path) -> Iterable[Run]:
    """Return the runs of a paper's folder or file, finished or not; leave out and raise as
    `stored_runs`."""
    return (
        _kept_runs(folder, records.version(folder))
        if folder.suffix == records.KEPT and folder.exists()
        else _read_runs(folder)
    )


@functools.lru_cache(maxsize=16)
def _kept_runs(path: Path, version: tuple[int, ...]) -> tuple[Run, ...]:
    return tuple(_read_runs(path))


def _read_runs(folder: Path) -> Iterator[Run]:
    for run_folder, record in records.begun(folder).items():
        try:
            config = resolve(parse(RunConfig, record["config"], str(run_folder)))
        except UserError as error:
            log.warning("stored result left out: %s", error)
            continue
        yield Run(run_folder, config, record["data"], record["code"])


def run_key(config: RunConfig, data: str) -> str:
    """Return the key that runs share exactly if they have the same config and the same data,
    whatever code trained them."""
    return provenance.value_digest({"config": config.model_dump(mode="json"), "data": data}, 64)


def config_key(config: RunConfig) -> str:
    """Return the key that runs share exactly if they have the same config, whatever their data and
    code."""
    return run_key(config, "")
