"""What the repository's front pages take from committed results: the README's table of artifacts, and `docs/<paper>.md`."""

import functools
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import torch

from fedrepro.config.params import Params, read_params
from fedrepro.core.errors import UserError, unknown
from fedrepro.core.files import read_json, replacing
from fedrepro.core.formatting import count
from fedrepro.experiments import plan
from fedrepro.experiments.cost_model import Known, cost, size
from fedrepro.experiments.finished_runs import Data
from fedrepro.report import paper as spec
from fedrepro.report.documents import page_view
from fedrepro.report.documents.quotes import Quoted
from fedrepro.report.documents.templating import BRACKETS, environment
from fedrepro.report.inputs.panel import split_source
from fedrepro.report.numbers import NONE
from fedrepro.report.paper import Paper
from fedrepro.report.verdicts import summary as tally
from fedrepro.report.verdicts.rules import RULES
from fedrepro.runs import integrity
from fedrepro.runs.paths import Paths

SCALES = ("small", "paper")  # whose reports are committed
BEGIN, END = "<!-- artifacts: written by `fedrepro docs` -->", "<!-- end of artifacts -->"
PART = "in part"
MID = r"\|"  # a line that ends no cell
COLUMNS = ("target", "what it shows", "small", "paper", "verdicts", "core hours")
NOWHERE = Paths(results=Path("/dev/null"))  # as if nothing were kept


def write(root: Path = Path()) -> list[Path]:
    """Write README.md's table and the pages in docs/ anew below `root`; the files that changed."""
    made = pages(root)
    readme = root / "README.md"
    made[readme] = placed(readme.read_text(encoding="utf-8"), table(root))
    changed = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in changed:
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(made[path], encoding="utf-8")
    return changed


def placed(readme: str, text: str) -> str:
    """The README with its table exchanged. Raises UserError where it has no place for one."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"README.md: expected a part between '{BEGIN}' and '{END}'")
    return f"{before}{begin}\n\n{text}\n{end}{after}"


def pages(root: Path) -> dict[Path, str]:
    """`docs/<paper>.md` of each paper that has a template beside its experiments file."""
    planned = functools.cache(functools.partial(_planned, root))
    return {
        root / "docs" / f"{paper}.md": page(specification, paper, root, functools.partial(_size, planned, paper))
        for paper, specification in _specs(read_params(root / "params.yaml"), root).items()
        if (root / spec.FOLDER / f"{paper}.md.j2").exists()
    }


def page(specification: Paper, paper: str, root: Path, size: Callable[..., tuple[int, int]] | None = None) -> str:
    """A paper's page. `size`: scale, experiment and series -> weights and multiply-adds of its network, which is built for it.
    Raises UserError where it quotes what was not run."""
    templates = environment(jinja2.FileSystemLoader(root / spec.FOLDER), **BRACKETS)
    templates.filters |= {
        "points": "{:.1f}".format,
        "signed": "{:+.1f}".format,
        "nats": lambda percent: f"{percent / 100:.1f}",  # lines are in percent, losses too
        "round": lambda found: "never" if found is None else f"{found:g}",
    }
    results = {scale: Quoted(specification, root / "reports" / scale / paper) for scale in SCALES}
    try:
        text = templates.get_template(f"{paper}.md.j2").render(spec=specification, size=size, **results)
    except jinja2.TemplateError as error:
        raise UserError(f"{_place(error) or root / spec.FOLDER / f'{paper}.md.j2'}: {error.message}") from error
    return f"<!-- written by `fedrepro docs` from {spec.FOLDER}/{paper}.md.j2 and the committed results -->\n{text}"


def _place(error: jinja2.TemplateError) -> str:
    """File and line of a template: a mistake of its syntax says them itself, another one in the frames that it went through."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{error.filename}, line {error.lineno}"
    frames = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__))
    places = [f"{file}, line {line}" for file, line in frames if file.endswith(".md.j2")]
    return places[-1] if places else ""


def _size(planned: Callable[[str], dict], paper: str, scale: str, experiment: str, series: str) -> tuple[int, int]:
    items = planned(scale)[paper]
    if experiment not in items:
        raise unknown("experiment", experiment, list(items))
    runs = {one.label: one.runs[0] for one in items[experiment].series}
    if series not in runs:
        raise unknown(f"series of experiment {experiment}", series, list(runs))
    return size(runs[series].config)


