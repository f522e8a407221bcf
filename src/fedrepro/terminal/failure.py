"""What failed and why, in one line each, from a job's log."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

FAILED = re.compile(r"^\S+ \S+ (\S+) failed: (.*)$", re.MULTILINE)  # as errors.Failures logs it
STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ ")


def told(rule: str, logs: Iterable[Path], names: Mapping[str, str]) -> str:
    """Of a job that failed; `names`: run -> how it is called."""
    for log in logs:
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        runs = FAILED.findall(text)
        lines = [f"FAILED {names.get(run, run)}: {why}" for run, why in runs] or [f"FAILED {rule}: {_last(text)}"]
        return "\n".join([*lines, f"  its log: {log}"])
    return f"FAILED {rule}"


def _last(text: str) -> str:
    """The last line that says something: of a traceback the exception."""
    lines = [line for line in text.splitlines() if line.strip()]
    return STAMP.sub("", lines[-1]) if lines else "it left no message"
