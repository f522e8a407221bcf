"""The pages of a scale, four papers with 260 claims, as they stand in their files. test_browser.py
has a browser look at it."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from fedrepro.report.documents import html
from fedrepro.report.verdicts import summary
from support import committed, pages
from support.checkout import ROOT
from support.pages import PAPERS, build, first


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
        return [
            attributes[key] for name, attributes in self.seen if name == tag and key in attributes
        ]

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
            path = (
                (site / key / unquote(name.partition("?")[0])).resolve()
                if name
                else site / key / "index.html"
            )
            assert path.exists(), (key, address)
            if place:
                assert place in ids[path.resolve()], (key, address)


def test_every_link_of_the_committed_pages_leads_somewhere():
    reports = ROOT / "reports"
    found = [
        reports / "index.html",
        *(path for scale in committed.SCALES for path in (reports / scale).rglob("index.html")),
    ]
    texts = {path.resolve(): path.read_text(encoding="utf-8") for path in found}
    ids = {path: set(re.findall(r' id="([^"]+)"', text)) for path, text in texts.items()}
    for page, text in texts.items():
        for address in set(re.findall(r' (?:href|src)="(?!https://|data:)([^"]+)"', text)):
            name, _, place = address.partition("#")
            path = (page.parent / unquote(name.partition("?")[0])).resolve() if name else page
            assert path.exists() and (not place or path not in ids or place in ids[path]), (
                page,
                address,
            )


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
        int(number)
        for number in re.search(rf"{re.escape(words)} ((?:[\d·]+ )*\d+)", found.text)[1]
        .replace("·", "0")
        .split()
    ]


def test_every_page_opens_with_its_tally(site, tags):
    for key, title in PAPERS.items():
        records = [record for record in summary.read_verdicts(site / key) if record.tested]
        every = summary.tally(records)
        published, own = (
            summary.tally(summary.claimed_by(records, by)) for by in (summary.PAPER, summary.US)
        )
        assert sum(published.values()) == 18 and sum(own.values()) == 4 and len(every) >= 2
        for row, counts in ((title, published), (f"{title}: asked by us", own)):
            assert cells(tags[""], row) == [
                *(counts.get(status, 0) for status in every),
                sum(counts.values()),
            ]
        assert (
            f"Of the paper's claims: {summary.format_counts(published)}.".replace(
                ",", " ,"
            ).replace("open.", "open .")
            in tags[key].text
        )
        assert (
            "Fig. 2, part 43 1,200 fedmmd_fig2_part 3 of 3 runs are not finished".replace(
                "fedmmd", key
            )
            in tags[key].text
        )
        assert not {"claim-c1", "claim-c2"} & {*tags[key].ids} and "claim-c3" in tags[key].ids
        assert tags[key].text.count("asked by us, on Table") == 4
    assert cells(tags[""], "All")[-1] == 88


def test_a_scale_that_is_not_compared_has_one_sentence(tmp_path):
    scale = build(tmp_path, ["fedmmd"], "none")
    for path in (scale / "index.html", scale / "fedmmd/index.html"):
        found = Tags(path)
        assert found.text.count(html.NO_CLAIM) == 1 and "the-filter" not in found.ids
        assert "badge" not in {
            name for names in found.all("span", "class") for name in names.split()
        }
        assert not any("data-for" in attributes for _, attributes in found.seen)
    assert "Drawn" in Tags(scale / "index.html").text


HOSTILE = (
    """javascript:alert(1) </script><script>alert(1)</script> " onclick="a" ' x=' """
    "<img src=x onerror=a> {{ 7 * 6 }}"
)


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
        assert not {
            key
            for _, attributes in found.seen
            for key in attributes
            if key.startswith("on") or key == "x"
        }
        assert not [
            address for address in found.all("a", "href") if address.startswith("javascript")
        ]
        assert "x" not in found.all("img", "src")