def _planned(root: Path, scale: str) -> dict[str, dict[str, plan.Planned]]:
    """All experiments as if nothing were kept."""
    params = read_params(root / "params.yaml", {"scale": scale})
    return plan.plan(params, NOWHERE, str(root / "params.yaml"), Data(params, NOWHERE, absent=True))


def table(root: Path) -> str:
    """Every figure and table of every paper: what there is at each scale, its verdicts, what it costs at scale paper."""
    specs = _specs(read_params(root / "params.yaml", {"scale": "paper"}), root)
    planned = _planned(root, "paper")
    known = Known(Paths(results=root / "results"), measured=False)  # the same guess on every machine
    hours = {paper: {name: _hours(item, root, known) for name, item in items.items()} for paper, items in planned.items()}
    named = {what: name for name, what in reversed(spec.targets(specs).items())}  # of an artifact's two names the short one
    parts = [_paper(paper, specs[paper], hours[paper], named, root) for paper in specs]
    return "\n".join([_trust(spent for own in hours.values() for spent in own.values()), _legend(), *parts])


def _specs(params: Params, root: Path) -> dict[str, Paper]:
    return spec.read_all(params, root / spec.FOLDER)


class Spent(NamedTuple):
    """Core hours of an experiment at scale paper; measured where its committed results say how long."""

    guessed: float
    measured: float | None
    whole: bool = True  # no run diverged, which ends before its last round

    @property
    def told(self) -> float:
        return self.guessed if self.measured is None else self.measured


def _trust(hours: Iterable[Spent | None]) -> str:
    """How far guesses are from what was measured."""
    ratios = [spent.guessed / spent.measured for spent in hours if spent and spent.measured and spent.whole]
    if not ratios:
        return "No core hours have been measured yet.\n"
    lowest, highest = min(ratios), max(ratios)
    measured = f"For the {count(len(ratios), 'experiment')} that {'was' if len(ratios) == 1 else 'were'} run in full"
    return f"{measured}, estimates were {lowest:.1f} to {highest:.1f} times the measured core hours.\n"


def _legend() -> str:
    rules = "".join(f"- *{status}*: {rule}\n" for status, rule in RULES.items())
    return f"<details><summary>What the verdicts mean</summary>\n\n{rules}\n</details>\n"


def _paper(
    paper: str, specification: Paper, hours: Mapping[str, Spent | None], named: Mapping[tuple[str, str], str], root: Path
) -> str:
    """What was tested of the paper, and a row for each of its figures and tables."""
    verdicts = {scale: page_view.judged(tally.read(root / "reports" / scale / paper)) for scale in SCALES}
    claims, rows = sum(not claim.ours for claim in specification.claims.values()), []
    for key in [*specification.figures, *specification.tables]:
        sources = specification.sources([key])
        states = {scale: _state(sources, root / "reports" / scale / paper / "data") for scale in SCALES}
        own = [item for item in verdicts["paper"] if item["artifact"] == key]
        behind = dict.fromkeys(split_source(name)[0] for name in sources)
        spent = _told([hours[name] for name in behind])
        best = next((scale for scale in reversed(SCALES) if states[scale] != NONE), None)  # where there is most to see
        link = _link(specification, root, f"reports/{best}/{paper}", key, named[paper, key])
        rows.append([link, specification[key].title, *states.values(), _counted(own), spent])
    whole = {scale: sum(row[column] not in (NONE, PART) for row in rows) for column, scale in enumerate(SCALES, start=2)}
    head = f"**{specification.title}**: {count(claims, 'claim')} in the paper, "
    head += f"{count(len(rows), 'artifact')} (the paper's and our own)."
    if (root / spec.FOLDER / f"{paper}.md.j2").exists():
        head += f" [What we found, and what the paper leaves open](docs/{paper}.md)."
    head += "\n"
    for scale in reversed(SCALES):
        made = f"{count(whole[scale], 'artifact')} complete, {_spent(paper, scale, root):.1f} core hours spent"
        head += f"\n- At `{scale}`, {_tested(verdicts[scale])} {made}."
    lines = [COLUMNS, ("---",) * (len(COLUMNS) - 1) + ("---:",), *rows]
    shown = "".join(f"| {' | '.join(cell.replace('|', MID) for cell in cells)} |\n" for cells in lines)
    return f"{head}\n\n<details><summary>Its {len(rows)} artifacts</summary>\n\n{shown}\n</details>\n"


