"""Tables, numbers and the report as LaTeX: contents of the files, and their use in an article without edits."""

import re
from dataclasses import replace

import pytest

from fedrepro.config.params import read_params
from fedrepro.core.errors import UserError
from fedrepro.report import artifacts
from fedrepro.report import paper as spec
from fedrepro.report.documents import build, pdf
from fedrepro.report.inputs import gathered
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.numbers import Number, mean_cell
from fedrepro.report.tables import _latex
from fedrepro.report.tables._grid import Grid, mark_best, slug
from fedrepro.report.tables._latex import escape
from fedrepro.report.verdicts import claim as claims
from fedrepro.report.verdicts import latex_macros
from fedrepro.report.verdicts.decide import decide
from support.checkout import ROOT
from support.results import arrives, made, store
from support.tables import ARTICLE, SERIES, SPEC, A, B, compiled, evidence, has_class, needs_latex, own, reaches, read, table


def text_of(asked, **results: Results) -> str:
    """Return the LaTeX of a table."""
    found = evidence(**results)
    return _latex.table(
        asked.build(found), asked.caption(found), asked.notes(found), "tab:p-t", gathered.provenance_text(results.values())
    )


def body(text: str) -> list[str]:
    """Return the lines between the rules."""
    return text.split("\\midrule\n")[1].split("\\bottomrule")[0].splitlines()


ENDS = table(
    title="Ends", kind="convergence", panels=["a", "b"], last=2, reported={"FedAvg": {"a": 0.8989}, "conv": {"a": 0.9}}
)
TARGETS = {"paper": [0.94, 0.95]}
ROUNDS = table(title="Rounds", kind="rounds_to_target", panels=["a"], baseline="FedAvg", targets=TARGETS)


def test_a_table_has_caption_label_and_notes():
    text = text_of(ENDS, a=A, b=B)
    for part in (r"\begin{table}[!htb]", r"\caption{Ends. n = 1 seed (FedAvg of a: 2; conv of a: 2); $\pm$ is half of the 95",
                 r"\label{tab:p-t}", r"{\scriptsize Mean of the last 2 rounds: ", r"\end{table}", r"\toprule"):  # fmt: skip
        assert text.count(part) == 1
    assert text.startswith(
        f"% {gathered.version_text()}; runs at commit c0ffee\n% Needs the packages booktabs, xcolor and siunitx"
    )
    assert "not run" not in "".join(body(text)) and text.count("n = 1") == 1


def test_reported_values_are_in_grey_rows_and_decimals_are_aligned():
    lines = body(text_of(ENDS, a=A, b=B))
    assert lines == [
        r"FedAvg & 83.00 & $\pm$\,12.71 & 80.00 \\",
        r"\quad \color{gray} in the paper & \color{gray} 89.89 & \color{gray}  & \color{gray} {} \\",
        r"conv & 88.00 & $\pm$\,25.41 & 80.00 \\",
        r"\quad \color{gray} in the paper & \color{gray} 90.00 & \color{gray}  & \color{gray} {} \\",
        r"multi & 99.00 &  & {--} \\",  # lost a run: never the best
    ]
    text = text_of(ENDS, a=A, b=B)
    assert r"\begin{tabular}{@{}lS[table-format=2.2]@{\,}lS[table-format=2.2]@{}}" in text
    assert r"{Series} & \multicolumn{2}{c}{a (\%)} & " in text


def test_intervals_are_aligned():
    rows = [{"Series": "x", "y (%)": Number(1.0, 1, 12.5, 2)}, {"Series": "z", "y (%)": Number(-10.0, 1, 0.0, 2)}]
    text = _latex.table(Grid.from_rows(rows), "c", "n", "l", "s")
    assert body(text) == [r"x & 1.0 & $\pm$\,12.5 \\", r"z & -10.0 & $\pm$\,\phantom{0}0.0 \\"]
    assert r"S[table-format=-2.1]@{\,}l" in text


