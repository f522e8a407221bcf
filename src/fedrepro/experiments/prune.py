"""Away with run folders, studies and partitions that nothing names any more."""

import logging
import shutil
from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from fedrepro.config import registry
from fedrepro.config.params import Params
from fedrepro.core.files import is_locked
from fedrepro.core.formatting import count
from fedrepro.experiments import finished_runs, plan, study_plan
from fedrepro.runs.kept import is_kept
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import LOG, run_id

log = logging.getLogger(__name__)


def prune(params: Params, paths: Paths, delete: bool, other_code: bool = False) -> list[Path]:
    """Run folders, studies and snapshots in them, and partitions that no scale of the settings names; deleted if asked to. What
    is kept stays, and so do finished runs with settings and data that are named, which `other_code` trained: unless they are
    asked for too. Nothing is fetched: where data are not prepared here, runs with settings that are named stay, of whatever
    other data they are."""
    named: set[Path] = set()
    untold: dict[Path, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))  # config -> data, of what is not here
    asked: dict[Path, set[str]] = defaultdict(set)  # of what is not kept
    spared: set[Path] = set()
    for scale in params.scales:
        wanted = params.model_copy(update={"report_only": False, "scale": scale})
        planned = plan.plan_experiments(wanted, paths, finished_runs.DatasetIdentities(wanted, paths, absent=True))
        for run in plan.unique_runs(plan.all_experiments(planned)):
            partition = paths.partition(run.config, run.data)
            named |= {run.folder, partition, partition.with_suffix(".png")}
            if not is_kept(run.folder):
                asked[run.folder.parent].add(finished_runs.run_key(run.config, run.data))
            elif (own := paths.runs(run.folder.parent.name) / run_id(run.config, run.data)).name != run.id:
                spared.add(own)  # with `kept: false` it answers
            if run.data == finished_runs.UNKNOWN or not (paths.prepared(run.config.dataset) / "meta.json").exists():
                untold[run.folder.parent][finished_runs.config_key(run.config)].add(run.data)
        for item in plan.all_experiments(planned):
            for studied in study_plan.plan_studies(item, wanted, paths).values():
                named |= {path for case in studied.study_runs for path in study_plan.study_files(case)}
    runs, stored = paths.results / "runs", paths.results / "stored"
    spared |= _spared(asked, untold, named | spared, other_code, paths)
    for found in (named, spared):
        found |= {stored / path.relative_to(runs) for path in found if path.is_relative_to(runs)}
    named |= spared
    there, others = _made(runs, stored, paths.data / "partitions", named - spared)
    stale = sorted(path for path in there if path not in named)
    if left := sorted(str(path) for path in others if path not in named):
        log.warning("skipped, a link or not made by this pipeline: %s", ", ".join(left))
    busy = {path for path in stale if path.parent.parent == runs and path.is_dir() and is_locked(path / LOG)}
    for path in busy:
        log.warning("spared %s, in which a process is at work", path)
    stale = [path for path in stale if not busy & {path, *path.parents}]
    for path in stale if delete else []:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return stale


def _made(runs: Path, stored: Path, partitions: Path, named: set[Path]) -> tuple[list[Path], list[Path]]:
    """List runs, partitions, and the studies and snapshots of named runs, then everything else beside them. A link among
    them may be unlinked; a link in the place of a folder that holds them is not followed."""
    made: list[Path] = []
    others: list[Path] = []

    def sort(folder: Path, ours: Callable[[Path], bool]) -> None:
        for path in _inside(folder, others):
            (made if path.is_symlink() or ours(path) else others).append(path)

    for top in (runs, stored):
        for paper in _inside(top, others):
            sort(paper, lambda path: (path / "config.json").is_file())
    sort(partitions, lambda path: path.suffix in (".npz", ".png") and path.is_file())
    studies = tuple(f"{name}-" for name in registry.names("studies"))
    for folder in sorted(path for path in named if path.parent.parent in (runs, stored) and path.exists()):
        made += [path for path in _inside(folder, others) if path.name.startswith(studies) and path.is_file()]
        sort(folder / "snapshots", lambda path: path.name.startswith("round-") and (path.is_dir() or path.is_file()))
    return made, others


def _inside(folder: Path, others: list[Path]) -> list[Path]:
    """List a folder without .gitignore and unfinished files; append it to `others` if it is a link or not a folder."""
    if not folder.is_symlink() and folder.is_dir():
        return [path for path in folder.iterdir() if path.name != ".gitignore" and path.suffix != ".part"]
    if folder.is_symlink() or folder.exists():
        others.append(folder)
    return []


def _spared(
    asked: dict[Path, set[str]], untold: dict[Path, dict[str, set[str]]], named: set[Path], other_code: bool, paths: Paths
) -> set[Path]:
    """Find the runs that stay though their names are not named, by papers' folders: finished ones of the settings and data in
    `asked`, which other code trained; and, with their partitions, those of settings in `untold`, of other data than the release
    that stands for what is not here to be compared."""
    earlier, unprepared = set(), []
    for folder in asked.keys() | untold.keys():
        for run in chain.from_iterable(map(finished_runs.begun_runs, (folder, paths.stored(folder.name)))):
            if untold[folder].get(finished_runs.config_key(run.config), {run.data}) - {run.data}:
                unprepared.append(run)
            elif run.summary.exists() and folder / run.id not in named and not other_code:
                earlier |= {run.folder} if finished_runs.run_key(run.config, run.data) in asked[folder] else set()
    if earlier:
        told = "spared %s of earlier code with settings that are named: --other-code prunes them too"
        log.warning(told, count(len(earlier), "finished run"))
    if unprepared:
        missing = ", ".join(sorted({run.config.dataset.name for run in unprepared}))
        told = "spared %s with settings that are named: while %s is not prepared here, nobody can tell if they came from it"
        log.warning(told, count(len(unprepared), "run"), missing)
    partitions = [paths.partition(run.config, run.data) for run in unprepared]
    return earlier.union((run.folder for run in unprepared), partitions, (path.with_suffix(".png") for path in partitions))
