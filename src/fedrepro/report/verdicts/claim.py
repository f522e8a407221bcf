"""A statement on an experiment, in one measure, with the cell that tests it: the paper's, or a question of ours."""

from typing import Annotated, Any

from pydantic import FiniteFloat, SerializeAsAny, model_validator

from fedrepro.config.types import Frozen, NonNegative, Number, parse
from fedrepro.core.metrics import MEASURES
from fedrepro.report import quantities
from fedrepro.report.inputs.panel import Measured, Ref, source
from fedrepro.report.inputs.references import Known
from fedrepro.report.quantities.base import Cell, Expected


def _subject(cell: Cell) -> tuple:
    return type(cell), cell.labels, cell.others


class Claim(Frozen):
    """A statement on an experiment, in one measure, with the cell that tests it: the paper's, or a question of ours."""

    text: str
    source: str
    experiment: str
    measure: Measured | None = None  # else the experiment's own
    cell: SerializeAsAny[Cell]
    reported: Annotated[FiniteFloat | str, Number]
    tolerance: NonNegative = 0
    because: str = ""  # why so wide
    ours: bool = False  # a question that we ask: the paper does not state it
    afterwards: bool = False  # a statement of the paper that was listed after our runs had been seen
    artifact: str | None = None  # the figure or table beside which it stands; else the first that shows its results
    scales: dict[str, SerializeAsAny[Cell]] = {}  # the cell at a scale where the paper's target or round is out of reach
    beyond: dict[str, str] = {}  # scale -> why its runs cannot speak of the claim, whatever they find
    note: str = ""

    @model_validator(mode="after")
    def _fits(self) -> "Claim":
        words = self.cell.expected
        if self.reported not in words and (isinstance(self.reported, str) or not self.cell.numeric):
            valid = [*map(repr, words), *(["a number"] if self.cell.numeric else [])]
            what = f"a cell of kind {self.cell.kind} with these settings"
            raise ValueError(f"reported: {' or '.join(valid)} goes with {what} (got {self.reported!r})")
        if any(_subject(cell) != _subject(self.cell) for cell in self.scales.values()):
            raise ValueError("scales: another target, round or number of rounds, but the same kind, series and experiments")
        return self

    @property
    def expected(self) -> Expected | None:
        """What follows from a word that is reported in place of a number."""
        return self.cell.expected[self.reported] if isinstance(self.reported, str) else None

    @property
    def unreported(self) -> bool:
        """Whether the paper has neither this claim nor a number for it, so that nothing of it is there to be reproduced."""
        return self.ours and self.expected is not None

    @property
    def ref(self) -> Ref:
        return Ref(experiment=self.experiment, measure=self.measure)

    @property
    def sources(self) -> list[str]:
        """The gathered results that it is held against, its experiment's first."""
        return [source(self.experiment, self.cell.study), *self.cell.others]

    @property
    def shown(self) -> list[str]:
        """Those of them that the figure or table beside which it stands has to show."""
        return [name for name in self.sources if name not in self.cell.unseen]

    def check(self, known: Known) -> None:
        known.at("scales").names("scale", self.scales, known.scales)
        self.cell.check(known.at("cell"), self.ref)
        if not self.expected:
            low, high = self.cell.limits(MEASURES[self.ref.resolved(known.shown).measure])
            if not low <= self.reported <= high:
                known.at("reported").refuse(
                    f"a number of kind {self.cell.kind} is between {low:g} and {high:g} (got {self.reported:g})"
                )
        for scale, cell in self.scales.items():
            cell.check(known.at("scales", scale), self.ref)
        known.at("beyond").names("scale", self.beyond, known.scales)
        if self.tolerance and not self.because:
            known.refuse("because: a tolerance needs its reason")


def read(values: Any, where: str) -> Claim:
    """A claim with its cell, and with what `scales` lays over that at smaller scales. Raises UserError."""
    if isinstance(values, dict) and "cell" in values:
        cell, scales = values["cell"], values.get("scales", {})
        values = values | {"cell": quantities.read(cell, f"{where}.cell")}
        if isinstance(scales, dict):
            values["scales"] = {
                scale: quantities.read(cell | asked, f"{where}.scales.{scale}") if isinstance(asked, dict) else asked
                for scale, asked in scales.items()
            }
    return parse(Claim, values, where)