def test_a_qualifier_is_a_footnote():
    text = text_of(ROUNDS, a=own(made(SERIES)))
    assert r"single & 95 & 20.0 & \textsuperscript{a} & " in text
    assert r"{\scriptsize \textsuperscript{a}1 of 2 seeds reaches the target.}" in text
    assert body(text)[3] == r"\addlinespace"  # between two targets
    never = text_of(ROUNDS, a=own(made({"FedAvg": {0: reaches(None, None)}})))
    assert r"FedAvg & 94 & {never} & {--} & " in never


def test_panels_are_named_above_their_rows_or_in_the_caption():
    both = table(title="t", kind="rounds_to_target", panels=["a", "b"], baseline="FedAvg", targets={"paper": [0.5]})
    series = {"FedAvg": {0: reaches(1, 2)}}
    lines = body(text_of(both, a=own(made(series)), b=made(series)))
    names = [line for line in lines if "multicolumn" in line]
    assert [re.search(r"textit{(.*?)}", line)[1] for line in names] == ["a", "b"] and lines.count(r"\addlinespace") == 1
    one = text_of(both, a=own(made(series)), b=made({}, skipped="no time"))
    assert "textit" not in one and "Panel" not in one and "Not run: b (no time)." in one


def test_a_table_is_as_narrow_as_its_content():
    """Series as rows in one column of an article, else panels as rows, else over both columns, else in parts."""

    def layout(series: int, panels: int, title: str = "Some set-up") -> tuple[str, int, str]:
        rows = [
            {"Series": f"Series {i}", **{f"{title} {j} (%)": Number(12.34, 2, 1.23, 3) for j in range(panels)}}
            for i in range(series)
        ]
        text = _latex.table(Grid.from_rows(rows), "c", "n", "l", "s")
        return re.findall(r"begin{(table\*?)}", text)[0], text.count(r"\toprule"), body(text)[0].split(" &")[0]

    assert layout(3, 2) == ("table", 1, "Series 0") and layout(2, 8) == ("table", 1, "Some set-up 0")
    assert layout(5, 6) == ("table*", 1, "Series 0") and layout(5, 9) == ("table*", 1, "Some set-up 0")
    assert layout(9, 9) == ("table*", 2, "Series 0")


def test_a_value_that_all_rows_share_is_in_the_caption():
    rows = [{"Series": name, "Target (%)": Number(94), "Rounds": Number(3.0, 0, 1.0, 2)} for name in "ab"]
    text = _latex.table(Grid.from_rows(rows), "Title.", "n", "l", "s")
    assert r"\caption{Title. Target (\%): 94.}" in text and body(text)[0] == r"a & 3 & $\pm$\,1 \\"


def test_a_table_without_rows_says_why():
    text = text_of(ENDS, a=made({}, skipped="no time"), b=made({}, skipped="no time"))
    assert "tabular" not in text and "Not run: a, b (no time)." in text and r"\caption{Ends.}" in text


@pytest.mark.parametrize(("title", "lines"), [
    ("Rounds", ["Rounds"]),
    ("Final accuracy (%)", ["Final", "accuracy (%)"]),
    ("Fig. 5a (%)", ["Fig. 5a", "(%)"]),
    ("Unbreakable", ["Unbreakable"]),
])  # fmt: skip
def test_long_titles_take_two_lines(title, lines):
    assert _latex.split_title(title) == lines


@pytest.mark.parametrize(("plain", "expected"), [
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
    ("中\x07", r'{\ifnum0\ifdefined\Umathcode\iffontchar\font"4E2D 1\fi\fi=1 中\else\texttt{U+4E2D}\fi}\texttt{U+0007}'),
])  # fmt: skip
def test_special_characters(plain, expected):
    assert escape(plain) == expected


# ---- the grid


@pytest.mark.parametrize(("values", "expected"), [
    ((0.5, 2.25), "S[table-format=1.2]"), ((0, 12.5), "S[table-format=+2.2]"), ((3, -12), "S[table-format=-2.2]"),
])  # fmt: skip
def test_a_column_has_space_for_its_signs(values, expected):
    assert _latex.siunitx_format([Number(value, 2, signed="+" in expected) for value in values]) == expected


