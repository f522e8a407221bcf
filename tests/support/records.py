"""Records of claims with their verdicts, as read_verdicts returns them."""

from fedrepro.report.verdicts.summary import Record

TEXTS = dict.fromkeys(("claim", "source", "reported", "ours", "asked", "why", "note", "key", "experiment", "artifact"), "")
TEXTS |= dict.fromkeys(("tolerance", "registered", "headline", "panel_means", "measure", "calibrated", "lean"), "")
NUMBERS = dict.fromkeys(("mean", "half_width", "seeds", "p", "p_holm", "reported_number", "seeds_needed"))


def record(**changes) -> Record:
    """A record without texts and numbers but those that are given."""
    return Record(**{"verdict": "not tested", "by": "the paper", "unit": "points", "panels": 1} | TEXTS | NUMBERS | changes)
