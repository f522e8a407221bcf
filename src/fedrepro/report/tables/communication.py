"""What is computed and sent: multiply-adds of the network, bytes that a participant receives and sends in a round, how many
more than with a baseline, and bytes until each target; one row for each panel, target and series."""

from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Number, reached_cell, significant_cell
from fedrepro.report.statistics import mean
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row, mark_best

TOTAL = "MB to target"
WORK = "Multiply-adds"


class Table(base.TargetTable):
    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        for ref in self.panels:
            if own := [
                name
                for name, choice in checker.series(ref.experiment).items()
                if "clients_per_round" in choice.get("overrides", {})
            ]:
                checker.at("panels").fail(f"{ref.key}: {', '.join(own)} has its own clients_per_round")

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        found: list[Row] = []
        for panel in panels:
            for target in self.targets_at(panel) or (None,):
                group = [self._row(panel, label, target) for label in panel.results.labels]
                mark_best(group, TOTAL, lowest=True, excluded=base.diverged_series(panel))
                found += group
        return found

    def _row(self, panel: ExperimentView, label: str, target: float | None) -> Row:
        """Bytes of one participant in one round, mean over rounds and seeds; 10^6 bytes of all of them until the target."""
        down, up = (_bytes(panel, label, way) for way in ("bytes_down", "bytes_up"))
        more = Number()
        if label != self.baseline and self.baseline not in panel.results.unfinished_series:
            usual = sum(_bytes(panel, self.baseline, way) for way in ("bytes_down", "bytes_up"))
            more = Number(100 * ((down + up) / usual - 1), 4, signed=True)
        row: Row = {"Panel": panel.name, "Series": label, "Weights": _weights(panel, label)} | _work(panel, label)
        row |= {"Bytes down": Number(down), "Bytes up": Number(up), f"More than {self.baseline} (%)": more}
        if target is None:
            return row
        return row | base.target_cell(panel, target) | {TOTAL: self._megabytes(panel, label, target)}

    def _megabytes(self, panel: ExperimentView, label: str, target: float) -> Number:
        """10^6 bytes that all participants have received and sent in the rounds up to the target."""
        reached = {seed: panel.rounds_to(curve, target, self.smooth) for seed, curve in panel.curves(label).items()}
        sent = {seed: _sent(panel, label, seed, last) for seed, last in reached.items() if last is not None}
        return reached_cell([sent.get(seed) for seed in reached], 2)

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        smooth = f" as a mean of {self.smooth} measured rounds" if self.smooth > 1 else ""
        parts = ["Weights: of the model that is sent", "Bytes: of one participant in one round, mean over the rounds"]
        parts.append(f"More than {self.baseline}: down and up together")
        if any(_work(panel, label) for panel in panels for label in panel.results.labels):
            parts.append(f"{WORK}: millions, of an image on its way through the network's convolutions and dense layers")
        if any(self.targets_at(panel) for panel in panels):
            total = f"until {base.measures_sentence(panels)} first reaches the target{smooth}"
            parts.append(f"{TOTAL}: millions of bytes, down and up, of all participants, {total}")
            parts += base.received_sentence(panels)
        return [*parts, *base.no_target_sentence(panels, {panel.name: self.targets_at(panel) for panel in panels})]


def _sent(panel: ExperimentView, label: str, seed: int, last: int) -> float:
    """10^6 bytes of all participants in the rounds of a seed's run up to the `last`."""
    rows = [row for row in panel.results.finished_rows(label) if int(row["seed"]) == seed and int(row["round"]) <= last]
    return sum(int(row["bytes_down"]) + int(row["bytes_up"]) for row in rows) / 1e6


def _weights(panel: ExperimentView, label: str) -> Number:
    found = sorted({run["weights"] for run in panel.results.runs(label)})
    return Number(found[0]) if len(found) == 1 else Number(placeholder=", ".join(map(str, found)))


def _work(panel: ExperimentView, label: str) -> Row:
    """The column of multiply-adds, two operations each; nothing where earlier code did not count them."""
    found = {run.get("operations") for run in panel.results.runs(label)}
    return {} if None in found or len(found) != 1 else {WORK: significant_cell(found.pop() / 2e6, 4)}


def _bytes(panel: ExperimentView, label: str, way: str) -> float:
    """Of one participant in one round, mean over the rounds and over the seeds."""
    participants = panel.results.note["training"]["clients_per_round"]
    return mean([run[way] / max(run["rounds"], 1) / participants for run in panel.results.runs(label)])
