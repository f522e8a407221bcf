"""What a paper's file may name: checked before anything is trained, so that nobody learns of a misspelt name after hours."""

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
    """Names that a paper's file may use; `key` is what is being checked. Every method raises a UserError that says where."""

    file: str
    key: str
    experiments: Mapping[str, dict[str, Any]]  # the paper's, as experiments.yaml says
    scales: Mapping[str, Scale]
    curves: Collection[str]  # digitised
    display_options: Mapping[str, DisplayOptions]
    figures: Mapping[str, Any]

    def at(self, *keys: str) -> "ReferenceChecker":
        """The same for what lies below."""
        return replace(self, key=".".join(filter(None, (self.key, *keys))))

    def check_names(self, kind: str, names: Iterable[str], valid: Collection[str]) -> None:
        """That they are among the valid ones."""
        for name in names:
            if name not in valid:
                self.fail(unknown_name_message(kind, name, valid))

    def fail(self, reason: str) -> NoReturn:
        raise UserError(f"{self.file}: {self.key}: {reason}")

    def check_experiment(self, name: str, series: Iterable[str | None] = ()) -> None:
        """That it exists, with these series."""
        self.check_names("experiment", [name], self.experiments)
        self.check_names("series", [label for label in series if label], self.experiments[name].get("series", {}))

    def series(self, experiment: str) -> dict[str, dict[str, Any]]:
        """What experiments.yaml says of each series, a name alone written out."""
        found = self.experiments[experiment].get("series", {})
        return {label: choice if isinstance(choice, dict) else {"name": choice} for label, choice in found.items()}

    def check_numeric_setting(self, experiment: str, setting: str, leave: Collection[str] = (), log: bool = False) -> None:
        """That a setting, such as `algorithm.beta`, is a number wherever the experiment's series state it, and that one of them
        does. `leave`: series that need not. `log`: that it has a place on a logarithmic axis, too."""
        shared, stated = self.experiments[experiment], {}
        for label, choice in self.series(experiment).items():
            own = merge(shared, choice.get("overrides", {})) | {"algorithm": choice}
            if label not in leave and (value := setting_at(own, setting)) is not None:
                stated[label] = value
        wrong = [f"{label}: {value}" for label, value in stated.items() if not isinstance(value, int | float)]
        if wrong or not stated:
            found = f"{', '.join(wrong)} is no number" if wrong else "no series states it"
            self.fail(f"'{setting}' of experiment '{experiment}': {found}")
        if below := [f"{label}: {value:g}" for label, value in stated.items() if log and value <= 0]:
            found = f"{', '.join(below)}: a logarithmic axis has numbers above 0 only; set log: false"
            self.fail(f"'{setting}' of experiment '{experiment}': {found}")

    def check_study(self, experiment: str, study: str, series: Iterable[str | None] = ()) -> None:
        """That the experiment asks for it."""
        self.check_experiment(experiment, series)
        if self.experiments[experiment].get("studies", {}).get(study) is None:  # {}: with its defaults
            self.fail(f"experiment '{experiment}' has no {study}")

    def check_ref(self, ref: ExperimentRef, series: Iterable[str | None] = ()) -> DisplayOptions:
        """That the experiment measures it, and that its target and its curves are there."""
        self.check_experiment(ref.experiment, series)
        shown = ref.resolved(self.display_options)
        measured = self.experiments[ref.experiment].get("measures", USUAL)
        self.check_names(f"measure of experiment '{ref.experiment}'", [shown.measure], measured)
        self.at("target").check_names("scale", shown.target, self.scales)
        self.at("target").check_values(shown.measure, shown.target.values())
        self.at("seeds_at_first_look").check_names("scale", shown.seeds_at_first_look, self.scales)
        self.at("reported").check_names("series", shown.reported, self.experiments[ref.experiment].get("series", {}))
        self.at("reported").check_names("curve", shown.reported.values(), self.curves)
        return shown

    def check_values(self, measure: str, values: Iterable[float]) -> None:
        """That they are values of the measure."""
        if MEASURES[measure].percent and any(value > 1 for value in values):
            self.fail(f"{MEASURES[measure].title} is between 0 and 1 (got {max(values):g})")

    @property
    def compared_scales(self) -> list[str]:
        """The scales at which our numbers are held against the paper's."""
        return [name for name, scale in self.scales.items() if scale.compare == "full"]
