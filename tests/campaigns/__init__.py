"""Long tests that draw their cases: kills at random times, bad inputs, damaged files. No part of
the default run.

Each is one command, `python -m tests.campaigns.<module> --seed 0 --count 10`. It draws from a seed,
prints its figures and ends with exit code 1 where a case failed, with the command that repeats that
case alone.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # what the tests share
