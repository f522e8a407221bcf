"""README's table, docs/ and the files beside them: they say what the committed results say, and every link leads somewhere."""

import functools
import html
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest
import torch
import yaml
from docutils.core import publish_parts

from fedrepro.cli import docs
from fedrepro.config.params import read_params
from fedrepro.core.errors import UserError
from fedrepro.core.files import write_json
from fedrepro.data.source_label import COPY, OFFICIAL
from fedrepro.experiments import cost_model
from fedrepro.report import paper as spec
from fedrepro.report.documents import snakemake_captions
from fedrepro.report.documents.quotes import Line, Quoted
from fedrepro.report.verdicts import rules, summary
from fedrepro.runs import reasons
from fedrepro.runs.paths import Paths
from support.experiments import listed

ROOT = Path(__file__).parents[2]
ANEW = "write it anew: uv run fedrepro docs"
CURVE = [(0, 0.1), (1, 0.5), (2, 0.7), (3, 0.6), (4, 0.8)]


@pytest.fixture(scope="module")
def committed(tmp_path_factory) -> Path:
    """A copy of what the pages are written from."""
    folder = tmp_path_factory.mktemp("committed")
    for name in ("reports", "workflow", "docs", "results/kept"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("quick", "notebooks", "*.csv.part"))
    for name in ("README.md", "params.yaml"):
        shutil.copy(ROOT / name, folder)
    return folder


def test_the_committed_pages_are_what_the_command_writes(committed, monkeypatch):
    """On a machine that has measured other speeds, too."""
    monkeypatch.chdir(committed)
    monkeypatch.setattr(cost_model, "_measure", lambda *_: dict.fromkeys(cost_model.SPEEDS, 1.0))
    run, known = docs._planned(Path(), "paper")["fedmmd"]["fig4d"].runs[0], cost_model.Known(Paths(results=Path("results")))
    cost_model.cost(run, known, "auto", torch.device("cpu"), measure=lambda: None)
    assert Path("results/speed.json").exists()
    changed = [path.read_text(encoding="utf-8") for path in docs.write()]
    assert not changed, ANEW
    shutil.rmtree("docs")
    Path("README.md").write_text(f"before\n{docs.BEGIN}\nreplaced\n{docs.END}\nafter\n", encoding="utf-8")
    assert {str(path) for path in docs.write()} == {"README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").iterdir())}
    readme = Path("README.md").read_text(encoding="utf-8")
    assert readme.startswith("before\n") and readme.endswith("\nafter\n") and "replaced" not in readme


@pytest.fixture
def quoted(committed, tmp_path, monkeypatch) -> Quoted:
    """A paper's results at its own scale, to be changed."""
    monkeypatch.chdir(committed)
    shutil.copytree("reports/paper/fedmmd", tmp_path / "fedmmd")
    return Quoted(spec.read("fedmmd", read_params()), tmp_path / "fedmmd")


def test_a_finding_follows_its_numbers(quoted):
    before = quoted.ours("fig4d_code_net", "FedMMD").at(30)
    path = quoted.folder / "data/fig4d_code_net.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    column = lines[0].split(",").index("test_accuracy")
    last = max(i for i, line in enumerate(lines) if line.startswith("FedMMD,"))
    cells = lines[last].split(",")
    assert before == pytest.approx(100 * float(cells[column]))
    cells[column] = "0.5"
    path.write_text("\n".join([*lines[:last], ",".join(cells), *lines[last + 1 :]]) + "\n", encoding="utf-8")
    assert Quoted(quoted.spec, quoted.folder).ours("fig4d_code_net", "FedMMD").at(30) == 50


def test_a_line_is_in_the_measure_that_is_asked_for(quoted):
    own, loss = (quoted.ours("fig4d", "FedMMD", measure).at(150) for measure in ("test_accuracy", "test_loss"))
    assert quoted.ours("fig4d", "FedMMD").at(150) == own != loss
    for run in quoted.evidence.results["fig4d"].runs("FedMMD"):
        run["status"] = "diverged at round 7"
    with pytest.raises(UserError, match="fig4d, FedMMD: no values"):
        quoted.ours("fig4d", "FedMMD")


