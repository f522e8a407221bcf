"""The share of FedFusion's maps whose lambda is further than `above` from 0, its start, after the last studied round, from the
study `gates`."""

from collections.abc import Sequence
from typing import ClassVar

from fedrepro.config.types import NonNegative
from fedrepro.report.quantities._study import Row, StudyQuantity
from fedrepro.report.statistics import mean


class Quantity(StudyQuantity):
    above: NonNegative = 0.1
    study: ClassVar = "gates"
    title = "maps whose gate has left 0"
    studied = "gates"

    def of_rows(self, rows: Sequence[Row]) -> float:
        return mean([abs(float(row["lambda"])) > self.above for row in rows])
