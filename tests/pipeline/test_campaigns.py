"""The campaigns draw inputs that are wrong."""

import random
import sys

from support.checkout import ROOT

sys.path.insert(0, str(ROOT))
from tests.campaigns import hostile


def test_what_is_drawn_is_not_what_was_right():
    draw = random.Random(0)
    for values in hostile.RIGHT.values():
        assert all(repr(hostile.spoiled(values, draw)[0]) != repr(values) for _ in range(30))
    for damage, change in hostile.DAMAGES.items():
        # which may be there already
        assert damage == "zeros" or change(b"some 12\nbytes 3\n", draw) != b"some 12\nbytes 3\n"
