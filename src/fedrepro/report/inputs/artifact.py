"""What figures and tables have in common: their names, and the experiments that they show."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from fedrepro.config.types import Frozen
from fedrepro.report.inputs.panel import (
    ExperimentRef,
    ExperimentView,
    PaperData,
    split_results_name,
)
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.runs.reasons import MissingReason


class Artifact(Frozen):
    """A figure or table of a paper. `name`: its short name on the page, after its number in the
    paper."""

    title: str
    kind: str
    name: str | None = None

    def sources(self, figures: Mapping[str, Any]) -> list[str]:
        """Return the names of the gathered results behind it; `figures` holds the paper's figures
        by key."""
        raise NotImplementedError

    def experiments(self, figures: Mapping[str, Any]) -> list[str]:
        """Return the experiments whose runs are behind it."""
        return list(dict.fromkeys(split_results_name(name)[0] for name in self.sources(figures)))

    def check(self, checker: ReferenceChecker) -> None:
        """Check that all names in its settings exist."""
        raise NotImplementedError

    def views(self, evidence: PaperData) -> list[ExperimentView]:
        """Return the experiments that it shows, if they have results."""
        raise NotImplementedError

    def why_missing(self, view: ExperimentView) -> MissingReason | None:
        """Return why one of the `views` cannot be shown, None otherwise; reads no rows of
        results."""
        return view.missing_reason

    def available(self, evidence: PaperData) -> list[ExperimentView]:
        return [view for view in self.views(evidence) if not self.why_missing(view)]

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        """Return why nothing can be shown, None otherwise; reads no rows of results."""
        reasons = [self.why_missing(view) for view in self.views(evidence)]
        return None if None in reasons else reasons[0]


def _experiment_by_name(value: Any) -> Any:
    return {"experiment": value} if isinstance(value, str) else value


PanelRef = Annotated[
    ExperimentRef, BeforeValidator(_experiment_by_name, json_schema_input_type=str | ExperimentRef)
]


class PanelsArtifact(Artifact):
    """A figure or table of some experiments, each by name or as `{experiment, measure, name}`."""

    panels: Annotated[tuple[PanelRef, ...], Field(min_length=1)]
    # the settings whose value is the label of a series
    series_settings: ClassVar[tuple[str, ...]] = ()

    def sources(self, figures: Mapping[str, Any]) -> list[str]:
        return list(dict.fromkeys(ref.experiment for ref in self.panels))

    def check(self, checker: ReferenceChecker) -> None:
        labels = [getattr(self, key) for key in self.series_settings]
        for ref in self.panels:
            checker.at("panels").check_ref(ref, labels)

    def views(self, evidence: PaperData) -> list[ExperimentView]:
        return [evidence.panel(ref) for ref in self.panels]
