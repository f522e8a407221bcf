"""What is sent: bytes that a participant receives and sends in a round, how many more than with a baseline, and bytes until
each target; one row for each panel, target and series."""

from fedrepro.report.evidence import Evidence, Panel
from fedrepro.report.known import Known
from fedrepro.report.numbers import NONE, arrivals, mean, megabytes, unit
from fedrepro.report.tables import base


class Table(base.WithTargets):
    def check(self, known: Known) -> None:
        super().check(known)
        for ref in self.panels:
            series = known.experiments[ref.experiment].get("series", {})
            if own := [name for name, choice in series.items() if "clients_per_round" in choice.get("with", {})]:
                known.at("panels").refuse(f"{ref.key}: {', '.join(own)} has its own clients_per_round")

    def rows(self, panels: list[Panel], evidence: Evidence) -> list[dict[str, str]]:
        rows = []
        for panel in panels:
            if panel.skipped:
                rows.append({"Panel": panel.key, "Series": base.NOT_RUN})
                continue
            for target in self.at(panel) or (None,):
                rows += [self._row(panel, label, target) for label in panel.results.labels]
        return rows

    def _row(self, panel: Panel, label: str, target: float | None) -> dict[str, str]:
        """Bytes of one participant in one round, mean over rounds and seeds; 10^6 bytes of all of them until the target."""
        down, up = (_bytes(panel, label, way) for way in ("bytes_down", "bytes_up"))
        weights = sorted({run["weights"] for run in panel.results.runs(label)})
        row = {"Panel": panel.key, "Series": label, "Weights": ", ".join(map(str, weights))}
        row |= {"Bytes down": f"{down:.0f}", "Bytes up": f"{up:.0f}"}
        usual = sum(_bytes(panel, self.baseline, way) for way in ("bytes_down", "bytes_up"))
        row["More than " + self.baseline] = NONE if label == self.baseline else f"{100 * ((down + up) / usual - 1):+z.4f} %"
        row |= {f"Target ({unit(panel.measure)})": NONE} if target is None else base.target(panel, target)
        row["MB to target"] = NONE if target is None else self._megabytes(panel, label, target)
        return row | {"Seeds": panel.seeds(label)}

    def _megabytes(self, panel: Panel, label: str, target: float) -> str:
        """Rounds to the target times the 10^6 bytes that all participants of a round receive and send."""
        rates = {run["seed"]: megabytes(run) for run in panel.results.runs(label)}
        reached = {seed: panel.rounds_to(curve, target, self.smooth) for seed, curve in panel.curves(label).items()}
        return arrivals([None if count is None else count * rates[seed] for seed, count in reached.items()], 2)

    def told(self, panels: list[Panel]) -> list[str]:
        smooth = f" as a mean of {self.smooth} rounds" if self.smooth > 1 else ""
        parts = ["Weights: of the model that is sent", "Bytes: of one participant in one round, mean over the rounds"]
        parts.append(f"More than {self.baseline}: down and up together")
        total = f"until {base.measured(panels)} first reaches the target{smooth}"
        return [*parts, f"MB to target: millions of bytes, down and up, of all participants, {total}"]


def _bytes(panel: Panel, label: str, way: str) -> float:
    """Of one participant in one round, mean over the rounds and over the seeds."""
    participants = panel.results.note["training"]["clients_per_round"]
    return mean([run[way] / max(run["rounds"], 1) / participants for run in panel.results.runs(label)])
