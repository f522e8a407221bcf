"""Gates of FedFusion over the rounds: lambda, the share of the received extractor's map in the
fused map.

Yao et al. 2019 (FedFusion), Eqs. 7 and 8, learn one lambda for each map (`multi`) or one for all
(`single`), 0 at the start; how far they move they do not say. A row has the server's lambda after a
round. No round is trained again if the training stored its states for this study.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from fedrepro.algorithms.fedfusion import GATE
from fedrepro.config.params import RunConfig
from fedrepro.config.types import Count, Frozen
from fedrepro.core.errors import UserError
from fedrepro.studies.base import FINAL, RoundsStudy, Rows, StudyContext, final_state


class Gates(RoundsStudy):
    """A row for each round and map (`single`: the map 0) with its lambda."""

    class Params(Frozen):
        every: Count = 10  # after rounds every, 2 every, ..., and after the last

    settings: Params
    title = "gates"
    columns = ("round", "map", "lambda")

    def check(self) -> None:
        algorithm = self.config.algorithm
        if algorithm.options.get("operator") not in ("multi", "single"):
            remedy = (
                "Study series of fedfusion with operator multi or single, in a variant of "
                "the experiment if it has others"
            )
            raise UserError(f"algorithm {algorithm.name} has no gates. {remedy}.")

    def rounds(self) -> Sequence[int]:
        return [
            *range(self.settings.every, self.config.rounds, self.settings.every),
            self.config.rounds,
        ]

    def snapshots(self) -> frozenset[int]:
        # the state after the last round is the final one
        return frozenset(round + 1 for round in self.rounds()[:-1])

    def can_start(self, folder: Path) -> bool:
        return (folder / FINAL).exists()

    def begin(self, context: StudyContext) -> Callable[[int], Rows | None]:
        replay = self.replay(context)

        def rows(round: int) -> Rows | None:
            if round < self.config.rounds and not replay.reach(round + 1):
                return None
            state = replay.state if round < self.config.rounds else final_state(context, self.title)
            assert state is not None  # since the round was reached
            return () if state.diverged else enumerate(state.weights[GATE].flatten().tolist())

        return rows

    def cost_bound(self, folder: Path) -> RunConfig:
        return self.replay_cost(folder, sorted(self.snapshots()), 0)
