"""Tables, numbers and the report as LaTeX: contents of the files, and their use in an article
without edits."""

import re
from dataclasses import replace

import pytest

from fedrepro.core.errors import UserError
from fedrepro.report.artifacts import COLUMN_SHARES
from fedrepro.report.inputs import gathered
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.numbers import Number, mean_cell
from fedrepro.report.tables import _latex
from fedrepro.report.tables._grid import Grid, mark_best, slug
from fedrepro.report.tables._latex import escape
from fedrepro.report.verdicts import claim as claims
from fedrepro.report.verdicts import latex_macros
from fedrepro.report.verdicts.decide import decide, record_of
from support.records import record
from support.results import made
from support.tables import SERIES, A, B, compiled, evidence, needs_latex, own, table


def text_of(asked, **results: Results) -> str:
    """Return the LaTeX of a table."""
    found = evidence(**results)
    return _latex.table(
        asked.build(found),
        asked.caption(found),
        asked.notes(found),
        "tab:p-t",
        gathered.provenance_text(results.values()),
    )


def body(text: str) -> list[str]:
    """Return the lines between the rules."""
    return text.split("\\midrule\n")[1].split("\\bottomrule")[0].splitlines()


ENDS = table(
    title="Ends",
    kind="convergence",
    panels=["a", "b"],
    last=2,
    reported={"FedAvg": {"a": 0.8989}, "conv": {"a": 0.9}},
)


def test_reported_values_are_in_grey_rows_and_decimals_are_aligned():
    lines = body(text_of(ENDS, a=A, b=B))
    assert lines == [
        r"FedAvg & 83.00 & $\pm$\,12.71 & 80.00 \\",
        r"\quad \color{gray} in the paper & \color{gray} 89.89 & \color{gray}  & \color{gray} {} "
        r"\\",
        r"conv & 88.00 & $\pm$\,25.41 & 80.00 \\",
        r"\quad \color{gray} in the paper & \color{gray} 90.00 & \color{gray}  & \color{gray} {} "
        r"\\",
        r"multi & 99.00 &  & {--} \\",  # lost a run: never the best
    ]
    text = text_of(ENDS, a=A, b=B)
    assert r"\begin{tabular}{@{}lS[table-format=2.2]@{\,}lS[table-format=2.2]@{}}" in text
    assert r"{Series} & \multicolumn{2}{c}{a (\%)} & " in text


def test_intervals_are_aligned():
    rows = [
        {"Series": "x", "y (%)": Number(1.0, 1, 12.5, 2)},
        {"Series": "z", "y (%)": Number(-10.0, 1, 0.0, 2)},
    ]
    text = _latex.table(Grid.from_rows(rows), "c", "n", "l", "s")
    assert body(text) == [r"x & 1.0 & $\pm$\,12.5 \\", r"z & -10.0 & $\pm$\,\phantom{0}0.0 \\"]
    assert r"S[table-format=-2.1]@{\,}l" in text


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("50 % of_a & #1", r"50 \% of\_a \& \#1"),
        ("{a} $b ^ ~", r"\{a\} $\mathdollar$b \textasciicircum{} \textasciitilde{}"),
        ("a\\b", r"a\textbackslash{}b"),
        ("1 ± 2 ≤ α < μ", r"1 $\pm$ 2 $\le$ $\alpha$ $<$ $\mu$"),
        ("[0, 1]", "{[}0, 1]"),  # behind \\ a bracket would be an option
        ("a – b", "a -- b"),
        ("→∞∈∑≠≈≥", r"$\to$$\infty$$\in$$\sum$$\ne$$\approx$$\ge$"),
        ("2×3·4−6³ 90° > |a|", r"2$\times$3$\cdot$4$-$6$^3$ 90$^\circ$ $>$ \textbar{}a\textbar{}"),
        ("ΓΛΩ λφχψ", r"$\Gamma$$\Lambda$$\Omega$ $\lambda$$\phi$$\chi$$\psi$"),
        ("see Fig. 4d", "see Fig.~4d"),
        ("√2 Δω", r"$\surd$2 $\Delta$$\omega$"),
        ("é, ł, ą and R², x₂ ½", "é, ł, a and R$^2$, x2 1/2"),
        ("two\nlines\u00a0here", "two lines here"),
        ("-1.5, +2 at rounds 2-3, x-1 (-4)", "$-$1.5, +2 at rounds 2-3, x-1 ($-$4)"),
        (
            "中\x07",
            r'{\ifnum0\ifdefined\Umathcode\iffontchar\font"4E2D 1\fi\fi=1 '
            r"中\else\texttt{U+4E2D}\fi}\texttt{U+0007}",
        ),
    ],
)
def test_special_characters(plain, expected):
    assert escape(plain) == expected


# ---- the grid


def test_bold_is_what_a_paired_test_separates():
    """Seeds differ much, but `b` is 1 below `a` with every seed; a test of unpaired seeds would
    separate nothing."""
    seeds = {"a": [1, 5, 9], "b": [0, 4.1, 8.1], "c": [0.1, 4, 8], "d": [9, 9, 9]}
    rows = [
        {"Series": name, "y": mean_cell(dict(enumerate(values)), 1)}
        for name, values in seeds.items()
    ]
    mark_best(rows, "y", lowest=False, excluded=["d"])
    assert [row["y"].best for row in rows] == [True, False, False, False]
    rows = [row | {"y": replace(row["y"], best=False)} for row in rows]
    mark_best(rows, "y", lowest=False)
    assert not any(row["y"].best for row in rows)  # `a` and `d` are not separated: none is best
    below = [
        {"Series": name, "y": replace(mean_cell({0: -value, 1: -value}, 1), signed=True)}
        for name, value in (("a", 1), ("b", 2))
    ]
    mark_best(below, "y", lowest=False)
    assert not any(row["y"].best for row in below)  # nor is the least of losses against a baseline
    assert r"a & \bfseries 1.0 \\" in _latex.table(
        Grid.from_rows([{"Series": "a", "y": Number(1.0, 1, best=True)}]), "c", "n", "l", "s"
    )