def test_bold_is_what_a_paired_test_separates():
    """Seeds differ much, but `b` is 1 below `a` with every seed; a test of unpaired seeds would separate nothing."""
    seeds = {"a": [1, 5, 9], "c": [1.1, 5.3, 9.2], "b": [0, 4.1, 8.1], "d": [9, 9, 9]}
    rows = [{"Series": name, "y": mean_cell(dict(enumerate(values)), 1)} for name, values in seeds.items()]
    mark_best(rows, "y", lowest=False, excluded=["d"])
    assert [row["y"].best for row in rows] == [True, True, False, False]
    rows = [row | {"y": replace(row["y"], best=False)} for row in rows if row["Series"] in "ac"]
    mark_best(rows, "y", lowest=False)
    assert not any(row["y"].best for row in rows)  # where nothing is separated nothing is bold
    assert r"a & \bfseries 1.0 \\" in _latex.table(
        Grid.from_rows([{"Series": "a", "y": Number(1.0, 1, best=True)}]), "c", "n", "l", "s"
    )


def test_columns_of_the_csv():
    assert slug("Saved vs FedAvg (%)") == "saved_vs_fedavg_percent" and slug("Paper's rounds") == "papers_rounds"
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
    claim = {"text": "saves\n 100 %", "source": "s", "experiment": "a", "quantity": cell, "reported": 0.5, "tolerance": 0.1}
    return [decide(key, claims.parse_claim(claim, "t"), found, "personal_accuracy") for key, found in results.items()]


def test_commands_of_a_claim():
    found = latex_macros.macros("fed2", verdicts(**{"4d-saves": own(made(SERIES))}), "made by hand")
    assert found.startswith("% made by hand\n") and "\n% saves 100 %\n" in found
    assert r"write e.g. \fedTwoFourDSavesOurs{}." in found
    commands = dict(re.findall(r"\\newcommand{\\(\w+)}{(.*)}\n", found))
    assert commands["fedTwoFourDSavesReported"] == r"50.0~\%" and commands["fedTwoFourDSavesSeeds"] == "2"
    assert commands["fedTwoFourDSavesOurs"] == r"55.0 \ensuremath{\pm} 63.5~\%" and commands["fedTwoFourDSavesVerdict"]
    gone = latex_macros.macros("p", verdicts(a=made({}, skipped="why")), "")
    commands = dict(re.findall(r"\\newcommand{\\(\w+)}{(.*)}\n", gone))
    assert commands == {"pAReported": r"50.0~\%", "pAOurs": "--", "pASeeds": "--", "pAAsked": "", "pAVerdict": "not run"}
    assert r"\newcommand{\pAAsked}{at 94~\% accuracy}" in latex_macros.macros(
        "p", verdicts(a=own(made(SERIES, "direction"))), ""
    )


def test_a_paper_without_claims_has_no_commands():
    text = latex_macros.macros("p", [], "")
    assert r"write e.g. \pClaimOurs{}." in text and "newcommand" not in text


@pytest.mark.parametrize(("text", "expected"), [
    ("+1.0 ± 2.0 points", r"+1.0 \ensuremath{\pm} 2.0~points"),
    ("-0.35 nats", r"\ensuremath{-}0.35~nats"),
    ("4.0 epochs", "4.0~epochs"),
    ("over the last 5 rounds, at round 9", "over the last 5~rounds, at round 9"),
])  # fmt: skip
def test_a_number_is_not_separated_from_its_unit(text, expected):
    assert latex_macros.latex_value(text) == expected


def test_an_article_may_have_two_scales():
    """The paper's own scale is not part of the names."""
    assert made({}, "full").latex_name == "p" and made({}, "direction").latex_name == "p-small"
    names = {latex_macros.name(made({}, compare).latex_name, "4d-a") for compare in ("full", "direction")}
    assert names == {"pFourDA", "psmallFourDA"}


