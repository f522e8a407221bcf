"""Write and show what failed in a job: a JSON file beside the job's log, a line each on the terminal."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedrepro.core.errors import UserError
from fedrepro.core.files import atomic_write, read_records


def failures_file(log: Path) -> Path:
    """Return where the failures of the job with this log are written."""
    return log.with_suffix(".failures.json")


def write(log: Path, failures: Mapping[str, BaseException]) -> None:
    """Write the failures of a job, by the name of what failed: a run's, a study's, the rule's."""
    told = [
        {"name": name, "message": str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"}
        for name, error in failures.items()
    ]
    with atomic_write(failures_file(log)) as path:
        path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def describe(rule: str, logs: Sequence[str], names: Mapping[str, str]) -> str:
    """Describe the failures of a job, each by the first line of its message; `names` maps names in the file to shown ones."""
    if not logs:
        return f"FAILED {rule}"
    log = Path(logs[0])
    found = read_records(failures_file(log), "name", "message") if failures_file(log).exists() else None
    found = found or [{"name": rule, "message": "its process ended without a message"}]
    lines = [f"FAILED {names.get(one['name'], one['name'])}: {one['message'].partition(chr(10))[0]}" for one in found]
    return "\n".join([*lines, f"  its log: {log}"])
