"""A forest plot of claimed differences: our intervals at each scale, next to what the papers
report."""

import textwrap
from collections.abc import Sequence
from typing import Any

from fedrepro.report.figures import _layout

STYLES = {"paper": ("#000000", "s"), "small": ("#0072b2", "o")}  # scale -> colour and marker
OTHER_STYLE = ("#009e73", "^")
REPORTED_STYLE: dict[str, Any] = {
    "marker": "D",
    "color": "#707070",
    "markersize": 5,
    "linestyle": "none",
}
ROW = 0.3  # inches
LABEL_WIDTH = 62  # characters
DARK = """<style>@media screen and (prefers-color-scheme: dark) {
text { fill: #e3e6ea !important; }
[style*="stroke: #000000"], [style*="stroke: #262626"] { stroke: #e3e6ea !important; }
[style*="fill: #000000"], [style*="fill: #262626"] { fill: #e3e6ea !important; }
}</style>
"""


def draw(findings: Sequence[Any]) -> str:
    """Draw differences in points as an SVG, one row for each claim; several scales of one claim
    share a row.

    Args:
        findings: `verdicts.summary.Record`s.

    Returns:
        the SVG; it has no background, and light text where the reader's screen is dark.
    """
    _layout.set_print_style()
    rows: dict[tuple[str, str], list[Any]] = {}
    for finding in findings:
        rows.setdefault((finding.paper, finding.key), []).append(finding)
    drawing = _layout.new_figure(_layout.PAGE_WIDTH + 1, 0.8 + ROW * len(rows))
    axes = drawing.subplots()
    labels = []
    for place, of_claim in enumerate(rows.values()):
        record, tested = of_claim[0], [finding for finding in of_claim if finding.tested]
        if record.reported_number is not None:
            axes.plot(
                100 * record.reported_number,
                place,
                label="in the paper",
                zorder=2,
                **REPORTED_STYLE,
            )
        for finding in tested:
            colour, marker = STYLES.get(finding.scale, OTHER_STYLE)
            lower = 0.22 if len(tested) > 1 and finding is not tested[0] else 0
            style = {
                "color": colour,
                "marker": marker,
                "markersize": 4,
                "capsize": 2,
                "label": f"ours, scale {finding.scale}",
            }
            value, half = 100 * finding.mean, 100 * finding.half_width
            axes.errorbar(value, place + lower, xerr=half, zorder=3, **style)
        labels.append(
            "\n".join(textwrap.wrap(record.claim, LABEL_WIDTH, max_lines=2, placeholder=" …"))
        )
    limit = _limit(findings)
    if limit is not None:
        axes.set_xlim(-limit, limit)
        for place, of_claim in enumerate(rows.values()):
            _mark_beyond(axes, place, of_claim, limit)
    axes.axvline(0, color="#8a8a8a", linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlabel("difference (points), mean with its 95 % interval")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    drawing.legend(
        handles.values(),
        handles.keys(),
        loc="outside upper center",
        ncols=len(handles) or 1,
        frameon=False,
    )
    text = _layout.svg(drawing, transparent=True)
    styles = text.index("<defs>")
    return text[:styles] + DARK + text[styles:]


def _mark_beyond(axes: Any, place: int, of_claim: Sequence[Any], limit: float) -> None:
    """Write a row's numbers that lie beyond the axis at its edge, the paper's in grey, and mark the
    intervals that it cuts."""
    tested = [finding for finding in of_claim if finding.tested]
    numbers = [
        (100 * finding.mean, "", STYLES.get(finding.scale, OTHER_STYLE)[0]) for finding in tested
    ]
    if (reported := of_claim[0].reported_number) is not None:
        numbers.insert(0, (100 * reported, "paper ", REPORTED_STYLE["color"]))
    for number, (value, label, colour) in enumerate(numbers, 0 if reported is None else -1):
        if abs(value) > limit:  # the paper's above our interval, those of further scales below
            edge, side = (limit, "right") if value > 0 else (-limit, "left")
            axes.text(
                edge,
                place + 0.3 * number,
                f"{label}{value:+.1f}",
                ha=side,
                va="center",
                fontsize=7,
                color=colour,
            )
    for finding in tested:
        value, half = 100 * finding.mean, 100 * finding.half_width
        for edge, end, marker in ((limit, value + half, ">"), (-limit, -value + half, "<")):
            if end > limit and abs(value) <= limit:
                axes.plot(
                    edge,
                    place,
                    marker=marker,
                    color=STYLES.get(finding.scale, OTHER_STYLE)[0],
                    markersize=3,
                    clip_on=False,
                )


def _limit(findings: Sequence[Any]) -> float | None:
    """Return how far the axis reaches, in points, if a few differences are so large that the others
    would look alike."""
    reach = [100 * (abs(one.mean) + one.half_width) for one in findings if one.tested]
    reach += [
        100 * abs(record.reported_number)
        for record in findings
        if record.reported_number is not None
    ]
    reach.sort()
    usual = 1.3 * reach[int(0.85 * (len(reach) - 1))] if reach else 0.0
    return usual if 0 < 2 * usual < reach[-1] else None