def test_commands_have_unique_names():
    twice = verdicts(**{"4d-a": own(made(SERIES)), "4-da": own(made(SERIES))})
    assert latex_macros.name("p", "4d-a") == "pFourDA" and latex_macros.name("p", "4-da") == "pFourDa"
    assert latex_macros.name("p", "10-fedAVG") == "pOneZeroFedAVG"
    latex_macros.macros("p", twice, "")
    with pytest.raises(UserError, match="claims 4d-a, 4d_a: the same commands in LaTeX"):
        latex_macros.macros("p", verdicts(**{"4d-a": own(made(SERIES)), "4d_a": own(made(SERIES))}), "")


@pytest.mark.parametrize("paper", sorted(path.stem for path in (ROOT / "workflow" / "experiments").glob("*.yaml")))
def test_every_claim_of_a_paper_has_its_own_commands(paper, monkeypatch):
    monkeypatch.chdir(ROOT)
    names = [latex_macros.name(paper, key) for key in spec.read_paper(paper, read_params()).claims]
    assert len(names) == len(set(names)) and all(name.isalpha() and name.isascii() for name in names)


def test_provenance_names_version_and_commits():
    found = made({"FedAvg": {0: arrives(3), 1: arrives(3)}})
    first, second = found.runs()
    first |= {"commit": "b2", "commit_date": "2026-11-20T10:00:00+01:00"}
    second |= {"commit": "a1", "commit_date": "2026-11-21"}
    assert gathered.provenance_text([found]) == f"{gathered.version_text()}; runs at commit b2 (2026-11-20), a1 (2026-11-21)"
    assert re.fullmatch(r"fedrepro \d+\.\d+\.\d+", gathered.version_text())


# ---- a LaTeX reads it


@needs_latex
def test_a_table_goes_into_an_article_of_two_columns(tmp_path):
    tables = {"ends": text_of(ENDS, a=A, b=B), "rounds": text_of(ROUNDS, a=own(made(SERIES)))}
    for name, text in tables.items():
        (tmp_path / f"{name}.tex").write_text(text.replace("tab:p-t", f"tab:p-{name}"), encoding="utf-8")
    found = verdicts(**{"4d-saves": own(made(SERIES))})
    (tmp_path / "numbers.tex").write_text(latex_macros.macros("p", found, "s"), encoding="utf-8")
    prose = (
        r"\input{numbers}It saves \pFourDSavesOurs{} of $\pFourDSavesReported$: Tables~\ref{tab:p-ends}, \ref{tab:p-rounds}."
    )
    log = compiled(tmp_path, ARTICLE % "\n".join([prose, *(rf"\input{{{name}}}" for name in tables)]))
    assert "Overfull \\hbox" not in log and "undefined" not in log and "multiply defined" not in log


CLASSES = {"{article}": "article", "{IEEEtran}": "IEEEtran", "[aps,prl,twocolumn]{revtex4-2}": "revtex4-2", "{llncs}": "llncs"}


@needs_latex
@pytest.mark.parametrize("chosen", CLASSES)
def test_tables_go_into_the_classes_of_journals(chosen, tmp_path):
    """A table of one column, one of both with titles of two lines, and the verdicts over pages."""
    if not has_class(CLASSES[chosen]):
        pytest.skip(f"{CLASSES[chosen]}.cls is not installed")
    numbers = {f"Set-up no {i} (%)": Number(12.3, 1, 1.2, 3) for i in range(6)}
    wide = Grid.from_rows([{"Series": name} | numbers for name in ("日本語", "FedAvg", "FedProx", "FedMMD", "L2")])
    rows = [["A claim of 50 % of the words that stand here", "50 %", "40.0 ± 1.0 %", "partly", "why"]] * 60
    columns = ["Claim", "Reported", "Ours", "Verdict", "Why"]
    tables = [text_of(ENDS, a=A, b=B), _latex.table(wide, "日本語", "n", "tab:w", "s")]
    tables += [_latex.long_table(columns, rows, artifacts.COLUMN_SHARES, "V", "tab:v", "s")]
    assert [r"\begin{table*}" in text for text in tables] == [False, True, False] and tables[1].count(r"\shortstack") == 6
    prose = "Words. " * 50
    content = rf"{prose} Table~\ref{{tab:v}}. {tables[0]} {tables[1]} {prose} \footnotesize {tables[2]} {prose}"
    head = rf"\documentclass{chosen}\usepackage{{array,booktabs,longtable,siunitx,xcolor}}\begin{{document}}"
    log = compiled(tmp_path, rf"{head}{content}\end{{document}}")
    narrow = CLASSES[chosen] in ("article", "llncs")  # their line is narrower than two columns
    assert "undefined" not in log and (narrow or "Overfull \\hbox" not in log)
    assert re.search(r"Output written on article.pdf \(([3-9]) pages", log)


