"""The grids of a paper's series and the values that were chosen from them.

A series with `tune: {mu: [0.01, 0.1], lr: [0.03, 0.1]}` is evaluated with the values in
chosen.yaml, the outcome of trials of the same settings (`trials.py`). A choice of other settings,
such as another grid, is none.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from fedrepro.config import registry
from fedrepro.config.inheritance import merge
from fedrepro.config.params import Chosen, Experiment, Training
from fedrepro.config.types import Choice
from fedrepro.core import provenance
from fedrepro.core.errors import UserError, unknown_name_message

TUNE = "tune"  # key of a series
Values = dict[str, Any]  # options of the method and fields of the training


def command(paper: str, scale: str) -> str:
    """Return the command that chooses a paper's values."""
    return f"fedrepro tune {paper} --scale {scale}"


def with_values(choice: Choice, values: Mapping[str, Any]) -> Choice:
    """Return a series' method without its grid, with these values as options or as overrides of the
    training."""
    options = {key: value for key, value in choice.options.items() if key != TUNE}
    if not values:
        return Choice(name=choice.name, **options)
    method = registry.options_model("algorithms", choice.name).model_fields
    options |= {key: value for key, value in values.items() if key in method}
    overrides, existing = (
        {key: value for key, value in values.items() if key not in method},
        options.get("overrides", {}),
    )
    if overrides and isinstance(existing, dict):  # else reported with the run's config
        options["overrides"] = merge(existing, overrides)
    return Choice(name=choice.name, **options)


def combinations(training: Experiment, choice: Choice, where: str) -> list[Values]:
    """Return the values that are tried of a series, in the order of its grid.

    Raises UserError for a grid that is empty, exceeds the budget or names what neither the method
    nor the training has.
    """
    grid, tuning = _grid(choice, where), training.tuning
    assert tuning is not None  # checked with the settings
    tried = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if len(tried) > tuning.budget:
        problem = f"{len(tried)} combinations, the budget is {tuning.budget}"
        raise UserError(f"{where}.{TUNE}: {problem}. Leave out values or raise the budget.")
    return tried


def first_values(training: Experiment, choice: Choice, where: str) -> Values:
    """Return the first values that are tried of a series; {} if it is not tuned. Raises UserError
    as `combinations`."""
    return combinations(training, choice, where)[0] if TUNE in choice.options else {}


def _grid(choice: Choice, where: str) -> dict[str, list[Any]]:
    grid = choice.options[TUNE]
    if (
        not isinstance(grid, dict)
        or not grid
        or not all(isinstance(values, list) and values for values in grid.values())
    ):
        raise UserError(
            f"{where}.{TUNE}: expected options with lists of values, e.g. {{lr: [0.01, 0.1]}} "
            f"(got {grid!r})"
        )
    known = [
        *registry.options_model("algorithms", choice.name).model_fields,
        *Training.model_fields,
    ]
    for name, values in grid.items():
        if name not in known:
            raise UserError(f"{where}.{TUNE}: {unknown_name_message('option', name, known)}")
        if len({repr(value) for value in values}) < len(values):
            raise UserError(
                f"{where}.{TUNE}.{name}: values must be unique. Remove the repeated one."
            )
    return grid


def settings_digest(training: Experiment, choice: Choice) -> str:
    """Return the hash of the settings on which a series' choice depends."""
    left_out = {"series", "seeds", "studies", "measures"}
    return provenance.value_digest(
        [training.model_dump(mode="json", exclude=left_out), choice.model_dump(mode="json")]
    )


def untuned(training: Experiment, chosen: Mapping[str, Chosen]) -> tuple[str, ...]:
    """Return the series with a grid for which no values were chosen with these settings."""
    tuned = {label: choice for label, choice in training.series.items() if TUNE in choice.options}
    return tuple(
        label
        for label, choice in tuned.items()
        if label not in chosen or chosen[label].settings != settings_digest(training, choice)
    )
