"""Failures of a job: a JSON file next to the job's log, and one line each on the terminal."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedrepro.core.errors import UserError
from fedrepro.core.files import atomic_write, read_records


def failures_file(log: Path) -> Path:
    """Return the JSON file of the failures of the job with this log."""
    return log.with_suffix(".failures.json")


def write(log: Path, failures: Mapping[str, BaseException]) -> None:
    """Write the failures of a job, keyed by the name of the run, study or rule that failed."""
    records = [
        {
            "name": name,
            "message": str(error)
            if isinstance(error, UserError)
            else f"{type(error).__name__}: {error}",
        }
        for name, error in failures.items()
    ]
    with atomic_write(failures_file(log)) as path:
        path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def describe(rule: str, logs: Sequence[str], names: Mapping[str, str]) -> str:
    """Describe the failures of a job, each by the first line of its message; `names` maps names in
    the file to titles."""
    if not logs:
        return f"FAILED {rule}"
    log = Path(logs[0])
    records = (
        read_records(failures_file(log), "name", "message") if failures_file(log).exists() else []
    )
    records = records or [{"name": rule, "message": "its process ended without a message"}]
    lines = []
    for record in records:
        name, message = record["name"], record["message"]
        lines.append(f"FAILED {names.get(name, name)}: {message.partition(chr(10))[0]}")
    return "\n".join([*lines, f"  its log: {log}"])