@needs_latex
def test_the_verdicts_stand_alone(tmp_path):
    rows = [["A claim of 50 %", "50 %", "40.0 ± 1.0 %", "partly", "why"]] * 60
    text = _latex.long_table(
        ["Claim", "Reported", "Ours", "Verdict", "Why"], rows, (0.3, 0.1, 0.15, 0.1, 0.2), "V", "tab:v", "s"
    )
    (tmp_path / "verdicts.tex").write_text(text, encoding="utf-8")
    packages = r"\usepackage{array,booktabs,longtable}"
    log = compiled(
        tmp_path,
        rf"\documentclass{{article}}{packages}\begin{{document}}Table~\ref{{tab:v}}.\input{{verdicts}}\end{{document}}",
    )
    assert "undefined" not in log and re.search(r"Output written on article.pdf \([2-9] pages", log)


def test_the_report_counts_from_one_and_refers_to_all(tmp_path):
    given, data = read(tmp_path, SPEC), tmp_path / "p" / "data"
    store(own(made(SERIES, clients_per_round=5)), data, "first")
    store(B, data, "second")
    artifacts.write_artifacts(given, given.artifacts, tmp_path / "p")
    build.write_documents({"p": given}, tmp_path, {})
    text = (tmp_path / "report.tex").read_text(encoding="utf-8")
    inputs = {path: (tmp_path / path).read_text(encoding="utf-8") for path in re.findall(r"\\input{(.*?)}", text)}
    labels = re.findall(r"\\label{(.*?)}", text + "".join(inputs.values()))
    assert sorted(labels) == sorted(set(re.findall(r"\\ref{(.*?)}", text))) and "tab:p-verdicts" in labels
    assert all(r"\caption" in table for table in inputs.values())  # none counts unseen
    assert f"Made with {gathered.version_text()}; runs at commit c0ffee." in text
    if pdf.is_available():
        pdf.typeset(tmp_path / "report.tex")


def test_a_report_of_what_was_not_run(tmp_path):
    given, data = read(tmp_path, SPEC), tmp_path / "p" / "data"
    for name in ("first", "second"):
        store(made({}, skipped="no time"), data, name)
    artifacts.write_artifacts(given, given.artifacts, tmp_path / "p")
    build.write_documents({"p": given}, tmp_path, {})
    text = (tmp_path / "report.tex").read_text(encoding="utf-8")
    assert r"\ref" not in text and r"\includegraphics" not in text and "Not run at this scale: 5 of 5 figures" in text
    verdicts = (tmp_path / "p" / "tables" / "verdicts.tex").read_text(encoding="utf-8")
    assert verdicts.strip() == "Claims without a verdict: 1 not run."
    if pdf.is_available():
        pdf.typeset(tmp_path / "report.tex")


@needs_latex
def test_any_text_compiles(tmp_path):
    every = "".join(map(chr, range(0x20, 0x600))) + "\n\t" + "".join(_latex.REPLACEMENTS) + "中文🎉ﬁ½₂ℝ\u202e"
    text = " ".join(escape(character) + "x" for character in every)
    log = compiled(tmp_path, rf"\documentclass{{article}}\begin{{document}}\sloppy {text}\end{{document}}")
    assert "Missing character" not in log
