"""Methods whose steps are checked in a test file of their own."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "algorithms"


def own_checks(check: str) -> set[str]:
    """The methods that `test_<method>.py` checks with `check_client` or `check_server`."""
    texts = {
        path.stem.removeprefix("test_"): path.read_text(encoding="utf-8")
        for path in FOLDER.glob("test_*.py")
    }
    return {name for name, text in texts.items() if re.search(rf'\b{check}\("{name}"', text)}