def test_a_cell_is_told_in_so_many_digits(quoted):
    asked = {"kind": "difference", "series": "FedMMD", "baseline": "FedAvg", "last": 1}
    assert re.fullmatch(r"\+\d\.\d ± \d\.\d points \(n = \d\)", quoted.cell("fig4d", **asked))
    assert re.fullmatch(r"\+\d\.\d\d ± \d\.\d\d points \(n = \d\)", quoted.cell("fig4d", 2, **asked))


def test_seeds_are_counted(quoted):
    """Those of a series that diverged, and all that an experiment has."""
    found = quoted.evidence.results["fig4d"]
    found.runs("FedMMD")[0]["status"] = "diverged at round 7"
    counted = len(found.runs("FedMMD"))
    assert quoted.diverged("fig4d", "FedMMD") == f"1 of {counted}" and quoted.diverged("fig4d", "FedAvg") == f"0 of {counted}"
    told = []
    for seeds in (1, 2):
        quoted.evidence.results["fig4d"] = found.first(seeds)
        told.append(quoted.seeds("fig4d"))
    assert told == ["one seed", "means over 2 seeds"]


def test_a_setting_is_the_one_that_all_series_ran_with(quoted):
    """Sentences typed what runs were trained with, and one of them was wrong."""
    assert quoted.setting("fig4d", "rounds") == 150 and quoted.setting("fig4d", "partition.clients") == 100
    for path in ("algorithm.name", "partition.nothing.there"):
        with pytest.raises(UserError, match=f"fig4d: no one {path} of all series"):
            quoted.setting("fig4d", path)


def test_what_was_not_run_is_not_quoted(quoted):
    path = quoted.folder / "data/fig4d.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"skipped": "no time", "series": {}}), encoding="utf-8")
    assert not quoted.ran("fig4d") and not quoted.ran("fig4d_nowhere")
    with pytest.raises(UserError, match="fig4d.*no time"):
        quoted.ours("fig4d", "FedMMD")
    with pytest.raises(UserError, match="fig4d: no one rounds of all series"):
        quoted.setting("fig4d", "rounds")
    assert quoted.cell("fig4d", kind="difference", series="FedMMD", baseline="FedAvg", last=1) == "no time"
    with pytest.raises(UserError, match="nobody"):
        quoted.claim("nobody")


def test_a_part_of_an_experiment_is_quoted_where_another_is_not_finished(quoted):
    path = quoted.folder / "data/fig4d.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"missing": ["FedAvg"]}), encoding="utf-8")
    assert quoted.ran("fig4d", ["FedMMD"]) and not quoted.ran("fig4d") and not quoted.ran("fig4d", ["FedMMD", "FedAvg"])
    with pytest.raises(UserError, match=f"fig4d, FedAvg: {reasons.unfinished(['FedAvg'])}"):
        quoted.ours("fig4d", "FedAvg")
    told = quoted.cell("fig4d", kind="difference", series="FedMMD", baseline="FedAvg", last=1)
    assert told == str(reasons.unfinished(["FedAvg"]))


def test_processors_are_mixed_where_series_of_one_seed_ran_on_several(quoted):
    """Other seeds may have others: what is compared is of one seed."""
    runs = quoted.evidence.results["fig4d"].runs()
    for run in runs:
        run["hardware"] = f"chip {run['seed'] % 2}"
    before = quoted.mixed()
    assert "fig4d" not in before
    runs[-1]["hardware"] = "another chip"
    assert set(quoted.mixed()) == {"fig4d", *before}


def test_copies_are_told_of_official_releases_alone(quoted):
    runs = quoted.evidence.results["fig4d"].runs()
    before = quoted.copies()
    runs[0]["dataset"], runs[1]["dataset"] = f"Letters ({COPY})", f"Digits ({OFFICIAL})"
    assert quoted.copies() == sorted([*before, "Letters"])


def test_what_we_ask_is_nothing_that_the_papers_curves_contradict(quoted):
    key = quoted.contradicted()[0][0]["key"]
    claims = quoted.spec.claims | {key: quoted.spec.claims[key].model_copy(update={"ours": True})}
    asked = Quoted(quoted.spec.model_copy(update={"claims": claims}), quoted.folder)
    assert [record["key"] for record, _ in asked.contradicted()] == [record["key"] for record, _ in quoted.contradicted()[1:]]


