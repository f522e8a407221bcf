"""The measures of a run: columns that an experiment selects by `measures`, with their titles and
units.

Imports no torch, since reports use it; `training/evaluation.py` computes the measures.
"""

from dataclasses import dataclass
from typing import Literal

# top class of a unit without positive preferences, in the table of the study `preferences`
NO_CLASS = -1


@dataclass(frozen=True)
class Measure:
    """The `score` of a model on the whole test or validation set, or the mean over clients of the
    score on each client's own part of it."""

    title: str  # in sentences, without its unit
    score: Literal["accuracy", "loss", "macro_f1"]
    # after the round; as sent to a client; after its local training
    model: Literal["global", "received", "trained"] = "global"
    # the clients whose parts are used; None: the whole set
    over: Literal["participants", "clients"] | None = None
    # number of images in each batch, whose scores are averaged; None: all images at once
    batch: int | None = None
    images: Literal["test", "validation"] = "test"
    label: str = ""  # on an axis, if the title is too long for one

    @property
    def percent(self) -> bool:
        """Return whether the measure is stored as 0..1 and shown as 0..100 %."""
        return self.score != "loss"

    @property
    def axis(self) -> str:
        """Return the label of an axis, with the unit."""
        return f"{self.label or self.title} ({'%' if self.percent else 'nats'})"


BEFORE, AFTER = "own-test accuracy before local training", "own-test accuracy after local training"
OWN_VALIDATION = "accuracy on own validation images after local training"
MEASURES = {
    "test_accuracy": Measure("test accuracy", "accuracy"),
    "test_loss": Measure("test loss", "loss"),
    "test_macro_f1": Measure("macro-F1 on the test set", "macro_f1"),
    "test_macro_f1_batches": Measure(
        "macro-F1 on the test set, mean over batches of 32", "macro_f1", batch=32
    ),
    "validation_accuracy": Measure("validation accuracy", "accuracy", images="validation"),
    "validation_loss": Measure("validation loss", "loss", images="validation"),
    "validation_macro_f1": Measure(
        "macro-F1 on the validation set", "macro_f1", images="validation"
    ),
    "initial_accuracy": Measure(
        BEFORE, "accuracy", "received", "participants", label="initial accuracy"
    ),
    "personal_accuracy": Measure(AFTER, "accuracy", "trained", "participants"),
    "initial_accuracy_all": Measure(
        f"{BEFORE}, all clients", "accuracy", "received", "clients", label="initial accuracy"
    ),
    "personal_accuracy_all": Measure(f"{AFTER}, all clients", "accuracy", "trained", "clients"),
    "validation_personal_accuracy": Measure(
        OWN_VALIDATION, "accuracy", "trained", "participants", images="validation"
    ),
    "validation_personal_accuracy_all": Measure(
        f"{OWN_VALIDATION}, all clients", "accuracy", "trained", "clients", images="validation"
    ),
}
# the default of `measures`
USUAL = ("test_accuracy", "test_loss", "initial_accuracy", "personal_accuracy")
