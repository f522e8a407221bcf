"""Make a list of studies one after the other in one process, bringing along what they need: data, partition."""

import csv
import logging
import time
from collections.abc import Iterable
from typing import Any

import torch

from fedrepro.config.params import Gpus
from fedrepro.core import provenance
from fedrepro.core.errors import Failures, UserError, shared_failures
from fedrepro.core.files import atomic_write, check_no_links, read_json, sha256, write_json
from fedrepro.experiments import study_plan
from fedrepro.experiments.study_plan import StudyRun
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import CODE_CHANGED, Run
from fedrepro.studies.base import StudyContext
from fedrepro.training import executors, runner
from fedrepro.training.devices import ANY
from fedrepro.training.run import Limits

log = logging.getLogger(__name__)


def run_studies(
    cases: Iterable[StudyRun],
    paths: Paths,
    *,
    mirror: str | None = None,
    device: str = "auto",
    gpus: Gpus = ANY,
    deadline: float | None = None,
    together: bool = False,
    failures: Failures | None = None,
) -> list[StudyRun]:
    """Bring every study to its end; finished ones cost nothing. `together`: one that fails takes the notes of all with it, as
    in a job of Snakemake's. Returns those that `deadline`, on the monotonic clock, cut off after a whole unit. One that fails
    does not keep the others from their end; what failed goes to `failures`, else it is raised at the end: a UserError where
    weights or data are not the run's, or the code is not that of the plan."""
    limits, cases = Limits(deadline=deadline), tuple(cases)

    def do(case: StudyRun, place: torch.device) -> bool:
        if case.table.stem != study_plan.file_stem(case.study):
            raise UserError(CODE_CHANGED)
        done = _conduct(case, _scene(case, paths, mirror, place, limits), limits)
        if done and not together:
            case.partial_file.unlink(missing_ok=True)
        return done

    with shared_failures(failures) as failed:
        limited = {"device": device, "gpus": gpus, "limits": limits, "failures": failed}
        left = runner.run_all(cases, do, name=lambda case: case.id, over=lambda case: case.done_file.exists(), **limited)
    for case in cases:
        if case.done_file.exists():
            case.partial_file.unlink(missing_ok=True)
    return left


def _scene(case: StudyRun, paths: Paths, mirror: str | None, place: torch.device, limits: Limits) -> StudyContext:
    run = case.run
    data = runner.dataset(run.config.dataset, paths, mirror)
    if data.meta["identity"] != run.data:
        raise UserError(f"{data.name}: not the data that {run.id} was trained on; delete data/prepared and start again")
    partition = runner.partition(run.config, run.data, paths, mirror)
    return StudyContext(run.folder, data, partition, place, _executor(run, place), limits.forbid)


def _executor(run: Run, place: torch.device) -> str:
    """How the run was trained: another executor rounds its sums differently."""
    path = run.folder / "environment.json"
    told = (read_json(path, "executor") or {"executor": "auto"})["executor"]
    return told if told in executors.available(place) else "auto"


def _conduct(case: StudyRun, scene: StudyContext, limits: Limits) -> bool:
    study, last = case.study, 0.0
    executed = (*provenance.modules(study.config), f"studies.{study.name}")
    check_no_links(case.run.folder)
    environment = provenance.environment(scene.device, executed)  # at the start, as of a run
    rows = _begun(case)
    done, answer = {int(row[0]) for row in rows}, study.begin(scene)
    for unit in study.units():
        if unit in done:
            continue
        if limits.forbid(last):  # the next unit will take about as long as the last
            return False
        began = time.monotonic()
        found = answer(unit)
        if found is None:
            return False
        rows += [["" if cell is None else str(cell) for cell in (unit, *row)] for row in found]
        write_json(case.partial_file, {"run": case.run.id, "rows": rows})
        last = time.monotonic() - began
        log.info("%s: %s %d is done", study.title, study.columns[0], unit)
    _finish(case, rows, environment)
    return True


def _begun(case: StudyRun) -> list[list[str]]:
    """The rows of the units that are done, as text, so that they are written as they were. Raises UserError where the file is
    damaged or another run's."""
    told = read_json(case.partial_file, "run", "rows", advice="delete it to begin the study anew") or {
        "run": case.run.id,
        "rows": [],
    }
    if told["run"] != case.run.id:
        raise UserError(f"{case.partial_file}: belongs to the run {told['run']}; delete it to begin the study anew")
    return told["rows"]


def _finish(case: StudyRun, rows: list[list[str]], environment: dict[str, Any]) -> None:
    """The table, and last the note: whoever sees it sees a whole study."""
    study = case.study
    with atomic_write(case.table) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([study.columns, *rows])
    told = {"run": case.run.id, "settings": study.settings.model_dump(mode="json"), "code": study_plan.study_code_digest(study)}
    write_json(case.done_file, told | {"table": sha256(case.table.read_bytes()), "environment": environment})
