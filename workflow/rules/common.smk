# The work of the active scale, resolved once: all rules below read these names.
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from fedrepro import datasets, estimate, experiments, packing, provenance, studying
from fedrepro.config import Params
from fedrepro.config import parse as settings_from
from fedrepro.engine import run as engine
from fedrepro.errors import UserError
from fedrepro.report import artifacts, spec, typeset, upkeep


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
    TARGETS = spec.targets(SPECS)  # name on the command line -> paper and artifact
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
MADE = f".snakemake/made-{PARAMS.scale}"  # which artifacts are up to date, by content; not there in a clone
MIRRORED = f"results/mlflow-{PARAMS.scale}.json"
NEEDED = [] if PARAMS.only_finished else [piece.work for piece in PIECES]
DRAWINGS = experiments.drawings(PLAN, PATHS)
DATASETS = {datasets.key(run.config.dataset): run.config.dataset for run in RUNS}


wildcard_constraints:
    dataset="[a-z0-9_]+",
    prepared="[a-z0-9_-]+",
    paper="[a-z0-9_]+",
    experiment="[a-z0-9_]+",
    artifact="|".join(sorted({key for _, key in TARGETS.values()})),
    known="[0-9a-f]+",


def dataset(folder):
    """The data set, with its options, that lies in a folder below data/prepared."""
    return DATASETS[folder].model_dump() if folder in DATASETS else folder


def gathering(paper, keys=None):
    """What `results.gather` takes for each source of some artifacts of a paper (None: of all)."""
    found = {}
    for source in SPECS[paper].sources(keys):
        experiment, _, study = source.partition("-")
        if study:
            item = STUDIED[paper][experiment][study]
            note, series = studying.note(item, PARAMS), studying.folders(item)
            found[source] = {
                "note": note,
                "series": series,
                "tables": studying.tables(item),
            }
        else:
            item = PLAN[paper][experiment]
            note, series = experiments.note(item, PARAMS), experiments.folders(item)
            found[source] = {"note": note, "series": series}
    return found


def finished(paper, keys=None):
    """The files that say that all runs and studies behind some artifacts are over."""
    found = []
    for source, given in gathering(paper, keys).items():
        found += [
            folder / "summary.json"
            for group in given["series"].values()
            for folder in group
        ]
        if "tables" in given:
            experiment, _, study = source.partition("-")
            found += studying.notes([STUDIED[paper][experiment][study]])
    return list(dict.fromkeys(found))


def known(paper, keys=None):
    """Digest of all that some artifacts follow from, as far as it is known before anything is run."""
    told = spec.identity(SPECS[paper], keys)
    return provenance.digest([told, REPORT_CODE, str(gathering(paper, keys))])


KNOWN = {
    paper: {key: known(paper, [key]) for key in specification.artifacts}
    | {upkeep.ALL: known(paper)}
    for paper, specification in SPECS.items()
}


def stamp(paper, key):
    """The file that says that an artifact is up to date, or that all are."""
    return upkeep.stamp(Path(MADE, paper), key, KNOWN[paper][key])


def files(paper):
    """All of a paper's artifacts, and the numbers that they were made from."""
    specification = SPECS[paper]
    named = [
        name
        for key in specification.artifacts
        for name in artifacts.files(specification, key)
    ]
    return [
        f"{REPORTS}/{paper}/{name}" for name in [*named, *artifacts.data(specification)]
    ]


if workflow.is_main_process:
    for paper, specification in SPECS.items():
        upkeep.distrust(specification, Path(REPORTS, paper), Path(MADE, paper))