@pytest.mark.parametrize(("text", "words"), [
    ("<% set short %>x<% endset %>\n<< paper.ours('fig4d', 'FedMD') >>", "unknown series of experiment fig4d 'FedMD': "),
    ("<< paper.diverged('fig4d', 'FedMD') >>", "unknown series of experiment fig4d 'FedMD': "),
    ("<< paper.cell('fig4d', kind='accuracy', series='FedMD', last=1) >>", "unknown series of experiment fig4d 'FedMD': "),
    ("<< size('paper', 'fig4d', 'FedMD') >>", "unknown series of experiment fig4d 'FedMD': "),
    ("<< size('paper', 'fig4', 'FedMMD') >>", "unknown experiment 'fig4': nearest are fig4"),
    ("\n<< paper.theirs('4d:FedMD') >>", "unknown curve '4d:FedMD': nearest are 4d:"),
    ("\n<< paper.claims('4d') >>", r"fedmmd\.md\.j2, line 2: .* has no attribute 'claims'"),
    ("\n\n<< paper", r"fedmmd\.md\.j2, line 3: "),
    ("<% include '_head.md.j2' %>", r"_head\.md\.j2, line 8: 'short' is undefined"),
    ("<< short >>", r"fedmmd\.md\.j2, line 1: 'short' is undefined"),
])  # fmt: skip
def test_mistakes_in_a_template_are_told(committed, tmp_path, monkeypatch, text, words):
    monkeypatch.chdir(committed)
    for name in ("reports", "workflow/experiments"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(name, tmp_path / name)
    (tmp_path / "workflow/experiments/fedmmd.md.j2").write_text(text, encoding="utf-8")
    size = functools.partial(docs._size, functools.partial(docs._planned, committed), "fedmmd")
    with pytest.raises(UserError, match=words):
        docs.page(spec.read("fedmmd", read_params()), "fedmmd", tmp_path, size)


def test_numbers_of_a_page_are_told_by_what_they_are(quoted, tmp_path):
    """Points, differences, losses and rounds; a round that never came has a word."""
    path = tmp_path / "workflow/experiments/fedmmd.md.j2"
    path.parent.mkdir(parents=True)
    path.write_text("<<97.26|points>>, <<0.04|signed>>, <<134.9|nats>>, <<12.5|round>>, <<none|round>>\n", encoding="utf-8")
    assert docs.page(quoted.spec, "fedmmd", tmp_path).endswith(" -->\n97.3, +0.0, 1.3, 12.5, never\n")


@pytest.mark.parametrize("readme", ["no place\n", f"{docs.BEGIN}\nwithout an end\n", f"without a begin\n{docs.END}\n"])
def test_a_readme_without_a_place_for_the_table_is_told(readme):
    with pytest.raises(UserError, match="README.md: expected a part between '<!-- artifacts"):
        docs.placed(readme, "the table")


def test_a_paper_needs_neither_a_page_nor_results(quoted, tmp_path):
    """Until it has a template nothing links to its page; a line in a title ends no cell."""
    shutil.copytree("workflow/experiments", tmp_path / "workflow/experiments", ignore=shutil.ignore_patterns("*.j2"))
    shutil.copy("params.yaml", tmp_path)
    assert docs.pages(tmp_path) == {}
    figures = {"fig4d": quoted.spec.figures["fig4d"].model_copy(update={"title": "p(a | b)"})}
    paper = quoted.spec.model_copy(update={"figures": figures, "tables": {}})

    def told() -> str:
        return docs._paper("fedmmd", paper, {"fig4d": docs.Spent(7, None)}, {("fedmmd", "fig4d"): "fig4d"}, tmp_path)

    assert "| `fig4d` | p(a \\| b) | - | - |  | ~7 |\n" in told() and "docs/fedmmd.md" not in told()
    assert "1 artifact (" in told() and "- At `small`, 0 claims tested. 0 artifacts complete, 0.0 core hours spent." in told()
    (tmp_path / "workflow/experiments/fedmmd.md.j2").touch()
    assert "(docs/fedmmd.md)" in told()


def test_verdicts_that_hang_on_a_seed(quoted):
    """With one seed alone nothing is decided."""
    decided = {claim["key"] for claim in quoted.judged() if claim["verdict"] in (rules.REPRODUCED, rules.NOT, rules.PARTLY)}
    assert decided and set(quoted.turned(1)) == decided and quoted.turned(9) == []


def test_lines_reduce_as_worked_out_by_hand():
    line = Line("two seeds", {0: CURVE, 1: [(round, value + 0.1) for round, value in CURVE]})
    assert line.over(1, 2) == pytest.approx(65)
    assert line.jump(1, 4) == pytest.approx(100 * (0.2 + 0.1 + 0.2) / 3)
    assert line.at(3) == pytest.approx(65) and line.end() == pytest.approx(85)
    assert line.end(2) == pytest.approx(75)
    assert line.reaches(70) == 2 and line.reaches(85) is None
    assert Line("one", {0: CURVE}).reaches(70, smooth=2) == 4
    assert [line.arrives(percent) for percent in (60, 70, 85, 99)] == ["1.5", "2", "4 (1 of 2 seeds)", "never"]
    assert line.arrives(70, smooth=2) == "3"  # 60, 65 and 70 % from round 2 on, and 10 points more
    low, apart, one = (
        Line("", {seed: [(1, value)] for seed, value in enumerate(values)}) for values in ((0.5, 0.6), (0.71, 0.8), (0.4,))
    )
    around = Line("", {0: [(1, 0.4)], 1: [(1, 0.7)]})
    found = [mine.side(other, 1, 1) for mine, other in ((low, apart), (apart, low), (low, around))]
    assert found == [-1, 1, 0] and one.side(Line("", {0: [(1, 0.9)]}), 1, 1) == 0  # 20.5 +- 6.4, 0 +- 127, one seed
    assert line.band() == pytest.approx(10) and line.apart(Line("same", line.seeds)) == 0
    twice = Line("one seed twice", {0: CURVE, 1: CURVE})
    assert line.apart(twice) == pytest.approx(10) == twice.apart(line)
    late = Line("apart in the end", {0: CURVE, 1: [*CURVE[:-1], (4, 0.95)]})
    assert late.band() == late.apart(twice) == pytest.approx(15)
    # of 0 and 10 points the mean is 5, the standard error 5, and Student's t of one degree of freedom 12.706
    assert line.lead(Line("one seed twice", {0: CURVE, 1: CURVE}), 1, 3) == "+5.0 ± 63.5"
    assert Line("one", {0: line.curves[1]}).lead(Line("other", {0: CURVE}), 2, 3) == "+10.0"
    figure = Line("figure", {0: [(1, 0.4), (2, 0.7), (9, 0.1)]})
    assert Line("one", {0: CURVE}).distance(figure) == pytest.approx(100 * (0.01 / 2) ** 0.5)
    assert Line("one", {0: CURVE}).distance(figure, last=1) == pytest.approx(10)
    assert line.distance(figure, last=1) == pytest.approx(15)  # the mean of 10 and 20 points
    assert Line("one", {0: CURVE}).distance(figure, smooth=2) == pytest.approx(5)  # 60 and 55 % in round 2
    assert Line("one", {0: CURVE}).above(figure) == 1  # in round 1; in round 2 both are at 70 %
    with pytest.raises(UserError, match="no round in common"):
        Line("one", {0: CURVE}).distance(Line("late", {0: [(9, 0.1)]}))
    with pytest.raises(UserError, match="round 9"):
        line.at(9)
    for asked in (line.over, line.jump):
        with pytest.raises(UserError, match="^two seeds: 0 values from round 10 to 20, needed "):
            asked(10, 20)
    with pytest.raises(UserError, match="1 value from round 4 to 20, needed 2"):
        line.jump(4, 20)


def test_curves_are_compared_seed_by_seed():
    higher = {seed: [(round, value + 0.1 * seed) for round, value in CURVE] for seed in (0, 1, 2)}
    three, other = Line("three", higher), Line("other", {2: CURVE, 1: CURVE, 0: CURVE})
    assert three.lead(other, 1, 3) == "+10.0 ± 24.8"  # 0, 10 and 20 points: s.d. 10, t of two degrees of freedom 4.303
    with pytest.raises(UserError, match=r"three: seeds \[0, 1, 2\], but two: seeds \[0, 2\]"):
        three.apart(Line("two", {0: CURVE, 2: CURVE}))


@pytest.mark.parametrize(("timed", "seconds"), [
    ({"rounds": 50, "seconds": 20.0}, 20.0),
    ({"rounds": 25, "seconds": 20.0, "core_seconds": 30.0}, 60.0),
    ({"rounds": 8, "seconds": 20.0}, 125.0),  # the rest was interrupted, and not timed
    ({"rounds": 0, "seconds": 0.0}, None),
    (None, None),
])  # fmt: skip
def test_the_time_of_a_run_is_that_of_all_its_rounds(timed, seconds, tmp_path):
    if timed:
        write_json(tmp_path / "timing.json", timed)
    assert docs._seconds(tmp_path / "timing.json", 50) == seconds


def test_core_hours_of_what_is_committed(tmp_path):
    """Of a run that two experiments show, once; what was not timed counts as nothing."""
    data = tmp_path / "reports/small/p/data"
    data.mkdir(parents=True)
    runs = [{"run": "r", "rounds": 50}, {"run": "untimed", "rounds": 9}]
    for name in ("one", "two"):
        (data / f"{name}.json").write_text(json.dumps({"series": {"FedAvg": {"runs": runs}}}))
    (data / "one-newcomers.json").write_text(json.dumps({"series": {"FedAvg": {"mean": 0.5}}}))
    timed = tmp_path / "results/kept/p/r/timing.json"
    timed.parent.mkdir(parents=True)
    timed.write_text(json.dumps({"rounds": 25, "seconds": 1800}))
    listed(tmp_path / "results/kept")
    assert docs._spent("p", "small", tmp_path) == 1.0 and docs._spent("p", "paper", tmp_path) == 0


def gathered(folder: Path, **series: dict[str, str]) -> Path:
    """Results with some runs of each series: name -> status."""
    told = {label: {"runs": [run(name, status) for name, status in runs.items()]} for label, runs in series.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fig.json").write_text(json.dumps({"skipped": None, "series": told}))
    return folder / "fig.json"


def run(name: str, status: str = "finished") -> dict:
    return {"run": name, "seed": int(name[-1]), "rounds": 50, "status": status}


@pytest.mark.parametrize(("sources", "told"), [
    ("fig", "2 seeds"), ("one", "1 seed"), ("fig one", "1 to 2 seeds"), ("many one", "1 to 8 seeds"),
    ("left_out", "-"), ("absent", "-"), ("fig left_out", "in part"), ("fig absent", "in part"), ("partly", "in part"),
])  # fmt: skip
def test_how_much_of_an_artifact_is_there(sources, told, tmp_path):
    whole = json.loads(gathered(tmp_path, FedAvg={"a0": "finished", "a1": "finished"}, FedMMD={"m0": "finished"}).read_text())
    one, left_out, partly = {"series": {"FedAvg": {"runs": [run("a0")]}}}, {"skipped": "no time"}, {"missing": ["L2"]}
    many = {"series": {"FedAvg": {"runs": [run(f"a{seed}") for seed in range(8)]}}}
    for name, changes in (("one", one), ("many", many), ("left_out", left_out), ("partly", partly)):
        (tmp_path / f"{name}.json").write_text(json.dumps(whole | changes))
    assert docs._state(sources.split(), tmp_path) == told


def test_hours_are_measured_where_every_run_that_is_asked_for_was_timed(tmp_path, monkeypatch):
    """Two runs of an hour each, as half of their rounds tell; guessed are two hours each."""
    monkeypatch.setattr(docs, "cost", lambda *_: SimpleNamespace(seconds=7200))
    path = gathered(tmp_path / "reports/paper/p/data", FedAvg={"a0": "finished", "a1": "finished"})

    def hours(runs: int = 2, skipped: str | None = None) -> docs.Spent | None:
        item = SimpleNamespace(paper="p", name="fig", skipped=skipped, runs=[None] * runs)
        return docs._hours(item, tmp_path, None)

    assert hours() == docs.Spent(4, None)
    for name in ("a0", "a1"):
        assert hours() == docs.Spent(4, None)
        timed = tmp_path / "results/kept/p" / name / "timing.json"
        timed.parent.mkdir(parents=True)
        write_json(timed, {"rounds": 25, "seconds": 1800})
        listed(tmp_path / "results/kept")
    assert hours() == docs.Spent(4, 2) and hours(runs=3) == docs.Spent(6, None) and hours(skipped="no time") is None
    gathered(path.parent, FedAvg={"a0": "finished", "a1": "diverged at round 50"})
    assert hours() == docs.Spent(4, 2, whole=False)


def test_what_is_told_of_a_papers_claims():
    one = {"verdict": "undecided", "by": "the paper", "p": 0.2, "mean": 0.1, "half_width": 0.3, "seeds": 3}
    told = docs._tested([one, one | {"by": "us"}])
    counts = "1 claim tested: 1 undecided; asked by us: 1 undecided."
    assert told == f"{counts} 1 difference tested against zero: 0 decided, 0 after Holm's correction."
    assert docs._tested([one | {"by": "us", "p": None}]) == "0 claims tested; asked by us: 1 undecided."
    assert docs._tested([]) == "0 claims tested."


def test_hours_are_told_in_two_digits():
    def told(*hours: tuple | None) -> str:
        return docs._told([None if one is None else docs.Spent(*one) for one in hours])

    assert told((9.0, 2.557)) == "2.6" and told((815.1, None), (9.0, 1.0)) == "~820"
    assert told((1.0, 3.0)) == "3" and told((1630.2, None)) == "~1,600"
    assert told(None, (1.0, 3.0)) == "3 and more" and told(None) == "-"


def test_how_far_guesses_are_from_what_was_measured():
    hours = [docs.Spent(*one) for one in ((9.0, 3.0), (1.0, 2.0), (7.0, None), (6.0, 0.1, False))]
    told = "For the 2 experiments that were run in full, estimates were 0.5 to 3.0 times the measured core hours."
    assert told in docs._trust([*hours, None])
    assert "For the 1 experiment that was run in full, estimates were 3.0 to 3.0 times" in docs._trust(hours[:1])
    assert "No core hours" in docs._trust([None, docs.Spent(1.0, None)])


def test_captions_mean_in_snakemakes_report_what_they_say(quoted, tmp_path):
    """Whatever signs are in them: it takes them for Jinja's and then for reStructuredText's."""
    odd = quoted.spec.figures["fig4d"].model_copy(update={"title": "A *b* `c` _d_ |e| {{ f }} {% g %} \\h é"})
    changed = quoted.spec.model_copy(update={"figures": quoted.spec.figures | {"fig4d": odd}})
    snakemake_captions.write(changed, quoted.folder, tmp_path)
    assert sorted(path.stem for path in tmp_path.glob("*.rst")) == sorted(quoted.spec.artifacts)
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)

    def shown(key: str) -> list[str]:
        text = environment.from_string((tmp_path / f"{key}.rst").read_text(encoding="utf-8")).render()
        body = publish_parts(text, writer="html", settings_overrides={"report_level": 5})["body"]
        return re.findall("<p>(.*?)</p>", html.unescape(body), re.DOTALL)

    assert shown("fig4d") == [odd.caption(quoted.evidence), f"<em>{quoted.spec.reference}</em>"]
    told = summary.summary(summary.read(quoted.folder))
    assert re.match(r"\d+ (\w| )+, ", told) and shown("verdicts")[0] == f"A verdict for each claim: {told}."


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_link_leads_nowhere(path):
    """Files that are there, headings of the same page."""
    text = path.read_text(encoding="utf-8")
    titles = [line.lstrip("# ").lower() for line in text.splitlines() if line.startswith("#")]
    headings = {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif not target.startswith("https://"):
            assert (path.parent / target.partition("#")[0]).exists(), target


def test_the_citation_says_what_the_package_says():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    package = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert cited["cff-version"] == "1.2.0" and cited["type"] == "software" and cited["authors"]
    assert f'version = "{cited["version"]}"' in package and f'license = "{cited["license"]}"' in package
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")


def test_the_citation_names_every_paper():
    """As its experiments file does: title, authors, year, number."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    papers = read_params(ROOT / "params.yaml").papers
    assert len(cited) == len(papers)
    for paper, one in zip(papers, cited, strict=True):
        told = yaml.safe_load((ROOT / "workflow" / "experiments" / f"{paper}.yaml").read_text(encoding="utf-8"))["reference"]
        names = [f"{author['given-names']} {author['family-names']}" for author in one["authors"]]
        assert told.startswith(f"{', '.join(names)}. {one['title']}. ") and one["identifiers"][0]["value"] in told
        assert str(one["year"]) in told
