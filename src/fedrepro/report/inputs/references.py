"""Checks of the names in a paper's file, made before any training so that a misspelt name does not
cost hours."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from fedrepro.config.inheritance import merge
from fedrepro.config.params import Scale
from fedrepro.core.errors import UserError, unknown_name_message
from fedrepro.core.metrics import MEASURES, USUAL
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentRef, setting_at


@dataclass(frozen=True)
class ReferenceChecker:
    """A checker of the names in a paper's file.

    Every check raises a UserError that starts with the file and `key`, the key being checked.
    """

    file: str
    key: str
    experiments: Mapping[str, dict[str, Any]]  # the paper's, as in experiments.yaml
    scales: Mapping[str, Scale]
    curves: Collection[str]  # keys of the digitised curves
    display_options: Mapping[str, DisplayOptions]
    figures: Mapping[str, Any]

    def at(self, *keys: str) -> "ReferenceChecker":
        """Return a checker for a key below this one."""
        return replace(self, key=".".join(filter(None, (self.key, *keys))))

    def check_names(self, kind: str, names: Iterable[str], valid: Collection[str]) -> None:
        """Check that all names are valid."""
        for name in names:
            if name not in valid:
                self.fail(unknown_name_message(kind, name, valid))

    def fail(self, reason: str) -> NoReturn:
        raise UserError(f"{self.file}: {self.key}: {reason}")

    def check_experiment(self, name: str, series: Iterable[str | None] = ()) -> None:
        """Check that the experiment and its series exist."""
        self.check_names("experiment", [name], self.experiments)
        self.check_names(
            "series", [label for label in series if label], self.experiments[name].get("series", {})
        )

    def series(self, experiment: str) -> dict[str, dict[str, Any]]:
        """Return each series as in experiments.yaml; an algorithm's name alone becomes `{"name":
        ...}`."""
        series = self.experiments[experiment].get("series", {})
        return {
            label: choice if isinstance(choice, dict) else {"name": choice}
            for label, choice in series.items()
        }

    def check_positive_setting(
        self, experiment: str, setting: str, exempt: Collection[str] = ()
    ) -> None:
        """Check that a setting, such as `algorithm.beta`, is a number above 0 in every series that
        sets it, and set in at least one. Series in `exempt` are not checked."""
        shared, values = self.experiments[experiment], {}
        for label, choice in self.series(experiment).items():
            value = setting_at(
                merge(shared, choice.get("overrides", {})) | {"algorithm": choice}, setting
            )
            if label not in exempt and value is not None:
                values[label] = value
        where = f"'{setting}' of experiment '{experiment}'"
        if not values:
            self.fail(f"{where}: no series states it")
        if wrong := [
            f"{label}: {one}"
            for label, one in values.items()
            if not isinstance(one, int | float) or one <= 0
        ]:
            self.fail(f"{where}: {', '.join(wrong)}: a logarithmic axis has numbers above 0 only")

    def check_study(self, experiment: str, study: str, series: Iterable[str | None] = ()) -> None:
        """Check that the experiment has the study and the series."""
        self.check_experiment(experiment, series)
        # {}: with its defaults
        if self.experiments[experiment].get("studies", {}).get(study) is None:
            self.fail(f"experiment '{experiment}' has no {study}")

    def check_ref(self, ref: ExperimentRef, series: Iterable[str | None] = ()) -> DisplayOptions:
        """Check that the experiment has the measure, and that scales, series and curves exist;
        return the display options."""
        self.check_experiment(ref.experiment, series)
        display = ref.resolved(self.display_options)
        measured = self.experiments[ref.experiment].get("measures", USUAL)
        self.check_names(f"measure of experiment '{ref.experiment}'", [display.measure], measured)
        self.at("target").check_names("scale", display.target, self.scales)
        self.at("target").check_values(display.measure, display.target.values())
        self.at("reported").check_names(
            "series", display.reported, self.experiments[ref.experiment].get("series", {})
        )
        self.at("reported").check_names("curve", display.reported.values(), self.curves)
        return display

    def check_values(self, measure: str, values: Iterable[float]) -> None:
        """Check that the values are possible for the measure."""
        if MEASURES[measure].percent and any(value > 1 for value in values):
            self.fail(f"{MEASURES[measure].title} is between 0 and 1 (got {max(values):g})")

    @property
    def compared_scales(self) -> list[str]:
        """Return the scales at which our numbers are compared with the paper's."""
        return [name for name, scale in self.scales.items() if scale.compare == "full"]
