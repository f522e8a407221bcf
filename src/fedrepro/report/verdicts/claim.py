"""Claims: statements of a paper, or questions of our own, each with the quantity that tests it."""

import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import FiniteFloat, SerializeAsAny, model_validator

from fedrepro.config.inheritance import merge
from fedrepro.config.types import Count, Frozen, NonNegative, Number, Positive, parse
from fedrepro.core.errors import UserError, for_each
from fedrepro.core.metrics import MEASURES
from fedrepro.report import quantities
from fedrepro.report.inference import replication_tolerance
from fedrepro.report.inputs.panel import ExperimentRef, MeasureName, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.quantities.base import Expected, Quantity

DEFAULTS = "defaults"  # beside claims: the keys that they share


def _subject(quantity: Quantity) -> tuple:
    """Return the parts of a quantity that must not differ between scales."""
    return type(quantity), quantity.labels, quantity.other_experiments


class Claim(Frozen):
    """A statement on one measure of an experiment, with the quantity that tests it."""

    text: str
    source: str
    experiment: str
    measure: MeasureName | None = None  # None: the measure of the experiment
    quantity: SerializeAsAny[Quantity]
    reported: Annotated[FiniteFloat | str, Number]
    # standard deviation of the paper's runs, if the paper gives it
    reported_std: NonNegative | None = None
    reported_runs: Count | None = None  # number of the paper's runs
    tolerance: NonNegative = 0  # `allowed` computes it from a reported_std
    because: str = ""  # the reason for the tolerance
    # at a scale that judges only directions, an interval below this part of the reported number
    # contradicts the claim
    least: Positive | None = None
    own_question: bool = False  # a question of our own, which the paper does not state
    headline: str | None = None  # for a main claim on the first page of the results: its method
    # the figure or table with the claim; None: the first that shows the claim's results
    artifact: str | None = None
    # scale -> quantity, if the paper's target or round is out of reach there
    scales: dict[str, SerializeAsAny[Quantity]] = {}
    not_testable_at: dict[str, str] = {}  # scale -> why its runs cannot test the claim
    note: str = ""

    @model_validator(mode="after")
    def _fits(self) -> "Claim":
        words = self.quantity.expected
        if self.reported not in words and (
            isinstance(self.reported, str) or not self.quantity.reports_number
        ):
            valid = [*map(repr, words), *(["a number"] if self.quantity.reports_number else [])]
            what = f"a quantity of kind {self.quantity.kind} with these settings"
            raise ValueError(
                f"reported: expected {' or '.join(valid)} for {what} (got {self.reported!r})"
            )
        if (self.reported_std is None) != (self.reported_runs is None) or self.reported_runs == 1:
            raise ValueError("reported_std and reported_runs: both, of two runs or more")
        if self.reported_std is not None and {"tolerance", "because"} & self.model_fields_set:
            raise ValueError("tolerance, because: computed from reported_std. Leave them out")
        if self.least is not None and (
            isinstance(self.reported, str) or self.least > self.reported
        ):
            raise ValueError("least: a part of a reported number above 0")
        if any(_subject(quantity) != _subject(self.quantity) for quantity in self.scales.values()):
            raise ValueError(
                "scales: only the target and rounds may differ, not the kind, the series or the "
                "experiments"
            )
        return self

    @property
    def expected(self) -> Expected | None:
        """What the reported word means; None if the claim reports a number."""
        return self.quantity.expected[self.reported] if isinstance(self.reported, str) else None

    @property
    def reported_number(self) -> float:
        """The reported value of a claim that reports no word."""
        assert not isinstance(self.reported, str)
        return self.reported

    def allowed(self, seeds: int) -> float:
        """Return how far a mean over `seeds` may lie from the reported number and still count as
        the same.

        Where the paper gives a standard deviation, an exact replication lies within this distance
        in 95 % of cases; it is rounded up to 0.01 points.
        """
        if self.reported_std is None or self.reported_runs is None:
            return self.tolerance
        return (
            math.ceil(1e4 * self.reported_std * replication_tolerance(self.reported_runs, seeds))
            / 1e4
        )

    @property
    def has_nothing_to_reproduce(self) -> bool:
        """Whether the paper neither states the claim nor reports a number for it, so that there is
        nothing to reproduce."""
        return self.own_question and self.expected is not None

    @property
    def ref(self) -> ExperimentRef:
        return ExperimentRef(experiment=self.experiment, measure=self.measure)

    @property
    def sources(self) -> list[str]:
        """The names of the gathered results that it is compared with, those of its experiment
        first."""
        return [
            results_name(self.experiment, self.quantity.study_name),
            *self.quantity.other_experiments,
        ]

    @property
    def shown_sources(self) -> list[str]:
        """The sources that the figure or table that it is shown with must show."""
        return [name for name in self.sources if name not in self.quantity.unshown_experiments]

    def check(self, checker: ReferenceChecker) -> None:
        """Raise UserError for a scale, series or study that does not exist, and for a value that is
        impossible."""
        checker.at("scales").check_names("scale", self.scales, checker.scales)
        self.quantity.check(checker.at("quantity"), self.ref)
        if not self.expected:
            low, high = self.quantity.bounds(
                MEASURES[self.ref.resolved(checker.display_options).measure]
            )
            reported = self.reported_number
            if not low <= reported <= high:
                checker.at("reported").fail(
                    f"a number of kind {self.quantity.kind} is between {low:g} and {high:g} (got "
                    f"{reported:g})"
                )
        for scale, quantity in self.scales.items():
            quantity.check(checker.at("scales", scale), self.ref)
        checker.at("not_testable_at").check_names("scale", self.not_testable_at, checker.scales)
        if (
            not self.expected
            and self.reported_std is None
            and "tolerance" not in self.model_fields_set
        ):
            checker.fail(
                "tolerance: missing. Say how far from the reported number counts as the same"
            )
        if self.tolerance and not self.because:
            checker.fail("because: a tolerance needs its reason")


