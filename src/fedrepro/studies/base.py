"""Base classes of studies: of any, and of those on rounds of a run, which are trained again."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import AfterValidator, Field

from fedrepro.config.params import RunConfig
from fedrepro.config.types import Count
from fedrepro.core.errors import UserError
from fedrepro.data.datasets import Dataset
from fedrepro.data.partitions import Partition
from fedrepro.runs.records import RECORD
from fedrepro.training import checkpoint
from fedrepro.training.federation import Federation, State
from fedrepro.training.replay import Replay, ReplayedRound, stored_rounds

Rows = Iterable[tuple]  # of a unit of work, without its number
FINAL = "model.safetensors"  # in a run's folder: its final weights


def _rising(values: tuple) -> tuple:
    if any(a >= b for a, b in zip(values, values[1:], strict=False)):
        raise ValueError("values must be strictly increasing")
    return values


Rising = AfterValidator(_rising)
Rounds = Annotated[tuple[Count, ...], Field(min_length=1), Rising]


@dataclass(frozen=True)
class StudyContext:
    """A finished run's folder, data, partition, device and executor, which a study uses."""

    folder: Path
    dataset: Dataset
    partition: Partition
    device: torch.device
    executor: str
    # whether work of so many seconds would pass the deadline
    forbid: Callable[[float], bool] = lambda seconds: False


@dataclass(frozen=True)
class Study:
    """A measurement on one run. Its result is a table that grows by units of work, each completed
    as a whole. The first column is the number of the unit."""

    settings: Any  # the class's `Params`
    config: RunConfig  # of the run
    title: ClassVar[str]  # in the plural: "new clients"
    columns: ClassVar[tuple[str, ...]]  # of the table; the first is the unit
    executor: ClassVar[str | None] = None  # used to estimate its cost; None: the run's

    @property
    def name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    def check(self) -> None:
        """Raise UserError, beginning with the key, for settings that do not suit this run."""

    def units(self) -> Sequence[int]:
        """Return the numbers of the units of work, in order."""
        raise NotImplementedError

    def snapshots(self) -> frozenset[int]:
        """Return the rounds before which the run's training stores its state for this study."""
        return frozenset()

    def can_start(self, folder: Path) -> bool:
        """Return whether a finished run's folder still has the weights from which the study
        starts."""
        raise NotImplementedError

    def begin(self, context: StudyContext) -> Callable[[int], Rows | None]:
        """Return a function that computes the rows of a unit, or returns None if the deadline comes
        first."""
        raise NotImplementedError

    def cost_bound(self, folder: Path) -> RunConfig:
        """Return a run that costs at least as much as the study, given the files in the run's
        folder."""
        raise NotImplementedError


def final_state(context: StudyContext, title: str) -> State:
    """Return a run's final state, with its tensors on the CPU, for a study with this title."""
    path = context.folder / FINAL
    if not path.exists():
        raise UserError(
            f"{path}: no such file; {title} start from it: copy it there, or delete the folder "
            f"to train again"
        )
    return checkpoint.load(path, context.folder.name)[0]


class RoundsStudy(Study):
    """A study of single rounds of the run: the state before, and what participants received and
    trained. A unit is a round, which is trained again (training/replay.py). Rounds that a diverged
    run does not reach have no rows."""

    def rounds(self) -> Sequence[int]:
        """Return the rounds, from 1 on, in order; by default those of the settings, else the last
        alone."""
        return self.settings.rounds or (self.config.rounds,)

    def check(self) -> None:
        if (last := self.rounds()[-1]) > self.config.rounds:
            raise UserError(f"rounds: the run has {self.config.rounds} (got {last})")

    def measure(self, federation: Federation, replayed: ReplayedRound) -> Rows:
        """Return the rows of one round."""
        raise NotImplementedError

    def units(self) -> Sequence[int]:
        return self.rounds()

    def snapshots(self) -> frozenset[int]:
        return frozenset(self.rounds()) - {1}  # the state before round 1 is the initial one

    def can_start(self, folder: Path) -> bool:
        return True  # without snapshots from the initial state

    def replay(self, context: StudyContext) -> Replay:
        """Return the replay of the run's rounds."""
        federation = Federation(
            self.config, context.dataset, context.partition, context.device, context.executor
        )
        return Replay(federation, context.folder, self.snapshots(), context.forbid)

    def begin(self, context: StudyContext) -> Callable[[int], Rows | None]:
        replay = self.replay(context)

        def rows(round: int) -> Rows | None:
            if not replay.reach(round):
                return None
            assert replay.state is not None  # since the round was reached
            return () if replay.state.diverged else self.measure(replay.federation, replay.round())

        return rows

    def cost_bound(self, folder: Path) -> RunConfig:
        """Return a run with as many rounds as are trained again, to reach the study's rounds and in
        these. Measuring is not counted."""
        return self.replay_cost(folder, self.rounds(), 1)

    def replay_cost(self, folder: Path, rounds: Iterable[int], each: int) -> RunConfig:
        """Return a run with as many rounds as are trained again to reach the states before
        `rounds`, and `each` in each."""
        finished = (folder / RECORD).exists()
        # an unfinished run will store all
        stored = stored_rounds(folder) if finished else self.snapshots()
        trained, position = 0, 1  # the round before which a state is there
        for round in rounds:
            trained += (
                round + each - max([position, *(number for number in stored if number <= round)])
            )
            position = round + each
        return self.config.model_copy(update={"rounds": max(1, trained)})
