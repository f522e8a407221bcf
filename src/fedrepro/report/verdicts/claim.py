"""A statement on an experiment, in one measure, with the cell that tests it: the paper's, or a question of ours."""

from typing import Annotated, Any

from pydantic import FiniteFloat, SerializeAsAny, model_validator

from fedrepro.config.types import Count, Frozen, NonNegative, Number, parse
from fedrepro.core.metrics import MEASURES
from fedrepro.report import quantities
from fedrepro.report.inputs.panel import ExperimentRef, MeasureName, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.quantities.base import Expected, Quantity


def _subject(cell: Quantity) -> tuple:
    return type(cell), cell.labels, cell.other_experiments


class Claim(Frozen):
    """A statement on an experiment, in one measure, with the cell that tests it: the paper's, or a question of ours."""

    text: str
    source: str
    experiment: str
    measure: MeasureName | None = None  # else the experiment's own
    quantity: SerializeAsAny[Quantity]
    reported: Annotated[FiniteFloat | str, Number]
    reported_std: NonNegative | None = None  # standard deviation of the paper's runs, where it is of several
    reported_runs: Count | None = None
    tolerance: NonNegative = 0
    because: str = ""  # why so wide
    own_question: bool = False  # a question that we ask: the paper does not state it
    registered_after_results: bool = False  # a statement of the paper that was listed after our runs had been seen
    headline: str | None = None  # the method whose main claims, on the first page of the results, it belongs to
    artifact: str | None = None  # the figure or table beside which it stands; else the first that shows its results
    scales: dict[str, SerializeAsAny[Quantity]] = {}  # the cell at a scale where the paper's target or round is out of reach
    not_testable_at: dict[str, str] = {}  # scale -> why its runs cannot speak of the claim, whatever they find
    note: str = ""

    @model_validator(mode="after")
    def _fits(self) -> "Claim":
        words = self.quantity.expected
        if self.reported not in words and (isinstance(self.reported, str) or not self.quantity.reports_number):
            valid = [*map(repr, words), *(["a number"] if self.quantity.reports_number else [])]
            what = f"a quantity of kind {self.quantity.kind} with these settings"
            raise ValueError(f"reported: {' or '.join(valid)} goes with {what} (got {self.reported!r})")
        if (self.reported_std is None) != (self.reported_runs is None) or self.reported_runs == 1:
            raise ValueError("reported_std and reported_runs: both, of two runs or more")
        if any(_subject(cell) != _subject(self.quantity) for cell in self.scales.values()):
            raise ValueError("scales: another target, round or number of rounds, but the same kind, series and experiments")
        return self

    @property
    def expected(self) -> Expected | None:
        """What follows from a word that is reported in place of a number."""
        return self.quantity.expected[self.reported] if isinstance(self.reported, str) else None

    @property
    def is_own_question(self) -> bool:
        """Whether the paper has neither this claim nor a number for it, so that nothing of it is there to be reproduced."""
        return self.own_question and self.expected is not None

    @property
    def ref(self) -> ExperimentRef:
        return ExperimentRef(experiment=self.experiment, measure=self.measure)

    @property
    def sources(self) -> list[str]:
        """The gathered results that it is held against, its experiment's first."""
        return [results_name(self.experiment, self.quantity.study), *self.quantity.other_experiments]

    @property
    def shown_sources(self) -> list[str]:
        """Those of them that the figure or table beside which it stands has to show."""
        return [name for name in self.sources if name not in self.quantity.unshown_experiments]

    def check(self, checker: ReferenceChecker) -> None:
        checker.at("scales").check_names("scale", self.scales, checker.scales)
        self.quantity.check(checker.at("quantity"), self.ref)
        if not self.expected:
            low, high = self.quantity.bounds(MEASURES[self.ref.resolved(checker.display_options).measure])
            if not low <= self.reported <= high:
                checker.at("reported").fail(
                    f"a number of kind {self.quantity.kind} is between {low:g} and {high:g} (got {self.reported:g})"
                )
        for scale, cell in self.scales.items():
            cell.check(checker.at("scales", scale), self.ref)
        checker.at("not_testable_at").check_names("scale", self.not_testable_at, checker.scales)
        if self.tolerance and not self.because:
            checker.fail("because: a tolerance needs its reason")


def parse_claim(values: Any, where: str) -> Claim:
    """A claim with its cell, and with what `scales` lays over that at smaller scales. Raises UserError."""
    if isinstance(values, dict) and "quantity" in values:
        cell, scales = values["quantity"], values.get("scales", {})
        values = values | {"quantity": quantities.parse_quantity(cell, f"{where}.quantity")}
        if isinstance(scales, dict):
            values["scales"] = {
                scale: quantities.parse_quantity(cell | asked, f"{where}.scales.{scale}") if isinstance(asked, dict) else asked
                for scale, asked in scales.items()
            }
    return parse(Claim, values, where)
