"""What failed and why, in one line each, from a job's log."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

# as errors.Failures logs a run, or a study of one; not as the error that sums them up
FAILED = re.compile(r"^\d\S+ \d\S+ ((?:\S[^:\n]*? of )?)([^\s:]+) failed: (.*)$", re.MULTILINE)
STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ ")


def told(rule: str, logs: Iterable[Path], names: Mapping[str, str]) -> str:
    """Of a job that failed; `names`: run -> how it is called."""
    for log in logs:
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        found = FAILED.findall(text)
        lines = [f"FAILED {study}{names.get(run, run)}: {why}" for study, run, why in found]
        lines = lines or [f"FAILED {rule}: {_last(text)}"]
        return "\n".join([*lines, f"  its log: {log}"])
    return f"FAILED {rule}"


def _last(text: str) -> str:
    """The last line that says something: of a traceback the exception."""
    lines = [line for line in text.splitlines() if line.strip()]
    return STAMP.sub("", lines[-1]) if lines else "it left no message"
