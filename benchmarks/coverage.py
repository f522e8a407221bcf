"""How often the intervals of `report.inference.moderated` hold the true difference: `python -m benchmarks.coverage`.

Families of differences over three seeds whose variances follow one of five laws; `kept` resamples the variances of a paper's
tested differences in `reports/small`. Printed for each law and size of a family: coverage, and mean width as a share of the
ordinary t interval's.
"""

import json
import sys
from pathlib import Path

import numpy as np

from fedrepro.report import inference
from fedrepro.report.statistics import Estimate, estimate

SEEDS = 3
LAWS = {
    "inverse chi-square": lambda draw, size: 4 / draw.chisquare(4, size),
    "equal": lambda draw, size: np.ones(size),
    "log-normal": lambda draw, size: np.exp(draw.normal(0, 1, size)),
    "two groups": lambda draw, size: np.where(draw.random(size) < 0.5, 0.1, 1.0),
    "kept": lambda draw, size: draw.choice(KEPT[draw.integers(len(KEPT))], size),
}


def kept_variances(path: Path) -> list[float]:
    """Return the sample variances of the differences that a file of verdicts tests, those over several panels left out."""
    verdicts = json.loads(path.read_text(encoding="utf-8"))
    tests = [one for one in verdicts if one["p"] is not None and one["half_width_t"] and one["panels"] == 1]
    return [one["half_width_t"] ** 2 * one["seeds"] / Estimate(0, 1, one["seeds"]).quantile(0.975) ** 2 for one in tests]


KEPT = [kept_variances(path) for path in sorted(Path("reports/small").glob("*/tables/verdicts.json"))]


def coverage(law: str, size: int, families: int, limit: float, draw: np.random.Generator) -> tuple[float, float, float]:
    """Return the coverage of ordinary and of moderated 95 % intervals, and the ratio of their mean half widths."""
    ordinary, moderated, widths = 0, 0, [0.0, 0.0]
    for _ in range(families):
        deviations = np.sqrt(LAWS[law](draw, size))
        plain = [estimate(values) for values in (draw.normal(0, 1, (size, SEEDS)) * deviations[:, None]).tolist()]
        shrunk = inference.moderated(plain, limit)
        ordinary += sum(abs(one.mean) <= one.half_width for one in plain)
        moderated += sum(abs(one.mean) <= one.half_width for one in shrunk)
        widths[0] += sum(one.half_width for one in plain)
        widths[1] += sum(one.half_width for one in shrunk)
    return ordinary / (families * size), moderated / (families * size), widths[1] / widths[0]


def main() -> None:
    families = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    write = sys.stdout.write
    write("| variances | differences | prior degrees at most | t interval | moderated | width |\n|---|--:|--:|--:|--:|--:|\n")
    for law in LAWS:
        for size in (8, 20):
            for limit in (4.0, 1e6):
                plain, shrunk, width = coverage(law, size, families, limit, np.random.default_rng(size))
                most = "4" if limit == 4 else "no limit"
                write(f"| {law} | {size} | {most} | {100 * plain:.1f} % | {100 * shrunk:.1f} % | {width:.2f} |\n")


if __name__ == "__main__":
    main()
