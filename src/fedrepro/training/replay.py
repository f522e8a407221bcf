"""Rounds of a run, trained again.

A round is a function of the state before it, the seed and its number, so the same bits come out as in the run itself, on the
same kind of device with the same executor, from any state that was stored: `snapshots/round-<r>.safetensors` in the run's
folder is the state before round r, `round-<r>.clients/` what its clients keep. Where there is none, the way there is trained
again too, and then stored. On another machine sums are rounded otherwise; how far that may lead away is checked by the train
loss of each round.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fedrepro.core.errors import UserError
from fedrepro.runs.run import read_metrics
from fedrepro.training import checkpoint
from fedrepro.training.federation import Federation, State
from fedrepro.training.round import LocalTraining

STORE_SECONDS = 30  # between two states that are stored on the way to a round
# Of its value that the train loss of a round may differ by, when it is trained again: our choice. On the same kind of machine
# it is the same to the bit; elsewhere sums are rounded otherwise, and what that has grown to is seen here.
LOSS_TOLERANCE = 1e-3


@dataclass(frozen=True)
class ReplayedRound:
    """A round that was trained again, with its local trainings in their order: one of each participant, or one in each phase of
    a method that owns its round."""

    before: State
    after: State
    trained: list[LocalTraining]

    @property
    def round(self) -> int:
        return self.after.round

    @property
    def last_trainings(self) -> dict[int, LocalTraining]:
        """Participant -> its last training in the round."""
        return {trained.client.number: trained for trained in self.trained}


def snapshot_path(folder: Path, round: int) -> Path:
    """Where a run's state before a round is stored."""
    return folder / "snapshots" / f"round-{round}.safetensors"


def stored_rounds(folder: Path) -> list[int]:
    """The rounds before which a run's state is stored."""
    return sorted(int(path.stem.removeprefix("round-")) for path in (folder / "snapshots").glob("round-*.safetensors"))


def store_snapshot(folder: Path, state: State) -> Path:
    """Keep a state for the round that follows it."""
    path = snapshot_path(folder, state.round + 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.delete(path)  # of the same round, but maybe from another machine or executor: nothing of it may stay
    checkpoint.save(path, state, [], folder.name)
    return path


class Replay:
    """A run's rounds in rising order, from what is stored in `folder`; the states before `rounds` are stored there too."""

    def __init__(
        self,
        federation: Federation,
        folder: Path,
        rounds: Iterable[int],
        forbid: Callable[[float], bool] = lambda seconds: False,
    ) -> None:
        self.federation, self.folder, self.rounds, self.forbid = federation, folder, frozenset(rounds), forbid
        self.state: State | None = None
        self._stored: list[Path] = []
        table = folder / "metrics.csv"
        self._recorded_losses = {row["round"]: row["train_loss"] for row in read_metrics(table)} if table.exists() else {}

    def reach(self, round: int) -> bool:
        """Bring `state` to the one before a round, or to that in which the run diverged. False: `forbid`, which is told the
        seconds that a round takes, came first; how far it got is stored."""
        self.state, passed = self._latest_state_before(round), None
        saved, last = time.monotonic(), 0.0
        while self.state.round + 1 < round and not self.state.diverged:
            began = time.monotonic()
            if self.forbid(last):
                self._store()
                return False
            self.state = self._advance(self.state)
            last = time.monotonic() - began
            if time.monotonic() - saved >= STORE_SECONDS and self.state.round + 1 < round and not self.state.diverged:
                before, passed, saved = passed, self._store(), time.monotonic()
                _delete(before)
        if round in self.rounds and not self.state.diverged and not snapshot_path(self.folder, round).exists():
            self._store()
        _delete(passed)
        return True

    def round(self) -> ReplayedRound:
        """Train the round after `state`, which goes on by it."""
        before, seen = self.state, []
        self.state = self._advance(before, seen.append)
        return ReplayedRound(before, self.state, seen)

    def _store(self) -> Path:
        self._stored.append(store_snapshot(self.folder, self.state))
        return self._stored[-1]

    def _advance(self, state: State, watch: Callable[[LocalTraining], None] | None = None) -> State:
        """The state after the next round. Raises UserError where its train loss is not that of the run."""
        after, row = self.federation.advance(state, watch)
        told, found = self._recorded_losses.get(row["round"]), row["train_loss"]
        if (
            told is not None
            and math.isfinite(told)
            and not (found is not None and math.isclose(found, told, rel_tol=LOSS_TOLERANCE))
        ):
            where = f"{self.folder}: round {row['round']}"
            for path in self._stored:  # other states than the run's were on the way
                _delete(path)
            raise UserError(
                f"{where}, trained again here, has the train loss {found} and had {told}, so it is not the run's; study it on "
                "the kind of machine that trained it"
            )
        return after

    def _latest_state_before(self, round: int) -> State:
        """The latest known state before a round."""
        known = max((number for number in stored_rounds(self.folder) if number <= round), default=0)
        if self.state and known - 1 <= self.state.round < round:
            return self.state
        if known == 0:
            return self.federation.start()[0]
        return self.federation.state_to_device(checkpoint.load(snapshot_path(self.folder, known), self.folder.name)[0])


def _delete(path: Path | None) -> None:
    if path:
        checkpoint.delete(path)
