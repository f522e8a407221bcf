"""Identities of a plan's data sets, and lookup of the run that answers a config: a kept one, or one in `results/runs/`.

When training, a kept run is reused only if it was made from the same data. With `report_only`, kept runs from other copies of
the data are shown too, labelled with their data.
"""

import functools
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """The identities of the data sets that a plan names. Only `prepare_unidentified` fetches or draws data.

    Attributes:
        warnings: data set key -> what the user should know before training on it.
    """

    def __init__(self, params: Params, paths: Paths, allow_missing: bool = False) -> None:
        """With `allow_missing`, as with `report_only`, data that no job may fetch get an identity too."""
        self._params, self._paths, self._allow_missing = params, paths, allow_missing or params.report_only
        self._cache: dict[str, str] = {}
        self._tried: set[str] = set()
        self.warnings: dict[str, str] = {}

    def identity(self, choice: Choice) -> str:
        """Return the identity of the prepared data, else the one that the mirror declares, else the official release's. Raises
        DataUnavailable for data that no job may fetch."""
        key = datasets.key(choice)
        if key not in self._cache:
            self._cache[key] = self._identify(key, choice)
        return self._cache[key]

    def _identify(self, key: str, choice: Choice) -> str:
        raw, folder, mirror = self._paths.raw, self._paths.prepared(choice), self._params.mirror
        if self._allow_missing:
            return datasets.planned_identity(choice, raw, folder, mirror) or UNKNOWN
        release = datasets.pinned(choice) or UNKNOWN
        try:
            identity = datasets.planned_identity(choice, raw, folder, mirror) or release
            if not mirror and datasets.is_copy(folder):
                copies = f"{datasets.raw_folder(choice, raw)} and {folder}"
                self.warnings[key] = f"is a copy that differs from the official release; delete {copies} to train on that"
            if not (folder / datasets.META).exists() and key not in self._tried:
                datasets.check_available(choice, raw, mirror)
                if identity == UNKNOWN:
                    self.warnings[key] = NAMED_LATER
            return identity
        except DataUnavailable:
            raise
        except UserError as error:
            self.warnings[key] = f"is not available: {error}"
            return release

    def prepare_unidentified(self, choices: Iterable[Choice]) -> bool:
        """Prepare the data sets whose identity only the data themselves tell, such as the user's own and drawn ones. Returns
        whether there were any, so that the plan has to be made again."""
        sets = {} if self._allow_missing else {datasets.key(choice): choice for choice in choices}
        for key, choice in sets.items():
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
    """Finds the run for a config: a kept one, or the one in `results/runs/`, which may be unfinished."""

    def __init__(
        self,
        kept: Mapping[str, Run],
        load_finished: Callable[[], Mapping[str, Run]],
        new: Callable[[RunConfig, str], Run],
    ) -> None:
        """
        Args:
            kept: the kept runs by `run_key`.
            load_finished: returns the finished runs in `results/runs/` by `run_key`; called once, when first needed.
            new: makes the run of a config and a data identity.
        """
        self._kept, self._load_finished, self._new = kept, load_finished, new
        self._kept_by_config = _by_config(kept.values())

    def find(self, config: RunConfig, data: str, report_only: bool) -> Run:
        """Return the kept run of these data, else the one in `results/runs/`, which need not be finished.

        With `report_only`, an unfinished run is replaced by a finished one: of the same code if the data are unknown, or a kept
        one of other data. Official releases come first.
        """
        if kept_run := self._kept.get(run_key(config, data)):
            return kept_run
        run = self._new(config, data)
        if not report_only or run.summary.exists():
            return run
        candidates = [*self._finished_by_same_code(run), *self.kept_from_other_data(run)]
        official = [other for other in candidates if other.data == datasets.pinned(other.config.dataset)]
        return next(iter([*official, *candidates]), run)

    def _finished_by_same_code(self, run: Run) -> list[Run]:
        """Return the finished runs of the same config and code, if the run's data are unknown."""
        finished = self._finished_by_config.get(config_key(run.config), []) if run.data == UNKNOWN else []
        return [other for other in finished if other.code == run.code]

    @functools.cached_property
    def _finished_by_config(self) -> dict[str, list[Run]]:
        return _by_config(self._load_finished().values())

    def kept_from_other_data(self, run: Run) -> list[Run]:
        """Return the kept runs with the config of one that is not kept."""
        runs = self._kept_by_config.get(config_key(run.config), [])
        return [] if run in runs else runs

    def kept_with_other_data(self, runs: Iterable[Run]) -> dict[Run, list[Run]]:
        """Return the unfinished runs for which there are kept runs of other data, with these."""
        kept_runs = {run: self.kept_from_other_data(run) for run in runs if not run.summary.exists()}
        return {run: others for run, others in kept_runs.items() if others}

    @staticmethod
    def other_data_message(kept_with_other_data: Mapping[Run, list[Run]]) -> str | None:
        """Explain in one line why those kept runs are not used."""
        if not kept_with_other_data:
            return None
        others = [other for group in kept_with_other_data.values() for other in group]
        labels = sorted({records.load(other.folder)["dataset"] for other in others})
        number = len(kept_with_other_data)
        start = "1 run is" if number == 1 else f"{number} runs are"
        return f"{start} kept, but of other data: {', '.join(labels)}; report_only=true reports what is kept"


def stored_runs(folder: Path) -> dict[str, Run]:
    """Return the finished runs in a paper's folder, or its file of kept runs, by `run_key`, preferring today's code.

    A run that today's settings cannot express is left out, with a warning.

    Raises UserError for a run whose settings are damaged, which might be left out for another reason or pass for another run,
    and for kept runs that reports would refuse.
    """
    runs: dict[str, Run] = {}
    for run in begun_runs(folder):
        key = run_key(run.config, run.data)
        previous = runs.get(key)
        if run.summary.exists() and not (previous and previous.code == code_digest(previous.config)):
            runs[key] = run
    return runs


def begun_runs(folder: Path) -> Iterator[Run]:
    """Yield the runs of a paper's folder or file, finished or not; leave out and raise as `stored_runs`."""
    for run_folder, record in records.begun(folder).items():
        try:
            config = resolve(parse(RunConfig, record["config"], str(run_folder)))
        except UserError as error:
            log.warning("stored result left out: %s", error)
            continue
        yield Run(run_folder, config, record["data"], record["code"])


def run_key(config: RunConfig, data: str) -> str:
    """Return the key that runs share exactly if they have the same config and the same data, whatever code trained them."""
    return provenance.value_digest({"config": config.model_dump(mode="json"), "data": data}, 64)


def config_key(config: RunConfig) -> str:
    """Return the key that runs share exactly if they have the same config, whatever their data and code."""
    return run_key(config, "")


def _by_config(runs: Iterable[Run]) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[config_key(run.config)].append(run)
    return groups
