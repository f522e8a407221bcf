# The work of the active scale, resolved once: all rules below read these names.
import sys
import time
from itertools import filterfalse
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from fedrepro import (
    bill,
    datasets,
    devices,
    drawings,
    experiments,
    packing,
    provenance,
    resolving,
    studying,
    tracking,
    training,
)
from fedrepro.config import Params, Source
from fedrepro.fields import parse as settings_from
from fedrepro.errors import UserError
from fedrepro.files import read_whole_json
from fedrepro.paths import Paths
from fedrepro.report import artifacts, spec, typeset, upkeep
from fedrepro.report.evidence import split_source
from fedrepro.terminal import Event, ending, hooks

CLUSTER = bool(workflow.global_resources["_nodes"].value)  # jobs are submitted


def gpu():
    """How many GPUs a training job asks for: one on a cluster where `device` says so, one here where it will use one. Unless
    `--resources gpu=` was given, as many jobs train at once here as the GPUs may have.
    """
    if CLUSTER:
        return int(PARAMS.device == "cuda")
    if devices.meant(PARAMS.device).type == "cpu":
        return 0
    if places := len(devices.numbers(PARAMS.gpus)) * PARAMS.gpus.jobs:
        workflow.global_resources.setdefault("gpu", places)
    return 1


def slots(each=1):
    """How many jobs of `each` so many cores may be at work at once: on a cluster as many as are submitted, here as there are cores
    for, or devices."""
    given = dict(workflow.global_resources.unwrapped_items())
    many = given["_nodes"] or max(1, (given["_cores"] or 2) // each)
    return min(many, GPU and given.get("gpu") or many)


def per_run():
    """How many cores a run may take: any number on a cluster, one beside a GPU."""
    if GPU:
        return 1
    there = dict(workflow.global_resources.unwrapped_items())["_cores"]
    return PARAMS.cores_per_run if CLUSTER else there or 1


def packed(kind, pieces, over, mixed=(), each=1):
    """The jobs of what is not finished. A process that does one of them has the main process's, whatever is finished by now."""
    folder = Path(".snakemake") / "packed" / PARAMS.scale / kind
    if workflow.is_main_process:
        return packing.decide(
            pieces,
            lambda work: BILL[over(work)].cost.seconds,
            slots(each),
            folder,
            mixed,
            lambda work: over(work).parent in ASKED_FOR,
        )
    return packing.decided(pieces, folder)


def asked_for(plan):
    """The experiments that the command line asks for, by artifacts or papers; all where it names none."""
    given = set(sys.argv)
    found = [
        plan[paper][split_source(source)[0]]
        for paper, artifact in (TARGETS[name] for name in given & set(TARGETS))
        for source in SPECS[paper].sources([artifact])
    ]
    papers = [paper for paper in plan if {paper, f"train_{paper}"} & given]
    if not found and not papers:
        papers = list(plan)
    found += [planned for paper in papers for planned in plan[paper].values()]
    return list({(item.paper, item.name): item for item in found}.values())


def asked_data(plan):
    """The experiments whose data a command brings: all where it names a rule or a file, which may need any."""
    options = ("--cores", "-c", "--jobs", "-j")  # of which `all` is a number
    given = {
        name
        for before, name in zip(sys.argv, sys.argv[1:], strict=False)
        if before not in options
    }
    files = any(name.startswith(("data/", "reports/", "results/")) for name in given)
    several = files or given & set(spec.RULES)
    return experiments.select(plan, None, None) if several else asked_for(plan)


def mixed():
    """The experiments whose runs may share jobs with others': none where a single artifact is asked for, else those of the papers
    that are asked for (of all, where none is named) and that no study waits for."""
    if set(sys.argv) & set(TARGETS):
        return set()
    waited = {piece.work.run.folder for piece in STUDIES if not piece.over.exists()}
    apart = {piece.experiment for piece in PIECES if piece.work.folder in waited}
    shared = {piece.experiment for piece in PIECES if piece.work.folder in ASKED_FOR}
    return shared - apart


try:
    PARAMS = settings_from(Params, config, "params.yaml")
    GPU = gpu()
    PARAMS = PARAMS.on(per_run())
    PATHS = Paths()
    # a job of its own finds the data, and a dry run fetches none
    TRAINS = workflow.is_main_process and not workflow.output_settings.dryrun
    SPECS = spec.read_all(PARAMS)
    TARGETS = spec.targets(SPECS)  # name on the command line -> paper and artifact
    PLAN = (
        experiments.plan_training(PARAMS, PATHS, choose=asked_data)
        if TRAINS
        else experiments.plan(PARAMS, PATHS)
    )
    if workflow.is_main_process:
        resolving.check(PARAMS)
    STUDIED = {
        paper: {
            name: studying.plan(item, PARAMS, PATHS) for name, item in group.items()
        }
        for paper, group in PLAN.items()
    }
    if workflow.is_main_process:
        for remark in experiments.remarks(asked_for(PLAN), PARAMS.active.compare):
            logger.warning(remark)
    RUNS = experiments.unique(experiments.select(PLAN, None, None))
    PIECES = experiments.pieces(PLAN)
    if workflow.is_main_process:
        # of a job that failed Snakemake deletes all summaries, also those of runs that were trained
        training.summarise(piece.work for piece in PIECES)
    ASKED = {
        paper: [found for studies in group.values() for found in studies.values()]
        for paper, group in STUDIED.items()
    }
    STUDIES = studying.pieces(found for asked in ASKED.values() for found in asked)
    SNAPSHOTS = studying.snapshots(piece.work for piece in STUDIES)
    TODO = [run.summary for run in RUNS] + [piece.over for piece in STUDIES]
    # what is not over, with its cost; jobs of their own know what they do
    UNFINISHED = (
        experiments.select(PLAN, None, None) if workflow.is_main_process else []
    )
    BILL = {entry.over: entry for entry in bill.entries(UNFINISHED, PARAMS, PATHS)}
    ASKED_FOR = {run.folder for item in asked_for(PLAN) for run in item.runs}
    TRAINED = packed(
        "train", PIECES, lambda run: run.summary, mixed(), PARAMS.cores_per_run
    )
    CONDUCTED = packed("studies", STUDIES, lambda case: case.note)
except UserError as error:
    raise WorkflowError(str(error)) from None

BEGAN = time.time()
REPORTS = f"reports/{PARAMS.scale}"
REPORT_CODE = provenance.report_digest()
MADE = f".snakemake/made-{PARAMS.scale}"  # which artifacts are up to date, by content; not there in a clone
MIRRORED = f"results/mlflow-{PARAMS.scale}.json"
# whose summary is there before any job; of more, MLflow is told at the end
DONE = {run.summary for run in RUNS if run.summary.exists()}
NEEDED = [] if PARAMS.only_finished else [piece.work for piece in PIECES]
DRAWINGS = drawings.drawings(PLAN, PATHS)
DATASETS = {datasets.key(run.config.dataset): run.config.dataset for run in RUNS}


wildcard_constraints:
    dataset="[a-z0-9_]+",
    prepared="[a-z0-9_-]+",
    paper="|".join(SPECS),
    figure="[a-z0-9_]+",
    artifact="|".join(sorted({key for _, key in TARGETS.values()})),
    known="[0-9a-f]+",


def dataset(folder):
    """The data set, with its options, that lies in a folder below data/prepared."""
    return DATASETS[folder].model_dump() if folder in DATASETS else folder


def gathering(paper, keys=None):
    """What reports get of each source of some artifacts of a paper (None: of all)."""
    found = {}
    for source in SPECS[paper].sources(keys):
        experiment, study = split_source(source)
        found[source] = (
            studying.gathering(STUDIED[paper][experiment][study], PARAMS)
            if study
            else experiments.gathering(PLAN[paper][experiment], PARAMS)
        )
    return found


def finished(paper, keys=None):
    """The files that say that all runs and studies behind some artifacts are over."""
    given = gathering(paper, keys).values()
    return list(dict.fromkeys(path for source in given for path in source.over))


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


def captions(paper):
    """The folder of the captions that `snakemake --report` shows."""
    return Path(MADE, paper, "captions")


def reported(paper, file):
    """An artifact's file; one that is looked at is marked for `snakemake --report`: papers, in them figures, tables and verdicts."""
    key, room = Path(file).stem, Path(file).parent.name
    shown = {"figures": (".png", "Figures"), "tables": (".csv", "Tables")}
    ending, group = shown.get(room, (None, None))
    if Path(file).suffix != ending:
        return update(file)
    specification = SPECS[paper]
    whole = key == spec.VERDICTS
    return report(
        update(file),
        caption=str((captions(paper) / f"{key}.rst").resolve()),
        category=specification.title,
        subcategory="Verdicts" if whole else group,
        labels={
            "name": key,
            "title": "All claims" if whole else specification[key].title,
        },
    )


COSTS = (
    {}
)  # rule -> what its job does; a process that does one of the jobs has no need of it
FIRST = 10**9  # priority of what all training waits for


def priority(rule):
    """The longest job goes first, in seconds: at the end no core waits for it."""
    return int(sum(entry.cost.seconds for entry in COSTS.get(rule, ())))


def show_runs(made):
    """MLflow has what was trained, whatever was asked for and whatever failed; says so if it has not."""
    if MIRRORED in made:
        problem = read_whole_json(Path(MIRRORED), "problem")["problem"]
    elif DONE < {run.summary for run in RUNS if run.summary.exists()}:
        runs = experiments.listed(PLAN)
        problem = tracking.mirror(runs, PARAMS.mlflow_uri, PARAMS.scale).problem
    else:
        problem = None
    if problem:
        logger.warning(f"MLflow is not up to date (`-R mirror` tries again): {problem}")


def made():
    return [str(path) for job in workflow.dag.finished_jobs for path in job.output]


if workflow.is_main_process:
    HELD = {f"train_{job.name}": job for job in TRAINED} | {
        job.name: job for job in CONDUCTED
    }
    COSTS |= {rule: [BILL[over] for over in job.over] for rule, job in HELD.items()}
    logger.addFilter(
        hooks.announcement(
            COSTS, slots() * (PARAMS.cores_per_run if CLUSTER else 1), not CLUSTER
        )
    )
    tracking.settle(PARAMS.mlflow_uri, Path(MIRRORED))
    logger.addFilter(
        hooks.suggestion(
            ["all", "train", "data", *SPECS, *TARGETS],
            lambda: filterfalse(workflow.is_rule, workflow.dag_settings.targets),
        )
    )
    for paper, specification in SPECS.items():
        upkeep.distrust(specification, Path(REPORTS, paper), Path(MADE, paper))
        for source, given in gathering(paper).items():
            if given.stays(Path(REPORTS, paper, "data")):
                logger.warning(f"{paper} {source}: {given.staying}")
