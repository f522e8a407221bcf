"""What every study shares, and what it may be given: a run's final weights, or rounds of it, trained again.

Importing a study is cheap, since plans need its settings: what takes torch is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, Field

from fedrepro.config.params import RunConfig
from fedrepro.config.types import Count, Frozen
from fedrepro.core.errors import UserError

if TYPE_CHECKING:
    import torch

    from fedrepro.data.datasets import Dataset
    from fedrepro.data.partitions import Partition
    from fedrepro.training.federation import Federation, State
    from fedrepro.training.replay import ReplayedRound

Rows = Iterable[tuple]  # of a unit of work, without the unit
FINAL = "model.safetensors"


def _rising(values: tuple) -> tuple:
    if any(a >= b for a, b in zip(values, values[1:], strict=False)):
        raise ValueError("values must be strictly increasing")
    return values


Rising = AfterValidator(_rising)
Rounds = Annotated[tuple[Count, ...], Field(min_length=1), Rising]


@dataclass(frozen=True)
class StudyContext:
    """Where a study is made: in a finished run's folder, on its data, in the way that the run was trained.

    `forbid` says whether a piece of work of so many seconds would pass the deadline.
    """

    folder: Path
    dataset: Dataset
    partition: Partition
    device: torch.device
    executor: str
    forbid: Callable[[float], bool] = lambda seconds: False


@dataclass(frozen=True)
class Study:
    """A question to one run. The answer is a table that grows by units of work, each done as a whole; a row is a tuple whose
    first number is its unit."""

    settings: Frozen  # the module's `Params`
    config: RunConfig  # of the run
    title: ClassVar[str]  # what is found, in the plural: "new clients"
    columns: ClassVar[tuple[str, ...]]  # of the table, the unit's first
    executor: ClassVar[str | None] = None  # that its cost is counted for; None: the run's

    @property
    def name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    def check(self) -> None:
        """Raise UserError, beginning with the key, for settings that this run cannot meet."""

    def units(self) -> Sequence[int]:
        raise NotImplementedError

    def snapshots(self) -> frozenset[int]:
        """The rounds before which the run's training stores its state for this study."""
        return frozenset()

    def can_start(self, folder: Path) -> bool:
        """Whether a finished run's folder still holds what the study starts from."""
        raise NotImplementedError

    def begin(self, context: StudyContext) -> Callable[[int], Rows | None]:
        """A function that gives a unit's rows; None: the deadline came first."""
        raise NotImplementedError

    def cost_bound(self, folder: Path) -> RunConfig:
        """A run that costs what the study does at most, from what lies in the folder."""
        raise NotImplementedError


class FinalWeightsStudy(Study):
    """Starts from the weights that the run ended with. A diverged run has none: its table stays empty."""

    def can_start(self, folder: Path) -> bool:
        return (folder / FINAL).exists()

    def begin(self, context: StudyContext) -> Callable[[int], Rows]:
        from fedrepro.training import checkpoint

        path = context.folder / FINAL
        if not path.exists():
            text = f"{self.title} start from it: copy it there, or delete the folder to train again"
            raise UserError(f"{path}: no such file; {text}")
        state, _ = checkpoint.load(path, context.folder.name)
        return (lambda unit: ()) if state.diverged else self.rows_from(context, state)

    def rows_from(self, context: StudyContext, final: State) -> Callable[[int], Rows]:
        """A function that gives a unit's rows from the final state, whose tensors lie on the CPU."""
        raise NotImplementedError


class RoundsStudy(Study):
    """Looks at rounds of the run: the state before, what was sent to whom, and every participant's weights after its training.

    A unit is a round, which is trained again (training/replay.py). Rounds that a diverged run does not have leave no rows.
    """

    def rounds(self) -> Sequence[int]:
        """Which, from 1 on, in order."""
        raise NotImplementedError

    def check(self) -> None:
        if (last := self.rounds()[-1]) > self.config.rounds:
            raise UserError(f"rounds: the run has {self.config.rounds} (got {last})")

    def measure(self, federation: Federation, replayed: ReplayedRound) -> Rows:
        """The rows of one round."""
        raise NotImplementedError

    def units(self) -> Sequence[int]:
        return self.rounds()

    def snapshots(self) -> frozenset[int]:
        return frozenset(self.rounds()) - {1}  # before round 1 nothing was learnt

    def can_start(self, folder: Path) -> bool:
        return True  # at worst from round 0

    def begin(self, context: StudyContext) -> Callable[[int], Rows | None]:
        from fedrepro.training.federation import Federation
        from fedrepro.training.replay import Replay

        federation = Federation(self.config, context.dataset, context.partition, context.device, context.executor)
        replay = Replay(federation, context.folder, self.snapshots(), context.forbid)

        def rows(round: int) -> Rows | None:
            if not replay.reach(round):
                return None
            return () if replay.state.diverged else self.measure(federation, replay.round())

        return rows

    def cost_bound(self, folder: Path) -> RunConfig:
        """As many rounds as are trained again, on the way and in the rounds themselves; measuring them is not counted."""
        from fedrepro.training.replay import stored_rounds

        over = (folder / "summary.json").exists()
        known = stored_rounds(folder) if over else self.snapshots()  # a run that is still to be trained stores them all
        trained = at = 0
        for round in self.rounds():
            trained += round - max([at, *(number - 1 for number in known if number <= round)])
            at = round
        return self.config.model_copy(update={"rounds": max(1, trained)})
