"""Protocols: what is tested of a headline claim, how and with how many seeds, written before its
runs.

The fields follow Hofman et al., Pre-registration for Predictive Modeling, 2023.
"""

from typing import Literal

from pydantic import Field

from fedrepro.config.types import Count, Frozen, Positive

POWER_LEVEL = 0.05  # of the two-sided t test


class Protocol(Frozen):
    """The protocol of one claim in claims.yaml, whose key it has; the claim and its experiments
    hold what is computed."""

    question: str = Field(description="what is asked, in one sentence")
    sentence: str = Field(
        "", description="of the abstract, word for word; empty: an explanation of another result"
    )
    numbers: str = Field("", description="the paper's, and where they stand")
    reading: str = Field("", description="what the sentence is taken to mean")
    quantity: str = Field(
        description="the number per seed; one t interval (95 %) over seeds, corrected by Holm, "
        "decides"
    )
    target: str = Field("", description="how the target was set, without any run that counts")
    kept: str = Field(description="settings that are the paper's")
    reduced: dict[str, str] = Field(
        description="setting that is not -> why the claim can still live there"
    )
    seeds: Count = Field(description="number of seeds of each series")
    effect: Positive | None = Field(
        None, description="to be found: the paper's, in points or percent; null: it gives none"
    )
    sd: Positive | None = Field(
        None, description="standard deviation over seeds that is planned with; null: unknown"
    )
    sd_from: str = Field("", description="the runs that it was taken from")
    precision: Literal["float32", "bfloat16"] = Field("float32", description="of local training")
    core_hours: float = Field(
        ge=0, le=6, description="of a core of an AMD EPYC (Zen 4), by measured seconds"
    )
    if_no: str = Field(description="what a contradiction would mean")

    def power(self, share: float = 1.0, tests: int = 1) -> float | None:
        """Return the probability of a support if the true effect is this share of the planned one.

        Args:
            tests: among which Bonferroni's correction, the first step of Holm's, divides the level.
        """
        from scipy.stats import nct, t  # slow to import

        if self.effect is None or self.sd is None:
            return None
        freedom = self.seeds - 1
        return float(
            nct.sf(
                t.ppf(1 - POWER_LEVEL / tests / 2, freedom),
                freedom,
                share * self.effect / self.sd * self.seeds**0.5,
            )
        )