def parse_claim(values: Any, where: str) -> Claim:
    """Return the claim that the settings `values` describe; `where` opens the message of a
    UserError. `scales` holds the settings of the quantity that differ at a scale."""
    if isinstance(values, dict) and "quantity" in values:
        settings, scales = values["quantity"], values.get("scales", {})
        values = values | {"quantity": quantities.parse_quantity(settings, f"{where}.quantity")}
        if isinstance(scales, dict):
            values["scales"] = dict(scales)
            for scale, changes in scales.items():
                if isinstance(changes, dict):
                    key = f"{where}.scales.{scale}"
                    values["scales"][scale] = quantities.parse_quantity(settings | changes, key)
    return parse(Claim, values, where)


def parse_claims(values: dict[str, Any], file: str) -> dict[str, Claim]:
    """Return the claims of a file by name, in its order.

    Several claims may form a group, a mapping with the key `defaults`: what its claims do not say
    themselves. Groups may hold groups, and the file is one. Raises UserError for a claim that is
    wrong and for a name that occurs twice.
    """
    listed = list(listed_claims(values, {}, file))
    keys = [key for key, _ in listed]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise UserError(f"{file}: {twice[0]}: two claims have this name. Rename one.")
    return dict(
        zip(
            keys,
            for_each(listed, lambda pair: parse_claim(pair[1], f"{file}: {pair[0]}")),
            strict=True,
        )
    )


def listed_claims(
    group: dict[str, Any], inherited: dict[str, Any], where: str
) -> Iterator[tuple[str, Any]]:
    """Yield the claims of a group, whose name `where` ends with, each with its settings over the
    defaults."""
    defaults = group.get(DEFAULTS, {})
    if not isinstance(defaults, dict):
        raise UserError(
            f"{where}: {DEFAULTS}: expected the keys that claims share, with values. Write them "
            f"below it."
        )
    defaults = merge(inherited, defaults)
    for key, item in group.items():
        if isinstance(item, dict) and DEFAULTS in item:
            yield from listed_claims(item, defaults, f"{where}: {key}")
        elif key != DEFAULTS:
            yield key, merge(defaults, item) if isinstance(item, dict) else item
