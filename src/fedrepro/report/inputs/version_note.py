"""What artifacts were made with: the package's version, and the commits of the runs behind them."""

from collections.abc import Iterable

from fedrepro import __version__
from fedrepro.report.inputs.gathered import Results


def version() -> str:
    return f"fedrepro {__version__}"


def told(results: Iterable[Results]) -> str:
    """Version, and the runs' commits with their dates, where they are known; the oldest first."""
    runs = [run for found in results for run in found.runs()]
    commits = sorted({(run.get("commit_date") or "", run["commit"]) for run in runs})
    named = [f"{commit} ({date[:10]})" if date else commit for date, commit in commits]
    return f"{version()}{'; runs at commit ' + ', '.join(named) if named else ''}"