def _state(sources: list[str], folder: Path) -> str:
    """How many seeds lie behind an artifact, or that not all that it shows was run."""
    notes = [read_json(folder / f"{source}.json", "skipped", "series") for source in sources]
    there = [note for note in notes if note and not note["skipped"]]
    if not there:
        return NONE
    if len(there) < len(notes) or any(note.get("missing") for note in there):
        return PART
    seeds = [len({run["seed"] for series in note["series"].values() for run in series["runs"]}) for note in there]
    told = " to ".join(map(str, sorted({min(seeds), max(seeds)})))
    return f"{told} seed{'s' * (told != '1')}"


def _spent(paper: str, scale: str, root: Path) -> float:
    """Core hours of the committed runs behind a scale's report, as far as they were timed."""
    told = [read_json(path, "series") for path in sorted((root / "reports" / scale / paper / "data").glob("*.json"))]
    series = [one for note in told if note and isinstance(note["series"], dict) for one in note["series"].values()]
    runs = {run["run"]: run["rounds"] for one in series for run in one.get("runs", ()) if "rounds" in run}
    kept = root / "results" / "kept" / paper
    return sum(_seconds(kept / run / "timing.json", rounds) or 0 for run, rounds in runs.items()) / 3600


def _tested(verdicts: list[dict[str, Any]]) -> str:
    """What came of a paper's claims at a scale."""
    published = tally.made(verdicts, tally.PAPER)
    summary = f"{':' if published else ';'} {tally.summary(verdicts)}" if verdicts else ""
    text = f"{count(len(published), 'claim')} tested{summary}."
    tested, decided, left = tally.differences(verdicts)
    if tested:
        text += f" {count(tested, 'difference')} tested against zero: {decided} decided, {left} after Holm's correction."
    return text


def _counted(verdicts: list[dict[str, str]]) -> str:
    return tally.summary(verdicts) if verdicts else ""


def _link(specification: Paper, root: Path, folder: str, key: str, name: str) -> str:
    """The name on the command line, linked to what is committed, if anything is."""
    room, ending = ("figures", "png") if key in specification.figures else ("tables", "csv")
    path = f"{folder}/{room}/{key}.{ending}"
    return f"[`{name}`]({path})" if (root / path).exists() else f"`{name}`"


def _hours(item: plan.Planned, root: Path, known: Known) -> Spent | None:
    """None where it is skipped."""
    if item.skipped:
        return None
    note = read_json(root / "reports" / "paper" / item.paper / "data" / f"{item.name}.json", "series")
    found = [run for series in note["series"].values() for run in series["runs"]] if note else []
    runs = found if len(found) == len(item.runs) else []  # of all that is asked for today
    times = [_seconds(root / "results" / "kept" / item.paper / run["run"] / "timing.json", run["rounds"]) for run in runs]
    measured = sum(times) / 3600 if times and None not in times else None
    guessed = sum(cost(run, known, "auto", torch.device("cpu")).seconds for run in item.runs) / 3600
    return Spent(guessed, measured, all(run["status"] == "finished" for run in runs))


def _seconds(path: Path, rounds: int) -> float | None:
    """Of a core, for a run: as its rounds took that were timed, since earlier code lost the time of what was interrupted. None
    where no time is known."""
    timed = integrity.read_result(path, "rounds", "seconds") if path.exists() else None
    return timed.get("core_seconds", timed["seconds"]) * rounds / timed["rounds"] if timed and timed["rounds"] else None


def _told(hours: list[Spent | None]) -> str:
    """Two digits; a guess has a tilde."""
    known = [spent for spent in hours if spent]
    if not known:
        return NONE
    total = sum(spent.told for spent in known)
    text = f"{float(f'{total:.2g}'):,.1f}".removesuffix(".0") if total < 10 else f"{float(f'{total:.2g}'):,.0f}"
    text = text if all(spent.measured is not None for spent in known) else f"~{text}"
    return text if len(known) == len(hours) else f"{text} and more"
