"""Which data a plan is about, and which finished run answers a config: a kept one, or one in `results/runs/`.

Who trains gets kept runs of exactly his data. Who only reports (`report_only`) also gets those of other data, under the name
of the data that they came from.
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
from fedrepro.runs import integrity, kept
from fedrepro.runs.kept import is_kept
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run, code_digest

log = logging.getLogger(__name__)
UNKNOWN = "unknown"  # in the place of an identity that nothing here can tell
NAMED_LATER = "is not here yet: its runs get their names once it is; training prepares it first"


class DatasetIdentities:
    """The identity of each data set that a plan names, of what lies on disk: nothing is fetched or drawn but by `bring`. `told`
    says for some what is to be known before they are trained on."""

    def __init__(self, params: Params, paths: Paths, absent: bool = False) -> None:
        """`absent`: also of data that no job may fetch."""
        self._params, self._paths, self._absent = params, paths, absent or params.report_only
        self._found: dict[str, str] = {}
        self._tried: set[str] = set()
        self.told: dict[str, str] = {}

    def identity(self, choice: Choice) -> str:
        """The identity of what is prepared, else what the mirror declares, else the official release's. Raises Unavailable for
        data that no job may fetch."""
        key = datasets.key(choice)
        if key not in self._found:
            self._found[key] = self._identify(key, choice)
        return self._found[key]

    def _identify(self, key: str, choice: Choice) -> str:
        raw, folder, mirror = self._paths.raw, self._paths.prepared(choice), self._params.mirror
        if self._absent:
            return datasets.planned_identity(choice, raw, folder, mirror) or UNKNOWN
        release = datasets.pinned(choice) or UNKNOWN
        try:
            identity = datasets.planned_identity(choice, raw, folder, mirror) or release
            if not mirror and datasets.is_copy(folder):
                here = f"{raw / datasets.origin(choice)} and {folder}"
                self.told[key] = f"is a copy that differs from the official release; delete {here} to train on that"
            if not (folder / datasets.META).exists() and key not in self._tried:
                datasets.check_available(choice, raw, mirror)
                if identity == UNKNOWN:
                    self.told[key] = NAMED_LATER
            return identity
        except DataUnavailable:
            raise
        except UserError as error:
            self.told[key] = f"cannot be had: {error}"
            return release

    def bring(self, choices: Iterable[Choice]) -> bool:
        """Prepare those data sets whose identity only the data can tell: the user's own, drawn ones. Returns whether there were
        any: a plan is to be made again then."""
        sets = {datasets.key(choice): choice for choice in choices} if not self._absent else {}
        for key, choice in sets.items():
            where = self._paths.raw, self._paths.prepared(choice), self._params.mirror
            try:
                if datasets.is_identified(choice, *where):
                    continue
                self._tried.add(key)
                self._found.pop(key, None)
                self.told.pop(key, None)
                datasets.identify(choice, *where)
            except UserError as error:
                self.told[key] = f"cannot be had: {error}"
        return bool(self._tried)


class RunLookup:
    """Finds the run that answers a config, finished or to be trained."""

    def __init__(self, kept: Mapping[str, Run], own: Callable[[], Mapping[str, Run]], new: Callable[[RunConfig, str], Run]):
        """`kept`: the kept runs by what `same` says of them, `own` gives the finished ones in `results/runs/` likewise; `new`
        makes a run of a config and a data identity."""
        self._kept, self._load, self._new = kept, own, new
        self._alike = _by_config(kept.values())

    def find(self, config: RunConfig, data: str, report_only: bool) -> Run:
        """A kept run of these data, else the own one. With `report_only`, where there is neither, a kept one of other data;
        of the official release, if there is one."""
        if found := self._kept.get(run_key(config, data)):
            return found
        run = self._new(config, data)
        if not report_only or run.summary.exists():
            return run
        return _preferred([*self._here(run), *self.kept_from_other_data(run)]) or run

    def _here(self, run: Run) -> list[Run]:
        """Where the data cannot be told: what today's code finished."""
        own = self._own.get(config_key(run.config), []) if run.data == UNKNOWN else []
        return [found for found in own if found.code == run.code]

    @functools.cached_property
    def _own(self) -> dict[str, list[Run]]:
        """Read once, when they are first asked for: there may be hundreds."""
        return _by_config(self._load().values())

    def kept_from_other_data(self, run: Run) -> list[Run]:
        """The kept runs with the config of one that is not kept."""
        found = self._alike.get(config_key(run.config), [])
        return [] if run in found else found

    def kept_with_other_data(self, runs: Iterable[Run]) -> dict[Run, list[Run]]:
        """Those that are to be trained though there are kept ones of other data, and these."""
        found = {run: self.kept_from_other_data(run) for run in runs if not run.summary.exists()}
        return {run: others for run, others in found.items() if others}

    @staticmethod
    def other_data_message(elsewhere: Mapping[Run, list[Run]]) -> str | None:
        """One line on why those do not serve."""
        if not elsewhere:
            return None
        told = sorted({_described(found) for others in elsewhere.values() for found in others})
        start = "1 run is" if len(elsewhere) == 1 else f"{len(elsewhere)} runs are"
        return f"{start} kept, but of other data: {', '.join(told)}; report_only=true reports what is kept"


def stored_runs(folder: Path) -> dict[str, Run]:
    """The finished runs of a paper's folder by what they ask, today's code's before another's. One that today's settings
    cannot express is left out, with a warning. Raises UserError for one whose settings are damaged, which might be left out for
    another reason or pass for another run, and for kept ones that reports would refuse."""
    found: dict[str, Run] = {}
    for run in begun_runs(folder):
        there = found.get(asked := run_key(run.config, run.data))
        if run.summary.exists() and not (there and there.code == code_digest(there.config)):
            found[asked] = run
    return found


def begun_runs(folder: Path) -> Iterator[Run]:
    """The runs of a paper's folder, finished or not; otherwise as `stored_runs`."""
    if is_kept(folder / "run"):
        records = {folder / name: record for name, record in kept.load_runs(folder).items()}
    else:
        records = {path.parent: integrity.load_config(path.parent) for path in sorted(folder.glob("*/config.json"))}
    for own, record in records.items():
        try:
            config = resolve(parse(RunConfig, record["config"], str(own)))
        except UserError as error:
            log.warning("stored result left out: %s", error)
            continue
        yield Run(own, config, record["data"], record["code"])


def run_key(config: RunConfig, data: str) -> str:
    """What two runs have in common exactly if they ask the same question of the same data, whatever code answered it."""
    return provenance.value_digest({"config": config.model_dump(mode="json"), "data": data}, 64)


def config_key(config: RunConfig) -> str:
    """What two runs have in common exactly if they have the same settings, whatever data and code answered them."""
    return run_key(config, "")


def _by_config(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found = defaultdict(list)
    for run in runs:
        found[config_key(run.config)].append(run)
    return found


def _preferred(runs: list[Run]) -> Run | None:
    official = [run for run in runs if run.data == datasets.pinned(run.config.dataset)]
    return next(iter([*official, *runs]), None)


def _described(run: Run) -> str:
    """The data that a finished run came from, in words."""
    return integrity.load_record(run.folder)["dataset"]
