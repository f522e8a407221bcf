"""Damaged files: each case damages one file that a run, a study, `keep`, `plan --export` or a mirror left, and does what reads
it. It has to be noticed by one message, or to change nothing of what comes out (some bits mean nothing: a time in an archive).

`python -m tests.campaigns.damaged --seed 0 --count 300`
"""

import gzip
import json
import random
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedrepro.cli import main
from fedrepro.config.params import read_params
from fedrepro.core.files import write_json
from fedrepro.data import datasets
from fedrepro.experiments import plan
from fedrepro.runs import gather, records
from fedrepro.runs.paths import Paths
from support.files import CIFAR10_ARCHIVE, cifar10_files, declare, idx_bytes, mnist_files, tar_gz, write_all
from support.settings import fig, write
from tests.campaigns import cases
from tests.campaigns.cases import Failed

SERIES = {"FedAvg": {"name": "fedavg"}, "Prox": None, "SCAFFOLD": {"name": "scaffold"}}
COPIES = ("mnist", "cifar10", "emnist_letters", "pneumonia")
STUDIES = {"newcomers": {"clients": 2, "target": 0.9, "epochs": 2}}
DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "a bit": lambda whole, draw: _changed(whole, draw.randrange(len(whole)), 1 << draw.randrange(8)),
    "a byte": lambda whole, draw: _changed(whole, draw.randrange(len(whole)), draw.randrange(1, 256)),
    "cut": lambda whole, draw: whole[: draw.randrange(len(whole))],
    "empty": lambda whole, draw: b"",
    "zeros": lambda whole, draw: _blotted(whole, draw, bytes),
    "a hole": lambda whole, draw: _blotted(whole, draw, lambda long: b""),
    "twice": lambda whole, draw: whole + whole,
    "a digit": lambda whole, draw: _digit(whole, draw),
    "noise": lambda whole, draw: draw.randbytes(len(whole)),
}


def _changed(whole: bytes, at: int, bits: int) -> bytes:
    return whole[:at] + bytes([whole[at] ^ bits]) + whole[at + 1 :]


def _blotted(whole: bytes, draw: random.Random, instead: Callable[[int], bytes]) -> bytes:
    at = draw.randrange(len(whole))
    long = min(draw.choice((1, 16, 512)), len(whole) - at)
    return whole[:at] + instead(long) + whole[at + long :]


def _digit(whole: bytes, draw: random.Random) -> bytes:
    """As somebody edits a number: an even one becomes the odd one after it, and the other way round."""
    return _changed(whole, draw.choice([at for at, byte in enumerate(whole) if byte in b"0123456789"] or [0]), 1)


def trained() -> int:
    return main.main(["train"])


def listed() -> int:
    return main.main(["train", "--runs", "runs.json"])


def gathered() -> int:
    """What reports read, of an experiment and its study, into `out`."""
    params, paths = read_params(), Paths()
    for item in plan.all_experiments(plan.plan_experiments(params, paths)):
        for study in ("", "newcomers"):
            gather.gather(plan.result_sources(item, study, params), Path("out"))
    return 0


def identified() -> int:
    """The data sets of a mirror, into `out`."""
    Path("out").mkdir()
    for name in COPIES:
        datasets.provide(name, Path("raw"), Path("prepared") / name, "mirror")
        meta = datasets.load(Path("prepared") / name).meta
        Path(f"out/{name}.json").write_text(json.dumps(meta), encoding="utf-8")
    return 0


def settings(folder: Path) -> None:
    partition = {"name": "permuted", "clients": 3}
    write(folder, fig(rounds=2, partition=partition, momentum=0.9, pixel_scaling="normalised", studies=STUDIES, series=SERIES))


def mirror(folder: Path) -> None:
    """Archives of four kinds, small, as mirrors lay them out."""
    write_all(folder / "mnist", mnist_files())
    tar_gz(folder / CIFAR10_ARCHIVE, cifar10_files())
    (folder / "emnist").mkdir()
    images, labels = np.arange(26 * 784).reshape(26, 28, 28) % 251, np.arange(1, 27)
    with zipfile.ZipFile(folder / "emnist/gzip.zip", "w") as archive:
        for part in ("train", "test"):
            for name, array in (("images-idx3", images), ("labels-idx1", labels)):
                archive.writestr(f"gzip/emnist-letters-{part}-{name}-ubyte.gz", gzip.compress(idx_bytes(array), mtime=0))
    (folder / "pneumonia28").mkdir()
    arrays = {f"{part}_images": np.full((4, 28, 28), 7, np.uint8) for part in ("train", "val", "test")}
    arrays |= {f"{part}_labels": np.arange(4, dtype=np.uint8)[:, None] % 2 for part in ("train", "val", "test")}
    np.savez_compressed(folder / "pneumonia28/pneumoniamnist.npz", **arrays)
    for name in COPIES:
        declare(folder, name)


