"""Settings of one small experiment, and a paper's files that show it."""

import tempfile
from pathlib import Path

from fedrepro.config.inheritance import flatten, merge
from fedrepro.config.params import PAPERS, Params, read_params
from support.checkout import save

SETTINGS = {
    "scale": "quick",
    "device": "cpu",
    "scales": {
        "quick": {"seeds": [0], "compare": "none", "note": "q"},
        "other": {"seeds": [1], "compare": "none", "note": "o", "experiments": {"p": {}}},
    },
    "papers": {
        "p": {
            "fig": {
                "dataset": "digits",
                "train_images": 60,
                "test_images": 30,
                "partition": {"name": "iid", "clients": 3},
                "model": {"name": "mnist_cnn", "width": 0.05},
                "clients_per_round": 2,
                "rounds": 2,
                "local_epochs": 1,
                "batch_size": 10,
                "lr": 0.1,
                "series": {"FedAvg": {"name": "fedavg"}, "Prox": {"name": "fedprox", "mu": 0.1}},
            }
        }
    },
}


def write(folder: Path, changes: dict, name: str = "params.yaml") -> Path:
    """The files of SETTINGS with some changes; a series that is changed to None goes."""
    values = merge(SETTINGS, changes)
    experiment = values["papers"]["p"]["fig"]
    experiment["series"] = {
        label: choice for label, choice in experiment["series"].items() if choice is not None
    }
    return place(folder, values, name)


def place(folder: Path, values: dict, name: str = "params.yaml") -> Path:
    """Write params.yaml and the papers' experiments and scales. `values` has all in one: `papers`
    their experiments, a scale what it changes of them under `experiments`. One that says nothing of
    a paper runs all of it."""
    papers, scales = values.get("papers", {}), values.get("scales", {})
    own = {scale: given.get("experiments", {}) for scale, given in scales.items()}
    for paper, experiments in papers.items():
        everything = (
            {} if isinstance(experiments, str) else dict.fromkeys(flatten(experiments, paper))
        )
        listed = {
            scale: given.get(paper, {} if scales[scale].get("like") else everything)
            for scale, given in own.items()
        }
        save(folder / PAPERS / paper / "experiments.yaml", experiments)
        save(folder / PAPERS / paper / "scales.yaml", listed)
    whole = {
        scale: {key: value for key, value in given.items() if key != "experiments"}
        for scale, given in scales.items()
    }
    save(folder / name, values | {"papers": list(papers), "scales": whole})
    return folder / name


def params(values: dict, folder: Path | None = None) -> Params:
    """Settings that say everything in one, as they are read from files."""
    with tempfile.TemporaryDirectory() as aside:
        return read_params(place(folder or Path(aside), values))


def place_paper(folder: Path, values: dict, name: str = "p", curves: str | None = None) -> None:
    """Write the files of a paper's artifacts and claims, and its digitised curves."""
    artifacts = {key: value for key, value in values.items() if key != "claims"}
    save(folder / PAPERS / name / "artifacts.yaml", artifacts)
    save(folder / PAPERS / name / "claims.yaml", values.get("claims", {}))
    if curves is not None:
        (folder / PAPERS / name / "curves.json").write_text(curves, encoding="utf-8")


def fig(**changes) -> dict:
    return {"papers": {"p": {"fig": changes}}}


PAPER = {
    "title": "A paper",
    "reference": "nobody",
    "figures": {"fig": {"title": "What it shows", "experiment": "fig"}},
    "tables": {},
    "claims": {},
}  # fmt: skip
