"""The pages of a scale, four papers with 260 claims, as they stand in their files. test_browser.py has a browser look at it."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from fedrepro.report.documents import entries, html, page_view
from fedrepro.report.verdicts import summary
from support import committed, pages
from support.checkout import ROOT
from support.pages import FIGURES, PAPERS, build, compose, first
from support.results import made, store, waits


@pytest.fixture
def alone(single, tmp_path) -> Path:
    """A scale with one paper, to be changed."""
    shutil.copytree(single.parents[1], tmp_path / "alone")
    return tmp_path / "alone/reports/paper"


@pytest.fixture(scope="module")
def single(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("single"), ["fedmmd"])


class Tags(HTMLParser):
    """Which tags a page has, and that each is closed where it should be."""

    EMPTY = {"meta", "img", "br", "hr", "link", "input"}

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open, self.seen, self.words = [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open[-1:]):
            self.words.append(data)

    def all(self, tag: str, key: str) -> list[str]:
        return [attributes[key] for name, attributes in self.seen if name == tag and key in attributes]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.seen if "id" in attributes]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("site"), list(PAPERS))


@pytest.fixture(scope="module")
def tags(site) -> dict[str, Tags]:
    """The overview as "", and each paper's page."""
    return {key: Tags(site / key / "index.html") for key in ("", *PAPERS)}


def test_every_link_leads_somewhere(site, tags):
    ids = {(site / key / "index.html").resolve(): found.ids for key, found in tags.items()}
    for key, found in tags.items():
        assert len(found.ids) == len(set(found.ids)), key
        for address in [*found.all("a", "href"), *found.all("img", "src")]:
            name, _, place = address.partition("#")
            path = (site / key / unquote(name.partition("?")[0])).resolve() if name else site / key / "index.html"
            assert path.exists(), (key, address)
            if place:
                assert place in ids[path.resolve()], (key, address)


def test_every_link_of_the_committed_pages_leads_somewhere():
    reports = ROOT / "reports"
    found = [reports / "index.html", *(path for scale in committed.SCALES for path in (reports / scale).rglob("index.html"))]
    texts = {path.resolve(): path.read_text(encoding="utf-8") for path in found}
    ids = {path: set(re.findall(r' id="([^"]+)"', text)) for path, text in texts.items()}
    for page, text in texts.items():
        for address in set(re.findall(r' (?:href|src)="(?!https://|data:)([^"]+)"', text)):
            name, _, place = address.partition("#")
            path = (page.parent / unquote(name.partition("?")[0])).resolve() if name else page
            assert path.exists() and (not place or path not in ids or place in ids[path]), (page, address)


def test_the_pages_ask_for_nothing_from_elsewhere(site, tags):
    for key, found in tags.items():
        text = (site / key / "index.html").read_text(encoding="utf-8")
        assert found.all("script", "src") == ["../../vega/explore.js"] * bool(key)
        assert found.all("link", "href") == ["data:,", *["../../vega/curves.css"] * bool(key)]
        assert not re.search(r"url\(|@import|\bsrcset\b|https?://|<(iframe|object|base)\b", text)
        assert len(text) < 400_000


def cells(found: Tags, words: str) -> list[int]:
    """The numbers of the row of a tally that begins so."""
    return [
        int(number) for number in re.search(rf"{re.escape(words)} ((?:[\d·]+ )*\d+)", found.text)[1].replace("·", "0").split()
    ]


def test_every_page_opens_with_its_tally(site, tags):
    for key, title in PAPERS.items():
        records = summary.read_verdicts(site / key)
        every = summary.tally(records)
        published, own = (summary.tally(summary.claimed_by(records, by)) for by in (summary.PAPER, summary.US))
        assert sum(published.values()) == 61 and sum(own.values()) == 4 and len(every) >= 3
        assert cells(tags[key], "All") == [*every.values(), 65]
        for found, row, counts in ((tags[""], title, published), (tags[key], "Asked by us", own)):
            assert cells(found, row) == [*(counts.get(status, 0) for status in every), sum(counts.values())]
        assert cells(tags[""], f"{title}: asked by us")[-1] == 4
        assert cells(tags[key], "Fig. 1a")[-1] == 18 and cells(tags[key], "Fig. 2, part")[-1] == 43
        assert tags[key].text.count("asked by us, on Table") == 4
    assert cells(tags[""], "All")[-1] == 260


