"""The first page of the results."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedrepro.report.documents import findings
from fedrepro.report.paper import Elsewhere
from fedrepro.report.verdicts.summary import Record
from fedrepro.runs.paths import Paths
from support import committed
from support.checkout import ROOT
from support.records import record


class Spec:
    title, reference, question, is_tuned = (
        "A <paper>",
        "A. Author. A & B. arXiv:1908.05891",
        "",
        False,
    )
    headlines = ("a", "b", "c", "e", "f")
    protocols = dict.fromkeys(headlines, SimpleNamespace(sentence="It is better"))
    elsewhere = {"c": Elsewhere(claims=("d",)), "e": Elsewhere(claims=("a",), differ="Of others")}

    def size(self, experiment: str, scale: str) -> str:
        return "15 of 300 rounds"


def claim(key: str, verdict: str, **changes) -> Record:
    numbers = {"mean": 0.0286, "half_width": 0.0056, "reported_number": 0.07}
    numbers |= {"p": 0.001, "p_holm": 0.01}
    texts = {
        "claim": f"{key} leads",
        "reported": "+7 points",
        "ours": "+2.86 ± 0.56 points (n = 4)",
        "headline": "FedX",
        "registered": "listed after 4 of 4 runs",
        "measure": "test accuracy",
        "source": "Abstract",
        "why": "2 of 2 runs are not finished",
    }
    return record(**{"key": key, "verdict": verdict} | numbers | texts | changes)


@pytest.fixture
def reports(tmp_path) -> Path:
    records = {
        "paper": [claim("a", "contradicted"), claim("b", "not tested")],
        "small": [
            claim("a", "open"),
            claim("b", "supported", panels=8),
            claim("c", "not tested"),
            claim("d", "open", headline=""),
            claim("e", "not tested", headline="FedY"),
            claim("f", "supported", unit="%", p_holm=0.06, mean=0.03),
        ],
    }
    for scale, verdicts in records.items():
        folder = tmp_path / scale / "p" / "tables"
        folder.mkdir(parents=True)
        (folder / "verdicts.json").write_text(json.dumps([vars(one) for one in verdicts]))
    return tmp_path


def test_every_headline_is_answered_by_the_first_place_that_tests_it(reports):
    """By runs of its own, else by other claims at the paper's settings, else by those at a smaller
    scale."""
    scales = ["paper", "small"]
    records = findings.collect_records(reports, ["p"], scales)
    rows = findings.answer_headlines(records, {"p": Spec()}, scales)
    answers = [
        (row.headline.key, row.answer and (row.answer.key, row.answer.scale), row.is_registered)
        for row in rows
    ]
    assert answers == [
        ("a", ("a", "paper"), True),
        ("b", ("b", "small"), True),
        ("c", ("d", "small"), False),
        ("e", ("a", "paper"), False),
        ("f", ("f", "small"), True),
    ]
    assert findings.coverage(records, scales) == (
        "Of the 6 numbers and directions that the papers report, we tested 1 at their own settings "
        "(1 decided) and 4 at scale small, by direction alone (2 decided)."
    )
    assert (
        findings.count_answers(rows)
        == "Answers to the 5 claims below: 2 contradicted; 2 supported; 1 open."
    )
    assert [row.answered_by for row in rows] == [
        "",
        "",
        "Answered so far by: d leads",
        "Answered so far by: a leads",
        "",
    ]
    table = findings.readme_table(rows, scales).splitlines()
    assert len(table) == 7 and table[0].count("|") == table[2].count("|") == 8
    assert table[4].endswith(
        "| +2.86 ± 0.56 points, open (``, reported +7 points) | - | open (earlier runs) |"
    )
    assert "| e leads<br>Answered so far by: a leads<br>Of others |" in table[5]
    assert "| c leads<br>Answered so far by: d leads |" in table[4] and table[3].endswith(
        "| **supported**: the direction; the interval excludes the reported number |"
    )
    assert [bool(row.size_note) for row in rows] == [False, True, False, False, True]
    within = replace(rows[1].headline, half_width=0.05)
    assert not replace(rows[1], places={"registered": [within]}).size_note


def test_the_page_shows_all_and_is_the_same_each_time(reports):
    def write() -> dict[str, bytes]:
        findings.write_findings(reports, {"p": Spec()}, ["paper", "small", "absent"])
        return {name: (reports / name).read_bytes() for name in ("index.html", "findings.svg")}

    first = write()
    assert write() == first
    page = first["index.html"].decode()
    assert "A &lt;paper&gt;" in page and 'href="https://arxiv.org/abs/1908.05891"' in page
    assert (
        "absent" not in page
        and page.count('<tr>\n<th scope="row"><strong>') == 5
        and "we tested 1 at their own settings" in page
        and "Answered so far by: d leads" in page
    )


def test_the_committed_page_follows_from_the_verdicts(tmp_path):
    own = committed.reports("small", Paths())
    for path in [
        *(ROOT / "reports").glob("*/*/tables/verdicts.json"),
        *(ROOT / "reports").glob("*/arena/tables/ranks_all.csv"),
    ]:
        copy = tmp_path / path.relative_to(ROOT / "reports")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    findings.write_findings(tmp_path, own.papers, own.compared_scales)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    there = (ROOT / "reports" / "index.html").read_text(encoding="utf-8")
    assert page == re.sub(r'<a href="../docs/\w+.md">what the paper leaves open</a>, ', "", there)
    assert [name for name, spec in own.papers.items() if spec.is_tuned] == ["arena"]
    assert (
        page.count("Supported, for these tuned values") == 1
        and "do not cover the choice of the tuned values" in page
    )
    assert (tmp_path / "findings.svg").read_bytes() == (
        ROOT / "reports" / "findings.svg"
    ).read_bytes()
    for scale, paper, key in re.findall(r'href="(\w+)/(\w+)/index.html#claim-([\w-]+)"', there):
        assert f'id="claim-{key}"' in (ROOT / "reports" / scale / paper / "index.html").read_text(
            encoding="utf-8"
        )
