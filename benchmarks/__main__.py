"""The benchmarks' command line: `uv run python -m benchmarks`."""

import argparse
import datetime
import json
import logging
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import contenders, machine, plan, processes, summary, table, workloads
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import atomic_write
from fedrepro.data import datasets
from fedrepro.runs.paths import Paths
from fedrepro.training import runner

log = logging.getLogger("benchmarks")
HERE = Path(__file__).resolve().parent
PEERS = HERE / ".venv"
PARTS = ("comparisons", "scans")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    available = workloads.read()
    parser = argparse.ArgumentParser(
        "benchmarks", description="Time this program and its peers on the same work."
    )
    parser.add_argument("--workloads", nargs="+", choices=list(available), default=list(available))
    parser.add_argument(
        "--contenders", nargs="+", choices=contenders.NAMES, default=list(contenders.NAMES)
    )
    parser.add_argument(
        "--processes", nargs="+", type=int, default=[1, 2], help="how many at once (default: 1 2)"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="repeats of every contender (default: 3)"
    )
    parser.add_argument(
        "--rounds", type=int, help="rounds of every contender with warm-up; default: workloads.yaml"
    )
    parser.add_argument(
        "--executor", default="auto", help="our executor: see params.yaml (default: auto)"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        help="scans: over cohort size and width",
    )
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="folder of the data sets (default: data)"
    )
    parser.add_argument(
        "--mirror", help="folder or URL with the official files, instead of their sources"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=HERE / "results",
        help="folder of the result (default: results here)",
    )
    parser.add_argument(
        "--peers-python",
        type=Path,
        default=interpreter(PEERS),
        help="Python that has peers.txt installed",
    )
    parser.add_argument(
        "--install-peers",
        action="store_true",
        help="create that environment first, in benchmarks/.venv",
    )
    parser.add_argument(
        "--table", type=Path, metavar="JSON", help="only rewrite the table of a stored result"
    )
    return parser.parse_args(words)


def interpreter(environment: Path) -> Path:
    """Return the Python of a virtual environment."""
    return environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def install() -> None:
    """Create the peers' environment; their requirements conflict with this program's.

    uv is called in another folder, because here it would apply the versions that pyproject.toml
    pins."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    target, requirements = ["--python", str(interpreter(PEERS))], ["-r", str(HERE / "peers.txt")]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["uv", "venv", "--clear", "--python", python, str(PEERS)], check=True, cwd=folder
        )
        subprocess.run(["uv", "pip", "install", *target, *requirements], check=True, cwd=folder)


def settings(chosen: argparse.Namespace) -> plan.Settings:
    """Return the settings of the measurements; peers that are not installed are left out with a
    warning."""
    names = tuple(chosen.contenders)
    missing = [
        name for name in names if name in contenders.PEERS and not chosen.peers_python.exists()
    ]
    if missing:
        log.warning(
            "without %s, which are not installed: see --install-peers", " and ".join(missing)
        )
        names = tuple(name for name in names if name not in missing)
    available = workloads.read()
    return plan.Settings(
        workloads={name: available[name] for name in chosen.workloads},
        contenders=names,
        processes=tuple(chosen.processes),
        repeats=chosen.repeats,
        rounds=chosen.rounds,
        executor=chosen.executor,
        device=chosen.device,
        data=chosen.data,
        python=sys.executable,
        peers=str(chosen.peers_python),
        comparisons="comparisons" in chosen.parts,
        scans="scans" in chosen.parts,
    )


def new_result(run: plan.Settings, mirror: str | None) -> dict[str, Any]:
    """Return a result without measurements: hardware, versions, protocol and workloads. Prepares
    the data."""
    chosen = {
        datasets.key(choice): choice
        for choice in (workload.config(1).dataset for workload in run.workloads.values())
    }
    identities = {
        name: runner.provide_dataset(chosen[name], Paths(run.data), mirror).meta["identity"]
        for name in sorted(chosen)
    }
    versions = {"ours": machine.versions()}
    if any(name in contenders.PEERS for name in run.contenders):
        versions["peers"] = processes.together([["versions"]], run.peers, waits=False)[0][0]
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": run.device,
        "hardware": machine.hardware(run.device),
        "versions": versions,
        "protocol": {
            "evaluate_every": workloads.EVALUATE_EVERY,
            "executor": run.executor,
            "threads_per_process": 1,
        },
        "datasets": identities,
        "workloads": {name: summary.facts(workload) for name, workload in run.workloads.items()},
        "kernels": [],
        "measurements": [],
        "scans": [],
    }


def add_earlier(result: dict[str, Any], run: plan.Settings, folder: Path) -> dict[str, Any]:
    """Add measurements of an earlier call, with the same machine and versions, that this call will
    not repeat."""
    path = folder / f"{summary.kind(result)}.json"
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"hardware": None}
    if (
        old["hardware"] != result["hardware"]
        or not result["versions"].items() <= old["versions"].items()
    ):
        return result
    merged = {key: old[key] | result[key] for key in ("versions", "datasets", "workloads")}
    for key, again in (
        ("kernels", run.comparisons),
        ("measurements", run.comparisons),
        ("scans", run.scans),
    ):
        merged[key] = [
            record for record in old[key] if not again or record["workload"] not in run.workloads
        ]
    return result | merged


def store(result: dict[str, Any], folder: Path) -> Path:
    """Write the result as JSON and its table as Markdown; returns the JSON file."""
    path = folder / f"{summary.kind(result)}.json"
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    with atomic_write(path.with_suffix(".md")) as temporary:
        temporary.write_text(table.render(result), encoding="utf-8")
    return path


def run(chosen: argparse.Namespace) -> Path:
    """Make all measurements, each of which is stored at once; returns the result file."""
    if chosen.install_peers:
        install()
    options = settings(chosen)
    result = add_earlier(new_result(options, chosen.mirror), options, chosen.output)
    when = {"date": result["date"], "commit": provenance.current_commit()}
    for record in plan.measurements(options):
        key = "kernels" if "kernels" in record else "measurements"
        result["scans" if "change" in record else key].append(record | when)
        log.info("%s", summary.line(record))
        path = store(result, chosen.output)
    return path


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    chosen = arguments()
    try:
        path = chosen.table or run(chosen)
    except (UserError, processes.ChildFailed) as error:
        sys.exit(str(error))
    result = json.loads(path.read_text(encoding="utf-8"))
    if chosen.table:
        path.with_suffix(".md").write_text(table.render(result), encoding="utf-8")
    sys.stdout.write(table.render(result))


if __name__ == "__main__":
    main()
