"""What can be measured of a run: the columns that an experiment asks for by `measures` in params.yaml, and how they are shown.

Light, so that reports need no torch; `training/evaluation.py` computes them.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Measure:
    """`score` of the named model, on the whole test set or on each client's own part of it and then averaged over clients."""

    title: str  # in sentences, without its unit
    score: Literal["accuracy", "loss", "macro_f1"]
    model: Literal["global", "received", "trained"] = "global"  # after the round; as sent to a client; after its local training
    over: Literal["participants", "clients"] | None = None  # whose own parts; None: the whole test set
    batch: int | None = None  # the score of each batch of so many images, averaged; None: of all at once
    label: str = ""  # on an axis, where the title is too long for one

    @property
    def percent(self) -> bool:
        """Whether it is stored as 0..1 and shown as 0..100 %."""
        return self.score != "loss"

    @property
    def axis(self) -> str:
        """What it is called on an axis, with its unit."""
        return f"{self.label or self.title} ({'%' if self.percent else 'nats'})"


BEFORE, AFTER = "own-test accuracy before local training", "own-test accuracy after local training"
MEASURES = {
    "test_accuracy": Measure("test accuracy", "accuracy"),
    "test_loss": Measure("test loss", "loss"),
    "test_macro_f1": Measure("macro-F1 on the test set", "macro_f1"),
    "test_macro_f1_batches": Measure("macro-F1 on the test set, mean over batches of 32", "macro_f1", batch=32),
    "initial_accuracy": Measure(BEFORE, "accuracy", "received", "participants", label="initial accuracy"),
    "personal_accuracy": Measure(AFTER, "accuracy", "trained", "participants"),
    "initial_accuracy_all": Measure(f"{BEFORE}, all clients", "accuracy", "received", "clients", label="initial accuracy"),
    "personal_accuracy_all": Measure(f"{AFTER}, all clients", "accuracy", "trained", "clients"),
}
USUAL = ("test_accuracy", "test_loss", "initial_accuracy", "personal_accuracy")  # where an experiment names none
