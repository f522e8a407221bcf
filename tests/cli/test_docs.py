"""README, CONTRIBUTING, docs/ and CITATION.cff: links, commands, code, and what they quote of the
reports."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from fedrepro.cli import docs, main
from fedrepro.config.params import Params, read_params
from fedrepro.report import paper as spec
from fedrepro.report.verdicts import summary
from support.checkout import ROOT

# with committed results
PAPERS = list(read_params(ROOT / "params.yaml", {"scale": "paper"}).default_papers)
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "data/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
NUMBER = r"[-+]?[\d.]+ ± [\d.]+ (?:points|%|rounds) \(n = \d+\)"
SCALES = ("paper", "small")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def verdicts(scale: str, paper: str) -> list[summary.Record]:
    return summary.read_verdicts(ROOT / "reports" / scale / paper)


def rows(text: str) -> set[tuple[str, ...]]:
    """The cells of all rows of the tables in a text."""
    return {
        tuple(cell.strip() for cell in line.split("|")[1:-1])
        for line in text.splitlines()
        if line.startswith("|")
    }


# ---- what is quoted of the results


@pytest.mark.parametrize("paper", PAPERS)
def test_numbers_in_short_are_those_of_verdicts(paper):
    short = text_of(ROOT / "docs" / f"{paper}.md").split("## In short")[1].split("\n## ")[0]
    quoted = re.findall(NUMBER, " ".join(short.split()))
    assert quoted and set(quoted) <= {
        record.ours for scale in SCALES for record in verdicts(scale, paper)
    }


# ---- what is shown


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_link_leads_nowhere(path):
    """Files that are there, and headings of the page that is named."""
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(path)):
        if target.startswith("https://"):
            continue
        file, _, heading = target.partition("#")
        page = path.parent / file if file else path
        assert page.exists(), target
        assert not heading or heading in headings(text_of(page)), target


def headings(text: str) -> set[str]:
    titles = [line.lstrip("# ").lower() for line in text.splitlines() if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_and_settings_that_are_shown_exist(path):
    text = text_of(path)
    commands = {name for name, *_ in main.COMMANDS}
    assert (
        set(re.findall(r"(?:uv run fedrepro|`fedrepro|python -m fedrepro\.cli) (\w+)", text))
        <= commands
    )
    given = re.findall(r"--config ((?:\w+=\S+ ?)+)", text)
    assert {pair.partition("=")[0] for pairs in given for pair in pairs.split()} <= set(
        Params.model_fields
    )


def test_python_that_is_shown_runs(tmp_path, monkeypatch, capsys):
    """README's blocks train and read committed results; the last one of docs/python.md trains too.
    What is shown learns."""
    blocks = [
        re.findall(r"```python\n(.*?)```", text_of(ROOT / name), re.DOTALL)
        for name in ("README.md", "docs/python.md")
    ]
    monkeypatch.chdir(ROOT)
    for code in [*blocks[0][1:], *blocks[1][:-1]]:
        exec(code, {})
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    exec(blocks[0][0], {})
    [shown] = re.findall(r"# (0\.\d+)$", blocks[0][0], re.MULTILINE)
    # on other processors sums round differently
    assert float(capsys.readouterr().out) == pytest.approx(float(shown), abs=0.02)
    exec(blocks[1][-1].replace("rounds=30", "rounds=8"), {})
    assert float(capsys.readouterr().out.split()[-2]) > 0.8


def test_generated_files_are_up_to_date(tmp_path):
    """Write them with: uv run fedrepro docs."""
    texts = docs.texts(ROOT)
    for path, text in texts.items():
        assert text_of(ROOT / path) == text, path
        (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
    for path in (
        ROOT / "params.yaml",
        *ROOT.glob("workflow/papers/*/*.yaml"),
        *ROOT.glob("workflow/papers/*/curves.json"),
    ):
        shutil.copyfile(path, tmp_path / path.relative_to(ROOT))
    assert docs.write(tmp_path) == list(texts) and docs.write(tmp_path) == []


# ---- the files beside them


def test_the_citation_names_the_package_and_every_paper():
    cited, package = (
        yaml.safe_load(text_of(ROOT / "CITATION.cff")),
        text_of(ROOT / "pyproject.toml"),
    )
    assert (
        f'version = "{cited["version"]}"' in package
        and f'license = "{cited["license"]}"' in package
    )
    for paper, one in zip(PAPERS, cited["references"], strict=True):
        reference = spec.read_paper(paper, read_params(ROOT / "params.yaml")).reference
        names = [f"{author['given-names']} {author['family-names']}" for author in one["authors"]]
        assert (
            reference.startswith(f"{', '.join(names)}. {one['title']}. ")
            and one["identifiers"][0]["value"] in reference
        )
        assert str(one["year"]) in reference