def test_claims_stand_with_the_figure_that_tests_them(site, tags):
    text = (site / "fedmmd/index.html").read_text(encoding="utf-8")
    drawn = re.search(r'<section id="fig1a".*?</section>', text, re.DOTALL)[0]
    named = re.findall(r'id="claim-(\w+)" data-for="fig1a" data-verdict="([^"]+)"', drawn)
    assert sorted(key for key, _ in named) == sorted(f"c{number}" for number in range(0, 64, 3))
    absent = re.search(r'<section id="fig2_part".*?</section>', text, re.DOTALL)[0]
    assert len(re.findall('data-for="fig2_part"', absent)) == 43 and str(waits(3, 3)) in absent


def test_what_is_not_judged_comes_last_and_folded(tags):
    for key, found in tags.items():
        rows = [attributes["data-verdict"] in page_view.UNJUDGED for tag, attributes in found.seen if "data-for" in attributes]
        assert len(rows) == (65 if key else 260)
    rows = [
        attributes["data-verdict"] in page_view.UNJUDGED for _, attributes in tags["fedmmd"].seen if "data-for" in attributes
    ]
    assert rows == sorted(rows)
    assert f"{FIGURES - 4} of the figures and tables not run at this scale, 43 claims" in tags["fedmmd"].text
    assert f"{FIGURES - 4} more not run at this scale" in tags[""].text
    assert tags["fedmmd"].text.count("3 of 3 runs are not finished (about 1,200 core hours).") == FIGURES - 4


def test_each_figure_says_how_it_is_remade(site, tags):
    text = tags["fedmmd"].text
    for words in (
        "Files SVG · CSV Runs First Redraw uv run snakemake --cores 2 fedmmd_fig1a --config scale=paper report_only=true",
        "Train again uv run snakemake --cores 2 fedmmd_table1 --config scale=paper use_kept_results=false",
        "Run it: uv run snakemake --cores 2 fedmmd_fig2_part --config scale=paper 43 claims: 43 not run",
    ):
        assert words in text
    addresses = tags["fedmmd"].all("a", "href")
    assert {"figures/fig1a.svg", "figures/fig1a.csv", "tables/table1.csv"} <= set(addresses)
    assert "../../../results/runs/fedmmd/mnist-fedavg-s0-0123456789abcdef/" in addresses


def test_what_cannot_be_run_at_a_scale_has_no_command(alone):
    """A reason of the settings, not of time: the command would train nothing."""
    store(made({}, skipped="left for the next scale"), alone / "fedmmd/data", "second")
    compose(alone.parents[1], alone, hours=0)
    text = Tags(alone / "fedmmd/index.html").text
    assert "Not run at this scale: left for the next scale." in text and "Run it" not in text
    store(made({}, skipped=waits(6, 6)), alone / "fedmmd/data", "first")
    compose(alone.parents[1], alone, hours=0)
    text = Tags(alone / "fedmmd/index.html").text
    assert f"Not run at this scale: {waits(6, 6)}; left for the next scale. Run it: uv run snakemake" in text
    assert "Not run at this scale: left for the next scale. 43 claims" in text


def test_commit_date_and_version_stand_on_every_page(tags):
    for found in tags.values():
        assert re.search(r"fedrepro \d+\.\d+\.\d+", found.text)
        assert "runs of 2 commits, the latest bbbbbbbbbb of 2026-11-20" in found.text
    assert "Runs by commit: bbbbbbbbbb of 2026-11-20 (4), aaaaaaaaaa (2)." in tags["fedmmd"].text


def test_settings_show_what_differs_first(tags):
    text = tags["fedmmd"].text[tags["fedmmd"].text.index("Where the numbers come from Runs by commit") :]
    assert text.index("Series lr algorithm") < text.index("all series share") < text.index("Series Seed Run")


