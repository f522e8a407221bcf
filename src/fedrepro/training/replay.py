"""Replay of a run's rounds, for studies.

A round is a function of the state before it, the seed and its number. So a replay from any stored
state gives the same bits as the run itself, on the same kind of device with the same executor. In
the run's folder, `snapshots/round-<r>.safetensors` is the state before round r, and
`round-<r>.clients/` the states of its clients. A missing state is reached by replaying the rounds
before it, and then stored. On another machine sums are rounded differently; the train loss of each
round checks the deviation.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fedrepro.core.errors import UserError
from fedrepro.runs import records
from fedrepro.training import checkpoint
from fedrepro.training.federation import Federation, State
from fedrepro.training.round import LocalTraining, run_round

STORE_SECONDS = 30  # between two states that are stored on the way to a round
# Relative difference that the train loss of a replayed round may have to the recorded one: our
# choice. On the same kind of machine both are equal to the bit; elsewhere differences in rounding
# grow from round to round.
LOSS_TOLERANCE = 1e-3


@dataclass(frozen=True)
class ReplayedRound:
    """A replayed round with its local trainings in their order: one of each participant, in each
    phase of the round."""

    after: State
    trainings: list[LocalTraining]

    @property
    def round(self) -> int:
        return self.after.round

    @property
    def last_trainings(self) -> dict[int, LocalTraining]:
        """Each participant's last training in the round, by client."""
        return {training.client.number: training for training in self.trainings}


def snapshot_path(folder: Path, round: int) -> Path:
    """Return the file of a run's state before a round."""
    return folder / "snapshots" / f"round-{round}.safetensors"


def stored_rounds(folder: Path) -> list[int]:
    """Return the rounds before which a run's state is stored."""
    return sorted(
        int(path.stem.removeprefix("round-"))
        for path in (folder / "snapshots").glob("round-*.safetensors")
    )


def store_snapshot(folder: Path, state: State) -> Path:
    """Store a state for the round that follows it; returns the file."""
    path = snapshot_path(folder, state.round + 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    # an older one may come from another machine or executor: nothing of it may stay
    checkpoint.delete(path)
    checkpoint.save(path, state, [], folder.name)
    return path


class Replay:
    """Replays rounds of a run in rising order from the states in `folder`, and also stores the
    state before each of `rounds`.

    `forbid(seconds)` tells whether a piece of work of this length would exceed a limit."""

    def __init__(
        self,
        federation: Federation,
        folder: Path,
        rounds: Iterable[int],
        forbid: Callable[[float], bool] = lambda seconds: False,
    ) -> None:
        self.federation, self.folder, self.rounds, self.forbid = (
            federation,
            folder,
            frozenset(rounds),
            forbid,
        )
        self.state: State | None = None
        self._stored: list[Path] = []
        columns = (
            records.load(folder)["columns"]
            if (folder / records.RECORD).exists()
            else {"round": [], "train_loss": []}
        )
        self._recorded_losses = dict(zip(columns["round"], columns["train_loss"], strict=True))

    def reach(self, round: int) -> bool:
        """Advance `state` to the one before a round, or to the one in which the run diverged.

        Returns False if `forbid` stopped it earlier; the state reached so far is then stored."""
        state, passed = self._latest_state_before(round), None
        self.state = state
        saved, last_seconds = time.monotonic(), 0.0
        while state.round + 1 < round and not state.diverged:
            began = time.monotonic()
            if self.forbid(last_seconds):
                self._store(state)
                return False
            state = self.state = self._advance(state)
            last_seconds = time.monotonic() - began
            if (
                time.monotonic() - saved >= STORE_SECONDS
                and state.round + 1 < round
                and not state.diverged
            ):
                before, passed, saved = passed, self._store(state), time.monotonic()
                _delete(before)
        if (
            round in self.rounds
            and not state.diverged
            and not snapshot_path(self.folder, round).exists()
        ):
            self._store(state)
        _delete(passed)
        return True

    def round(self) -> ReplayedRound:
        """Replay the round after `state`, and advance `state` to the one after it. Call `reach`
        first."""
        assert self.state is not None
        trainings: list[LocalTraining] = []
        self.state = self._advance(self.state, trainings.append)
        return ReplayedRound(self.state, trainings)

    def _store(self, state: State) -> Path:
        self._stored.append(store_snapshot(self.folder, state))
        return self._stored[-1]

    def _advance(self, state: State, watch: Callable[[LocalTraining], None] | None = None) -> State:
        """Return the state after the next round. Raises UserError if its train loss is not the
        run's."""
        after, row = run_round(self.federation, state, watch)
        recorded, loss = self._recorded_losses.get(row["round"]), row["train_loss"]
        if not isinstance(recorded, float):
            return after
        if loss is None or not math.isclose(loss, recorded, rel_tol=LOSS_TOLERANCE):
            for path in self._stored:  # they are not states of the run
                _delete(path)
            raise UserError(
                f"{self.folder}: round {row['round']}: the train loss is {loss} when trained again "
                f"here, and was {recorded} in the run. Study it on the kind of machine that "
                "trained it."
            )
        return after

    def _latest_state_before(self, round: int) -> State:
        """Return the latest state before a round, in memory or stored."""
        stored = max(
            (number for number in stored_rounds(self.folder) if number <= round), default=0
        )
        if self.state and stored - 1 <= self.state.round < round:
            return self.state
        if stored == 0:
            return self.federation.start()[0]
        federation, path = self.federation, snapshot_path(self.folder, stored)
        return federation.state_to_device(
            checkpoint.load(path, self.folder.name, federation.client_store.keep)[0]
        )


def _delete(path: Path | None) -> None:
    if path:
        checkpoint.delete(path)
