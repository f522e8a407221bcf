"""Markdown page of a result file."""

import statistics
from typing import Any

from benchmarks import summary

TITLES = {
    "ours": "this program",
    "loader": "DataLoader loop",
    "jax": "JAX loop",
    "flower": "Flower simulation",
    "pfl": "pfl-research",
}
FAR = 0.05  # difference of accuracies that gets a note


def render(result: dict[str, Any]) -> str:
    """Return the page."""
    parts = [_head(result)]
    for name, described in result["workloads"].items():
        parts += [
            _workload(name, described),
            _kernels(result, name),
            _comparison(result, name),
            _scans(result, name),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(result: dict[str, Any]) -> str:
    hardware, protocol = result["hardware"], result["protocol"]
    used = hardware.get("gpu") or f"{hardware['processor']}, {hardware['cores']} cores"
    versions = {
        f"{key} ({side})": value
        for side, found in result["versions"].items()
        for key, value in found.items()
    }
    return "\n".join(
        [
            f"# Benchmarks, {used}",
            "",
            f"- Machine: {hardware['processor']}, {hardware['cores']} cores, "
            f"{hardware['memory_gib']:g} GiB, {hardware['system']}",
            "- Versions: " + ", ".join(f"{key} {value}" for key, value in versions.items()),
            "- Protocol: turns of every contender, taken alternately; "
            f"{protocol['threads_per_process']} thread per process; warm-up rounds excluded, "
            "device synchronised at both ends of a round; a turn's number is its median round "
            f"plus 1/{protocol['evaluate_every']} of what an evaluation adds; the table has the "
            "median turn and, in brackets, the least and the most; our executor: "
            f"{protocol['executor']}.",
        ]
    )


def _workload(name: str, described: dict[str, Any]) -> str:
    config, work = described["config"], described["operations"]
    return (
        f"## {name}: {described['title']}\n\n{config['clients_per_round']} clients per round, "
        f"batch {config['batch_size']}, {config['local_epochs']} local epoch(s), "
        f"{described['steps']} local steps and {work['training'] / 1e9:.4g} GFLOP a round, "
        f"{described['weights']:,} weights; an evaluation takes {work['evaluation'] / 1e9:.4g} "
        "GFLOP."
    )


def _kernels(result: dict[str, Any], name: str) -> str:
    """Return a sentence on the share of time in kernels and their speed."""
    found = summary.kernels(result, name)
    if not found:
        return ""
    return (
        f"In one process, this program spends {found['share']:.0%} of the processor time of a "
        "round's training inside the kernels of convolution, matrix product and pooling, at "
        f"{found['rate'] / 1e9:.1f} GFLOP/s."
    )


def _comparison(result: dict[str, Any], name: str) -> str:
    counts = sorted(
        {record["processes"] for record in result["measurements"] if record["workload"] == name}
    )
    made = {count: summary.rows(result, name, count) for count in counts}
    lines = [
        "| processes | | s per round | steps/s | times ours | memory, MiB | accuracy |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_row(count, row) for count, found in made.items() for row in found]
    notes = [
        note
        for count, found in made.items()
        for note in _notes(result["workloads"][name], count, found)
    ]
    turns = len(
        {record["repeat"] for record in result["measurements"] if record["workload"] == name}
    )
    when = summary.measured(
        record for record in result["measurements"] if record["workload"] == name
    )
    head = f"{turns} turn{'s' * (turns > 1)} of every contender, {when}."
    return "\n".join([head, "", *lines, *([""] if notes else []), *notes]) if counts else ""


def _row(count: int, row: dict[str, Any]) -> str:
    title = TITLES[row["contender"]]
    if "failed" in row:
        return f"| {count} | {title} | failed: {row['failed'].replace('|', '/')} | | | | |"
    memory = f"{row['memory'] / 2**20:.0f}" + (
        f" + {row['device_memory'] / 2**20:.0f} GPU" if row["device_memory"] else ""
    )
    spread = f"{row['seconds']:.4g} ({row['least']:.4g}-{row['most']:.4g})"
    ratio = f"{row['ratio']:.2f}" if row["ratio"] else "-"
    accuracy = "-" if row["accuracy"] is None else f"{row['accuracy']:.1%} (round {row['round']})"
    cells = (count, title, spread, f"{row['steps_per_second']:.4g}", ratio, memory, accuracy)
    return f"| {' | '.join(map(str, cells))} |"


def _notes(described: dict[str, Any], count: int, found: list[dict[str, Any]]) -> list[str]:
    """Return notes on contenders that did other work or reached other accuracies."""
    steps = described["steps"]
    notes = [
        f"- {TITLES[row['contender']]}, {count} process(es): {row['steps']:g} local steps a "
        f"round instead of {steps}."
        for row in found
        if "steps" in row and round(row["steps"]) != steps
    ]
    accuracies = [row["accuracy"] for row in found if row["accuracy"] is not None]
    if accuracies and max(accuracies) - min(accuracies) > FAR:
        notes.append(
            f"- {count} process(es): the accuracies lie {max(accuracies) - min(accuracies):.1%} "
            f"apart."
        )
    return notes


def _scans(result: dict[str, Any], name: str) -> str:
    """Return the table of scans over cohort size and width."""
    records = [record for record in result["scans"] if record["workload"] == name]
    if not records:
        return ""
    lines = [
        f"Scans, {summary.measured(records)}.",
        "",
        "| this program, one process | s per round | ms per client | steps/s |",
        "|---|---|---|---|",
    ]
    return "\n".join(lines + [_scan(result, name, record) for record in records])


def _scan(result: dict[str, Any], name: str, record: dict[str, Any]) -> str:
    change = ", ".join(f"{key} {value:g}" for key, value in record["change"].items())
    if "failed" in record:
        return f"| {change} | failed: {record['failed'].replace('|', '/')} | | |"
    spent = summary.seconds(record)
    plain = [
        s
        for s, tested in zip(
            record["results"][0]["seconds"], record["results"][0]["evaluated"], strict=True
        )
        if not tested
    ]
    cohort = record["change"].get(
        "cohort", result["workloads"][name]["config"]["clients_per_round"]
    )
    client = 1000 * statistics.median(plain or [spent]) / cohort
    return f"| {change} | {spent:.4g} | {client:.4g} | {record['steps'] / spent:.4g} |"
