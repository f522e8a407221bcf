"""By how much a network's class preferences vary more in some blocks than in others, from the study `preferences`: the mean
total variance (Eq. 5 of Psi-Net) over `blocks`, less that over `than`, of one and the same network."""

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from fedrepro.core.errors import UserError, unknown_name_message
from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import Unit
from fedrepro.report.quantities import base
from fedrepro.report.quantities._study import Row, StudyQuantity
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import mean

Blocks = Annotated[tuple[str, ...], Field(min_length=1)]
VARIANCE = Unit("TV", "TV", digits=3, signed=True)


class Quantity(StudyQuantity):
    blocks: Blocks
    than: Blocks
    study = "preferences"
    title = "total variance"
    studied = "preferences of units"

    @property
    def contrast(self) -> bool:
        return True

    @property
    def expected(self) -> dict[str, base.Expected]:
        return {"higher": base.Expected()}

    @property
    def reports_number(self) -> bool:
        return False

    def of_rows(self, rows: Sequence[Row]) -> float:
        known = dict.fromkeys(row["block"] for row in rows)
        if unknown := next((name for name in (*self.blocks, *self.than) if name not in known), None):
            raise UserError(f"total_variance: {unknown_name_message('block', unknown, known)}")
        distances: dict[str, list[float]] = {}
        for row in rows:
            if row["distance"]:
                distances.setdefault(row["block"], []).append(float(row["distance"]))
        above, below = ([mean(distances[name]) for name in names if name in distances] for names in (self.blocks, self.than))
        return mean(above) - mean(below) if above and below else math.nan

    def missing(self, view: ExperimentView) -> list[Reason]:
        dead = [make_reason(ReasonKind.UNMEASURED, what=self.studied, series=self.labels)]
        return super().missing(view) or (dead if any(map(math.isnan, self.values(view))) else [])

    def unit(self, measure: Measure) -> Unit:
        return VARIANCE

    def label(self, measure: Measure) -> str:
        return f"total variance in {', '.join(self.blocks)} above that in {', '.join(self.than)}"

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return -math.inf, math.inf