class Damage:
    """Places where all is whole, and what comes out of them."""

    def __init__(self, folder: Path, verbose: bool) -> None:
        self.verbose = verbose
        whole = folder / "trained"
        whole.mkdir()
        settings(whole)
        self.done(whole, lambda: main.main(["plan", "--export", "runs.json"]))
        self.done(whole, trained)
        begun, fresh, kept, waiting, archives = (folder / name for name in ("begun", "fresh", "kept", "waiting", "archives"))
        shutil.copytree(whole, begun)
        for run in begun.glob("results/runs/p/*"):
            (run / "model.safetensors").rename(run / "checkpoint.safetensors")
            if (run / "model.clients").exists():
                (run / "model.clients").rename(run / "checkpoint.clients")
            for name in ("record.json", *(path.name for path in run.glob("newcomers-*"))):
                (run / name).unlink()
        shutil.copytree(whole, fresh, ignore=shutil.ignore_patterns("results"))
        shutil.copytree(whole, waiting)
        for note in waiting.glob("results/runs/p/*/newcomers-*.json"):
            rows = [list(row.values()) for row in records.rows(records.load_study(note)["columns"])]
            write_json(note.with_suffix(".begun"), {"run": note.parent.name, "rows": [row for row in rows if row[0] == "0"]})
            note.unlink()
        shutil.copytree(whole, kept)
        self.done(kept, lambda: main.main(["keep"]))
        shutil.rmtree(kept / "results/runs")
        mirror(archives / "mirror")
        run = "results/runs/p/*/"
        self.kinds = [  # where, which files, what reads them, and what comes out
            (fresh, ["data/prepared/*/*"], trained, "results"),
            (fresh, ["data/partitions/*.npz"], trained, "results"),
            (begun, [f"{run}checkpoint.safetensors", f"{run}checkpoint.clients/*"], trained, "results"),
            (waiting, [f"{run}newcomers-*.begun", f"{run}model.safetensors", f"{run}record.json"], trained, "results"),
            (begun, [f"{run}begun.json"], trained, "results"),
            (whole, [f"{run}record.json"], gathered, "out"),
            (whole, [f"{run}newcomers-*"], gathered, "out"),
            (kept, ["results/kept/*"], gathered, "out"),
            (fresh, ["runs.json"], listed, "results"),
            (archives, ["mirror/**/*z*"], identified, "out"),
        ]
        self.right = [self.done(place, work, out) for place, _, work, out in self.kinds]

    def done(self, place: Path, work: Callable[[], int], out: str = "") -> dict[str, bytes]:
        """What comes out where nothing is damaged."""
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(place, Path(folder) / "copy") if out else place
            if (ended := cases.ended(copy, work)).code:
                raise SystemExit(f"nothing is damaged, and yet: {ended.text}")
            return cases.contents(copy / out) if out else {}

    def __call__(self, number: int, draw: random.Random) -> str:
        place, patterns, work, out = self.kinds[number % len(self.kinds)]
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(place, Path(folder) / "copy")
            files = sorted(path for pattern in patterns for path in copy.glob(pattern) if path.is_file())
            path, damage = draw.choice([path for path in files if path.name not in cases.FREE]), draw.choice(list(DAMAGES))
            before = path.read_bytes()
            path.write_bytes(DAMAGES[damage](before, draw))
            what = f"{place.name}, {path.relative_to(copy)}, {damage}"
            ended = cases.ended(copy, work)
            if ended.code == 0:
                if other := cases.different(self.right[number % len(self.kinds)], cases.contents(copy / out)):
                    raise Failed(f"{what}: not noticed, and these came out otherwise: {other}\n{ended.text[-1500:]}")
                return "made no difference"
            try:
                message = cases.one_message(ended)
            except Failed as failed:
                raise Failed(f"{what}: {failed}") from None
        if self.verbose:
            cases.say(f"{number} {what}: {message}"[:400])
        return "noticed"


if __name__ == "__main__":
    options = cases.parse_options("damaged", 300, verbose="print every message")
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(cases.run_campaign("damaged", lambda: Damage(Path(folder), options.verbose), options))