def test_columns_of_the_csv():
    assert (
        slug("Saved vs FedAvg (%)") == "saved_vs_fedavg_percent"
        and slug("Paper's rounds") == "papers_rounds"
    )
    rows = [
        {"Series": "x", "y (%)": Number(1 / 3, 1, 0.25, 2), "z": Number(7)},
        {"Series": "w", "y (%)": Number(n=0, placeholder="never")},
    ]
    assert Grid.from_rows(rows).csv_rows() == [
        ["series", "y_percent", "y_percent_half_width", "y_percent_n", "z"],
        ["x", "0.333333", "0.25", 2, "7"],
        ["w", "", "", 0, ""],
    ]
    assert Grid.from_rows([]).csv_rows() == [["panel", "series"]]


# ---- numbers for running text


def verdicts(**results: Results) -> list:
    cell = {"kind": "rounds_to", "series": "conv", "baseline": "FedAvg", "target": 0.94}
    claim = {
        "text": "saves\n 100 %",
        "source": "s",
        "experiment": "a",
        "quantity": cell,
        "reported": 0.5,
        "tolerance": 0.1,
    }
    stated = claims.parse_claim(claim, "t")
    return [
        record_of(decide(key, stated, found, "personal_accuracy")) for key, found in results.items()
    ]


def test_commands_of_a_claim():
    found = latex_macros.macros("fed2", verdicts(**{"4d-saves": own(made(SERIES))}), "made by hand")
    assert found.startswith("% made by hand\n") and "\n% saves 100 %\n" in found
    assert r"write e.g. \fedTwoFourDSavesOurs{}." in found
    commands = dict(re.findall(r"\\newcommand{\\(\w+)}{(.*)}\n", found))
    assert (
        commands["fedTwoFourDSavesReported"] == r"50.0~\%"
        and commands["fedTwoFourDSavesSeeds"] == "2"
    )
    assert (
        commands["fedTwoFourDSavesOurs"] == r"55.0 \ensuremath{\pm} 63.5~\%"
        and commands["fedTwoFourDSavesVerdict"]
    )
    assert "newcommand" not in latex_macros.macros("p", verdicts(a=made({}, skipped="why")), "")
    assert r"\newcommand{\pAAsked}{at 94~\% accuracy}" in latex_macros.macros(
        "p", verdicts(a=own(made(SERIES, "direction"))), ""
    )


def test_the_interval_of_a_ratio_has_both_its_ends():
    """A geometric mean has no half width: "2.24 ± 2.55 times" would be wrong."""
    found = latex_macros.macros(
        "p", [record(key="a", verdict="open", ours="2.24 (0.88 to 5.7) times (n = 5)", seeds=5)], ""
    )
    assert r"\newcommand{\pAOurs}{2.24 (0.88 to 5.7) times}" in found


def test_commands_have_unique_names():
    twice = verdicts(**{"4d-a": own(made(SERIES)), "4-da": own(made(SERIES))})
    assert (
        latex_macros.name("p", "4d-a") == "pFourDA" and latex_macros.name("p", "4-da") == "pFourDa"
    )
    assert latex_macros.name("p", "10-fedAVG") == "pOneZeroFedAVG"
    latex_macros.macros("p", twice, "")
    with pytest.raises(UserError, match="claims 4d-a, 4d_a: "):
        latex_macros.macros(
            "p", verdicts(**{"4d-a": own(made(SERIES)), "4d_a": own(made(SERIES))}), ""
        )


# ---- a LaTeX reads it


@needs_latex
def test_any_text_compiles(tmp_path):
    every = (
        "".join(map(chr, range(0x20, 0x600)))
        + "\n\t"
        + "".join(_latex.REPLACEMENTS)
        + "中文🎉ﬁ½₂ℝ\u202e"
    )
    text = " ".join(escape(character) + "x" for character in every)
    log = compiled(
        tmp_path, rf"\documentclass{{article}}\begin{{document}}\sloppy {text}\end{{document}}"
    )
    assert "Missing character" not in log


@needs_latex
def test_nothing_is_wider_than_a_narrow_page(tmp_path):
    """An article of one column is narrower than the page for which tables are laid out."""
    wide = Grid.from_rows(
        [{"Series": "x", **{f"Column {i}": Number(10.0, 2, 1.0, 3) for i in range(6)}}]
    )
    words = ("a claim", "Reported", "+12.3 points", "contradicted", "why")
    rows = _latex.long_table(words, [words], COLUMN_SHARES, "c", "l", "s")
    text = (
        "\\usepackage{array,booktabs,longtable,siunitx,xcolor}\\begin{document}"
        + _latex.table(wide, "c", "n", "k", "s")
        + rows
    )
    assert "Overfull" not in compiled(tmp_path, rf"\documentclass{{article}}{text}\end{{document}}")
