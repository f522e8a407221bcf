"""Make studies one after the other in one process, providing the data and partitions that they
need."""

import logging
import time
from collections.abc import Iterable
from typing import Any

import torch

from fedrepro.config.params import DeviceChoice
from fedrepro.core import provenance
from fedrepro.core.errors import Failures, UserError, shared_failures
from fedrepro.core.files import DELETE_ADVICE, check_no_links, read_json, write_json
from fedrepro.experiments import study_plan
from fedrepro.experiments.study_plan import StudyRun
from fedrepro.runs import records
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import CODE_CHANGED, Run
from fedrepro.studies.base import StudyContext
from fedrepro.training import executors, runner
from fedrepro.training.run import Limits

log = logging.getLogger(__name__)


def run_studies(
    study_runs: Iterable[StudyRun],
    paths: Paths,
    *,
    mirror: str | None = None,
    device: DeviceChoice = DeviceChoice(),  # noqa: B008  (immutable)
    deadline: float | None = None,
    together: bool = False,
    failures: Failures | None = None,
) -> list[StudyRun]:
    """Finish every study; those that are finished cost nothing. A study that fails does not stop
    the others.

    Args:
        deadline: seconds on the monotonic clock; ends a study after a whole unit.
        together: keep the partial files until all are finished: a job of Snakemake's loses all its
            outputs if one study fails.
        failures: collects what failed; without it that is raised at the end.

    Returns the studies that `deadline` left unfinished.

    Raises UserError if weights or data are not the run's, or the code is not the plan's.
    """
    limits, study_runs = Limits(deadline=deadline), tuple(study_runs)

    def do(study_run: StudyRun, device: torch.device) -> bool:
        if study_run.table.stem != study_plan.file_stem(study_run.study):
            raise UserError(CODE_CHANGED)
        finished = _run_study(study_run, _context(study_run, paths, mirror, device, limits), limits)
        if finished and not together:
            study_run.partial_file.unlink(missing_ok=True)
        return finished

    with shared_failures(failures) as failed:
        options = {"device": device, "limits": limits, "failures": failed}
        left = runner.run_all(
            study_runs,
            do,
            name=lambda one: one.id,
            is_done=lambda one: one.done_file.exists(),
            **options,
        )
    finished = [study_run for study_run in study_runs if study_run.done_file.exists()]
    if not together or len(finished) == len(study_runs):
        for study_run in finished:
            study_run.partial_file.unlink(missing_ok=True)
    return left


def _context(
    study_run: StudyRun, paths: Paths, mirror: str | None, device: torch.device, limits: Limits
) -> StudyContext:
    run = study_run.run
    data = runner.provide_dataset(run.config.dataset, paths, mirror)
    if data.meta["identity"] != run.data:
        raise UserError(
            f"{data.name}: not the data that {run.id} was trained on; delete data/prepared and "
            f"start again"
        )
    partition = runner.provide_partition(run.config, run.data, paths, mirror)
    return StudyContext(
        run.folder, data, partition, device, recorded_executor(run, device), limits.forbid
    )


def recorded_executor(run: Run, device: torch.device) -> str:
    """Return the executor that trained a run, since another one rounds sums differently; auto if
    this device lacks it."""
    executor = records.load(run.folder)["environment"]["executor"]
    return executor if executor in executors.available(device) else "auto"


def _run_study(study_run: StudyRun, context: StudyContext, limits: Limits) -> bool:
    """Make one study of one run. Return False if a limit stopped it."""
    study, last_seconds = study_run.study, 0.0
    executed = (*provenance.modules(study.config), f"studies.{study.name}")
    check_no_links(study_run.run.folder)
    environment = provenance.environment(context.device, executed)  # at the start, as of a run
    rows = _stored_rows(study_run)
    done, compute = {int(row[0]) for row in rows}, study.begin(context)
    for unit in study.units():
        if unit in done:
            continue
        if limits.forbid(last_seconds):  # the next unit will take about as long as the last
            return False
        start = time.monotonic()
        unit_rows = compute(unit)
        if unit_rows is None:
            return False
        rows += [["" if cell is None else str(cell) for cell in (unit, *row)] for row in unit_rows]
        write_json(study_run.partial_file, {"run": study_run.run.id, "rows": rows})
        last_seconds = time.monotonic() - start
        log.info("%s: %s %d is done", study.title, study.columns[0], unit)
    _write_results(study_run, rows, environment)
    return True


def _stored_rows(study_run: StudyRun) -> list[list[str]]:
    """Return the rows of the units that are done, as text, so that they are written again as they
    were. Raises UserError if the file is damaged or belongs to another run."""
    path = study_run.partial_file
    stored = read_json(path, "run", "rows")
    if stored is None:
        return []
    if stored["run"] != study_run.run.id:
        raise UserError(f"{path}: belongs to the run {stored['run']}; {DELETE_ADVICE}")
    return stored["rows"]


def _write_results(study_run: StudyRun, rows: list[list[str]], environment: dict[str, Any]) -> None:
    """Write the record, whose existence says that the study is finished."""
    study = study_run.study
    record = {
        "run": study_run.run.id,
        "settings": study.settings.model_dump(mode="json"),
        "code": study_plan.study_code_digest(study),
        "environment": environment,
        "columns": records.columns(study.columns, rows),
    }
    records.write(study_run.done_file, record)
