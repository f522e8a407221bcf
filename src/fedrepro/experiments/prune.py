"""Which run folders, studies, snapshots and partitions no settings name any more, so that a user
may delete them."""

import logging
from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from fedrepro.config import registry
from fedrepro.config.params import Params
from fedrepro.core.errors import DataUnavailable
from fedrepro.core.files import is_locked
from fedrepro.core.formatting import count
from fedrepro.data import datasets
from fedrepro.experiments import plan, run_lookup, study_plan, trials
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingKind
from fedrepro.runs.records import BEGUN
from fedrepro.runs.run import LOG, Run, run_id

log = logging.getLogger(__name__)


def unused(params: Params, paths: Paths, other_code: bool = False) -> list[Path]:
    """Return the run folders, their studies and snapshots, and the partitions that no scale of the
    settings names.

    Kept results are none of them. Nor are finished runs of other code with settings and data that
    are named, unless `other_code` is given, nor runs with named settings on data that are not
    prepared here, since they may be from these data. Nothing is fetched.
    """
    named: set[Path] = set()
    # paper's folder -> config -> data
    unprepared: dict[Path, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    run_keys: dict[Path, set[str]] = defaultdict(set)  # paper's folder -> runs that are not kept
    unplanned: set[Path] = set()  # papers' folders, with experiments whose data are not here
    spared: set[Path] = set()
    for scale in params.scales:
        at_scale = params.same_data.model_copy(update={"report_only": False, "scale": scale})
        identities = run_lookup.DatasetIdentities(at_scale, paths, strict=True)
        experiments = plan.all_experiments(plan.plan_experiments(at_scale, paths, identities))
        experiments += plan.all_experiments(
            trials.as_plan(trials.plan_trials(at_scale, paths, data=identities))
        )
        for run in plan.unique_runs(experiments):
            partition = paths.partition(run.config, run.data)
            named |= {run.folder, partition, partition.with_suffix(".png")}
            original = paths.runs(run.folder.parent.stem) / run_id(run.config, run.data)
            if not run.is_kept:
                run_keys[run.folder.parent].add(run_lookup.run_key(run.config, run.data))
            elif original.name != run.id:
                spared.add(original)  # needed with use_kept_results=false
            if (
                run.data == run_lookup.UNKNOWN
                or not (paths.prepared(run.config.dataset) / "meta.json").exists()
            ):
                unprepared[run.folder.parent][run_lookup.config_key(run.config)].add(run.data)
        for experiment in experiments:
            if experiment.skipped and experiment.skipped.kind is MissingKind.DATA_MISSING:
                unplanned.add(paths.runs(experiment.paper))
            for study_run in experiment.study_runs:
                named |= set(study_plan.study_files(study_run))
    runs = paths.results / "runs"
    spared |= _spared(run_keys, unprepared, unplanned, named | spared, other_code, paths)
    for group in (named, spared):
        inside = [path.relative_to(runs).parts for path in group if path.is_relative_to(runs)]
        group |= {paths.stored(paper).joinpath(*names) for paper, *names in inside}
    named |= spared
    made, others = _made(paths, named - spared)
    if left := sorted(str(path) for path in others if path not in named):
        log.warning("skipped, a link or not made by this pipeline: %s", ", ".join(left))
    stale = sorted(path for path in made if path not in named)
    busy = {
        path
        for path in stale
        if path.parent.parent == runs and path.is_dir() and is_locked(path / LOG)
    }
    for path in busy:
        log.warning("spared %s, in which a process is at work", path)
    return [path for path in stale if not busy & {path, *path.parents}]


def _made(paths: Paths, named: set[Path]) -> tuple[list[Path], list[Path]]:
    """List the runs, the partitions, and the studies and snapshots of named runs; then everything
    else in their folders. A link among them is listed; a link in the place of a folder of them is
    not followed."""
    made: list[Path] = []
    others: list[Path] = []

    def sort(folder: Path, is_ours: Callable[[Path], bool]) -> None:
        for path in _list_folder(folder, others):
            (made if path.is_symlink() or is_ours(path) else others).append(path)

    stored = [
        folder
        for paper in _list_folder(paths.results / "stored", others)
        for folder in _list_folder(paper, others)
    ]
    for folder in (folders := [*_list_folder(paths.results / "runs", others), *stored]):
        sort(folder, lambda path: (path / BEGUN).is_file())
    sort(paths.data / "partitions", lambda path: path.suffix in (".npz", ".png") and path.is_file())
    studies = tuple(f"{name}-" for name in registry.names("studies"))
    for folder in sorted(path for path in named if path.parent in folders and path.exists()):
        made += [
            path
            for path in _list_folder(folder, others)
            if path.name.startswith(studies) and path.is_file()
        ]
        sort(
            folder / "snapshots",
            lambda path: path.name.startswith("round-") and (path.is_dir() or path.is_file()),
        )
    return made, others


def _list_folder(folder: Path, others: list[Path]) -> list[Path]:
    """List a folder without .gitignore and temporary files; append it to `others` if it is a link
    or not a folder."""
    if not folder.is_symlink() and folder.is_dir():
        return [
            path
            for path in folder.iterdir()
            if path.name != ".gitignore" and path.suffix != ".part"
        ]
    if folder.is_symlink() or folder.exists():
        others.append(folder)
    return []


def _spared(
    run_keys: dict[Path, set[str]],
    unprepared: dict[Path, dict[str, set[str]]],
    unplanned: set[Path],
    named: set[Path],
    other_code: bool,
    paths: Paths,
) -> set[Path]:
    """Return the run folders that stay although they are not named, and the partitions of runs on
    data that are not here.

    Args:
        run_keys: paper's folder -> keys of runs; those that other code finished stay, unless
            `other_code` is given.
        unprepared: paper's folder -> config -> the release's identity, with which data that are not
            here were planned. Runs of the config on any other data stay.
        unplanned: papers' folders in which all runs on data that are not here stay.
    """
    other_code_runs: set[Path] = set()
    data_missing: list[Run] = []
    for folder in run_keys.keys() | unprepared.keys() | unplanned:
        for run in chain.from_iterable(
            map(run_lookup.begun_runs, (folder, paths.stored(folder.name)))
        ):
            planned = unprepared[folder].get(run_lookup.config_key(run.config), {run.data})
            if planned != {run.data} or folder in unplanned and not _is_here(run):
                data_missing.append(run)
                continue
            spares = not other_code and run.summary.exists() and folder / run.id not in named
            if spares and run_lookup.run_key(run.config, run.data) in run_keys[folder]:
                other_code_runs.add(run.folder)
    if other_code_runs:
        message = (
            "spared %s of earlier code with settings that are named: --other-code lists them too"
        )
        log.warning(message, count(len(other_code_runs), "finished run"))
    if data_missing:
        names = ", ".join(sorted({run.config.dataset.name for run in data_missing}))
        message = (
            "spared %s that the settings may name: while %s is not prepared here, nobody "
            "can tell if they came from it"
        )
        log.warning(message, count(len(data_missing), "run"), names)
    partitions = [paths.partition(run.config, run.data) for run in data_missing]
    return other_code_runs.union(
        (run.folder for run in data_missing),
        partitions,
        (path.with_suffix(".png") for path in partitions),
    )


def _is_here(run: Run) -> bool:
    try:
        datasets.extent(run.config.dataset)
    except DataUnavailable:
        return False
    return True