def test_numbers_are_flush_right(site):
    text = (site / "fedmmd/index.html").read_text(encoding="utf-8")
    table = re.search(r'<section id="table1".*?</table>', text, re.DOTALL)[0]
    heads = dict(re.findall(r'<th scope="col"( class="number")?>([^<]+)<', table)[i][::-1] for i in range(8))
    assert heads["Rounds"] and heads["Saved vs FedAvg (%)"] and heads["Final accuracy (%)"] and not heads["Series"]


@pytest.mark.parametrize(("key", "name", "words"), [
    ("fig4d", None, "Fig. 4d"), ("fig4d_code_net", None, "Fig. 4d, code net"), ("rounds_by_hand", None, "Rounds by hand"),
    ("fig4_rounds", "rounds to 98 %", "Fig. 4, rounds to 98 %"), ("fig4_start", "Fig. 4's start", "Fig. 4's start"),
])  # fmt: skip
def test_keys_in_words(key, name, words):
    assert entries.label(key, name) == words


def test_lines_do_not_break_within_a_number():
    assert (
        html.with_no_break_spaces("22.4 % (1 seed), 5 ± 1 (n = 2) of all").replace("\N{NO-BREAK SPACE}", "_")
        == "22.4_% (1_seed), 5 ±_1 (n_=_2) of all"
    )


def test_a_scale_that_is_not_compared_has_one_sentence(tmp_path):
    scale = build(tmp_path, ["fedmmd"], "none")
    for path in (scale / "index.html", scale / "fedmmd/index.html"):
        found = Tags(path)
        assert found.text.count(html.NO_CLAIM) == 1 and "the-filter" not in found.ids
        assert "badge" not in {name for names in found.all("span", "class") for name in names.split()}
        assert not any("data-for" in attributes for _, attributes in found.seen)
    assert "Drawn" in Tags(scale / "index.html").text


def test_made_again_the_pages_are_the_same(site):
    """No date of making, no order of a set."""
    before = {key: (site / key / "index.html").read_bytes() for key in ("", *PAPERS)}
    compose(site.parents[1], site)
    assert {key: (site / key / "index.html").read_bytes() for key in before} == before


HOSTILE = """javascript:alert(1) </script><script>alert(1)</script> " onclick="a" ' x=' <img src=x onerror=a> {{ 7 * 6 }}"""


def test_texts_of_claims_labels_and_data_stay_texts(tmp_path, monkeypatch):
    labels = tuple(f"{HOSTILE} {n}" for n in range(3))
    monkeypatch.setattr(pages, "LABELS", labels)
    monkeypatch.setattr(pages, "PAPERS", {"fedmmd": HOSTILE})
    told = {name: HOSTILE for name in ("text", "source", "because", "note")}
    claims = {key: claim | told for key, claim in pages.claims().items()}
    for claim in claims.values():
        claim["quantity"] |= {"series": labels[0], "baseline": labels[1]}
    given = pages.paper(HOSTILE) | {"claims": claims, "reference": HOSTILE}
    for table in given["tables"].values():
        table["baseline"] = labels[1]
    monkeypatch.setattr(pages, "paper", lambda title: given)
    results = first()
    for number, run in enumerate(results.runs()):
        run |= {"hardware": HOSTILE, "dataset": HOSTILE, "commit": HOSTILE, "run": f"run-{number}"}
    monkeypatch.setattr(pages, "first", lambda compare: results)
    scale = build(tmp_path, ["fedmmd"])
    for path in (scale / "index.html", scale / "fedmmd/index.html"):
        found = Tags(path)
        assert HOSTILE in found.text
        assert [tag for tag, _ in found.seen].count("script") == (1 if path.parent == scale else 2)
        assert not {key for _, attributes in found.seen for key in attributes if key.startswith("on") or key == "x"}
        assert not [address for address in found.all("a", "href") if address.startswith("javascript")]
        assert "x" not in found.all("img", "src")


def test_kept_runs_are_linked_where_they_lie(alone):
    path = alone / "fedmmd/data/first.json"
    note = json.loads(path.read_text(encoding="utf-8"))
    note["series"]["FedAvg"]["runs"][0]["kept"] = True
    path.write_text(json.dumps(note), encoding="utf-8")
    compose(alone.parents[1], alone)
    links = Tags(alone / "fedmmd/index.html").all("a", "href")
    assert "../../../results/kept/fedmmd.jsonl" in links
