"""Records of claims with their verdicts, as read_verdicts returns them."""

from fedrepro.report.verdicts.summary import Record

TEXTS = dict.fromkeys(
    (
        "claim",
        "source",
        "reported",
        "ours",
        "asked",
        "why",
        "note",
        "key",
        "experiment",
        "artifact",
    ),
    "",
)
TEXTS |= dict.fromkeys(("tolerance", "registered", "headline", "measure", "calibrated", "lean"), "")
NUMBERS = dict.fromkeys(
    (
        "mean",
        "half_width",
        "standard_error",
        "seeds",
        "p",
        "p_holm",
        "reported_number",
        "seeds_needed",
    )
)


def record(**changes) -> Record:
    """A record without texts and numbers but those that are given."""
    other = {
        "verdict": "not tested",
        "by": "the paper",
        "unit": "points",
        "panels": 1,
        "samples": {},
    }
    return Record(**other | TEXTS | NUMBERS | changes)
