"""What stays and what goes: finished runs kept in the repository, run folders that nothing names any more."""

import shutil
from pathlib import Path

from fedrepro import experiments, registry, studies, studying
from fedrepro.config import Params
from fedrepro.engine.run import Run
from fedrepro.experiments import Paths, Planned

KEPT = ("config.json", "metrics.csv", "environment.json", "timing.json", "summary.json")  # the last one makes it a finished run


def keep(chosen: list[Planned], paths: Paths) -> list[Path]:
    """Copy the small files of finished runs to `results/kept/`, to be committed. Returns the new folders.

    A kept run is found by its config and data alone. So one that earlier code finished is kept too, if today's has not run,
    and a run of today's code takes the place of what is kept.
    """
    new = []
    for item in chosen:
        shelf = paths.kept(item.paper)
        done, kept = experiments.stored_runs(paths.runs(item.paper)), experiments.stored_runs(shelf)
        for run in item.runs:
            key = experiments.same(run.config, run.data)
            today = paths.runs(item.paper) / experiments.run_id(run.config, run.data)
            found = Run(today, run.config, run.data, "") if (today / "summary.json").exists() else done.get(key)
            if found is None or (key in kept and kept[key].id in (found.id, today.name)):
                continue
            if key in kept and found.folder != today:
                continue
            if key in kept:
                shutil.rmtree(kept[key].folder)
            (shelf / found.id).mkdir(parents=True, exist_ok=True)
            for name in KEPT:
                shutil.copyfile(found.folder / name, shelf / found.id / name)
            new.append(shelf / found.id)
        new += [folder for folder in _keep_studies(item, paths) if folder not in new]
    return new


def _keep_studies(item: Planned, paths: Paths) -> list[Path]:
    """The finished studies go along with their runs, today's code first."""
    asked = {name: values for name, values in (item.training.studies if item.training else {}).items() if values is not None}
    new, kept = [], experiments.stored_runs(paths.kept(item.paper)) if asked else {}
    for run in item.runs:
        shelf = kept.get(experiments.same(run.config, run.data))
        for name, values in asked.items() if shelf else ():
            study = studies.create(name, values, run.config)
            if studying.finished_in(shelf.folder, study):
                continue
            ids = (experiments.run_id(run.config, run.data), shelf.id)
            found = [note for id in ids for note in studying.finished_in(paths.runs(item.paper) / id, study)]
            for note in found[:1]:
                for path in (note.with_suffix(".csv"), note):
                    shutil.copyfile(path, shelf.folder / path.name)
                new.append(shelf.folder)
    return list(dict.fromkeys(new))


def prune(params: Params, paths: Paths, delete: bool, file: str = "params.yaml") -> list[Path]:
    """Run folders, studies and snapshots in them, and partitions that no scale of the settings names; deleted if asked to. What
    is kept stays."""
    named = set()
    for scale in params.scales:
        planned = experiments.plan(params.model_copy(update={"scale": scale, "only_finished": False}), paths, file)
        for run in experiments.unique(experiments.select(planned, None, None)):
            partition = paths.partition(run.config, run.data)
            named |= {run.folder, partition, partition.with_suffix(".png")}
        for item in experiments.select(planned, None, None):
            for studied in studying.plan(item, params.model_copy(update={"only_finished": False}), paths).values():
                named |= {path for case in studied.cases for path in studying.files(case)}
    runs = paths.results / "runs"
    there = [*runs.glob("*/*"), *(paths.data / "partitions").glob("*")]
    patterns = [*(f"*/*/{name}-*" for name in registry.names("studies")), "*/*/snapshots/*"]
    there += [path for pattern in patterns for path in runs.glob(pattern) if named & {path.parent, path.parent.parent}]
    stale = sorted(path for path in there if path not in named and path.name != ".gitignore")
    for path in stale if delete else []:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return stale
