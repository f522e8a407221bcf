# The work of the active scale, resolved once: all rules below read these names.
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from fedrepro import (
    datasets,
    estimate,
    experiments,
    packing,
    provenance,
    registry,
    studying,
)
from fedrepro.config import Params
from fedrepro.config import parse as settings_from
from fedrepro.engine import run as engine
from fedrepro.errors import UserError
from fedrepro.report import spec, typeset


def slots():
    """How many jobs may train at once: on a cluster as many as are submitted, here as many as there are cores or devices."""
    given = dict(workflow.global_resources.unwrapped_items())
    many = given["_nodes"] or given["_cores"] or 2
    devices = given.get("gpu") if PARAMS.device != "cpu" else None
    return min(many, devices or many)


def seconds(run, executor):
    """A run's cost, measured or guessed."""
    device = estimate.pick_device(PARAMS.device)
    return estimate.cost(run, PATHS, executor, device, measure=False).seconds


def packed(kind, pieces, cost):
    """The jobs of what is not finished. A process that does one of them has the main process's, whatever is finished by now."""
    folder = Path(".snakemake") / "packed" / PARAMS.scale / kind
    if workflow.is_main_process:
        return packing.decide(pieces, cost, slots(), folder)
    return packing.decided(pieces, folder)


try:
    PARAMS = settings_from(Params, config, "params.yaml")
    PATHS = experiments.Paths()
    PLAN = experiments.plan(PARAMS, PATHS)
    STUDIED = {
        paper: {
            name: studying.plan(item, PARAMS, PATHS) for name, item in group.items()
        }
        for paper, group in PLAN.items()
    }
    SPECS = {paper: spec.read(paper, PARAMS) for paper in PLAN}
    OWNER = spec.owners(SPECS)  # figure or table -> its paper
    RUNS = experiments.unique(experiments.select(PLAN, None, None))
    PIECES = experiments.pieces(PLAN)
    if workflow.is_main_process:
        # of a job that failed Snakemake deletes all summaries, also those of runs that were trained
        for piece in PIECES:
            engine.finished(piece.work)
    ASKED = {
        paper: [found for studies in group.values() for found in studies.values()]
        for paper, group in STUDIED.items()
    }
    STUDIES = studying.pieces(found for asked in ASKED.values() for found in asked)
    SNAPSHOTS = studying.snapshots(piece.work for piece in STUDIES)
    TODO = [run.summary for run in RUNS] + [piece.over for piece in STUDIES]
    if workflow.is_main_process and any(not path.exists() for path in TODO):
        logger.info(
            "To be trained, hours where none were measured (`fedrepro plan` does) roughly guessed:\n"
            + estimate.report(
                PARAMS, PATHS, experiments.select(PLAN, None, None), measure=False
            )
        )
    TRAINED = packed("train", PIECES, lambda run: seconds(run, PARAMS.executor))
    CONDUCTED = packed(
        "studies",
        STUDIES,
        lambda case: seconds(
            studying.at_most(case), case.study.executor or PARAMS.executor
        ),
    )
except UserError as error:
    raise WorkflowError(str(error)) from None

REPORTS = f"reports/{PARAMS.scale}"
REPORT_CODE = provenance.report_digest()
# Snakemake knows what an artifact was made with only in the folder where it made it. In a clone this file is younger than the
# committed artifacts, so that all of them are made anew once.
KNOWN = Path(f".snakemake/known-{PARAMS.scale}")
if workflow.is_main_process and not KNOWN.exists():
    KNOWN.parent.mkdir(exist_ok=True)
    KNOWN.touch()
MIRRORED = f"results/mlflow-{PARAMS.scale}.json"
NEEDED = [] if PARAMS.only_finished else [piece.work for piece in PIECES]
DRAWINGS = experiments.drawings(PLAN, PATHS)
DATASETS = {datasets.key(run.config.dataset): run.config.dataset for run in RUNS}


wildcard_constraints:
    dataset="[a-z0-9_]+",
    prepared="[a-z0-9_-]+",
    paper="[a-z0-9_]+",
    experiment="[a-z0-9_]+",
    study="|".join(registry.names("studies")),
    figure="|".join(
        key for specification in SPECS.values() for key in specification.figures
    ),
    table="|".join(
        key for specification in SPECS.values() for key in specification.tables
    ),


def dataset(folder):
    """The data set, with its options, that lies in a folder below data/prepared."""
    return DATASETS[folder].model_dump() if folder in DATASETS else folder


def gathered(paper, figures):
    """The gathered results behind some figures of a paper."""
    names = {
        name for figure in figures for name in SPECS[paper].figures[figure].sources
    }
    return expand(f"{REPORTS}/data/{paper}/{{source}}.json", source=sorted(names))


def told(paper, keys=None):
    """What the experiments file says, as text: objects such as SPECS[paper] Snakemake leaves out without a word when it compares."""
    return spec.identity(SPECS[paper], keys)


def files(keys):
    """The files of some figures and tables."""
    kinds = {
        key: (
            ("figures", "pdf", "png")
            if key in SPECS[OWNER[key]].figures
            else ("tables", "tex", "csv")
        )
        for key in keys
    }
    return [
        f"{REPORTS}/{folder}/{key}.{ext}"
        for key, (folder, *exts) in kinds.items()
        for ext in exts
    ]


def verdicts(paper):
    return f"{REPORTS}/tables/{paper}_verdicts.csv"
