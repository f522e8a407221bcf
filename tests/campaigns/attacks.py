"""Attacks: names, commits, links, YAML, servers, results and configurations of git that somebody means ill with. Whatever the
command, nothing may be executed, nothing beside the working tree written or deleted, no finished result lost, and what is
refused is refused by one message.

`python -m tests.campaigns.attacks --seed 0 --count 500`
"""

import contextlib
import dataclasses
import gzip
import importlib
import io
import itertools
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from fedrepro.cli import main
from fedrepro.config import strict_yaml
from fedrepro.core import provenance
from fedrepro.core.files import MACHINE
from fedrepro.data.datasets import SOURCES, _download
from fedrepro.data.datasets.source import File
from fedrepro.experiments.request import Command
from fedrepro.experiments.workflow import Capacity, plan_workflow
from fedrepro.runs import records
from support import settings
from support.files import IMAGES, md5, mnist_files
from tests.campaigns import cases
from tests.campaigns.cases import Ended, Failed
from tests.campaigns.damaged import gathered

ROOT = Path(__file__).parents[2]
SECONDS = 120  # a command that takes longer hangs
SERIES = {"FedAvg": {"name": "fedavg"}, "Prox": None, "SCAFFOLD": {"name": "scaffold"}}
STUDIES = {"newcomers": {"clients": 2, "target": 0.9, "epochs": 1}, "activations": {"every": 1}}
LARGEST = 1 << 20  # bytes that a download may have in a case
FILES = ("params.yaml", *(f"workflow/papers/p/{name}.yaml" for name in ("experiments", "scales", "artifacts", "claims")))
RUNS, SHELF = "results/runs/p/*", "results/kept/p.jsonl"
Work = Callable[[], int]


class Scene:
    """What a case has: `tree`, the working folder, and beside it `precious`, and where `sentinel` must not come to be."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.folder, self.draw = folder, draw
        self.tree, self.precious, self.sentinel = (folder / name for name in ("tree", "precious", "sentinel"))
        self.elsewhere = False  # whether new files may come to be beside the tree

    def path(self, pattern: str) -> Path:
        return self.draw.choice(sorted(self.tree.glob(pattern)))

    def settings(self) -> list[dict[str, Any]]:
        """What the settings say: of all papers, and a paper's experiments, scales, artifacts and claims."""
        return [yaml.safe_load((self.tree / name).read_text(encoding="utf-8")) for name in FILES]

    def write(self, *values: Any) -> None:
        for name, content in zip(FILES, values, strict=False):
            settings.save(self.tree / name, content)

    def hostile(self) -> str:
        """A name, or a part of a path, that means ill."""
        return self.draw.choice(
            [
                *("../../X", f"{self.precious}", f"{self.precious}/X", "../precious", "a/b", "a\0b", "n" * 300, "", ".", "..",
                "-", "--"),
                *(f"x; touch {self.sentinel}; true", f"$(touch {self.sentinel})", f"`touch {self.sentinel}`",
                f"|touch {self.sentinel}"),
                *("my-exp", "a\nb", "a\n  touch: x", "é" * 200, "\u4e2d" * 90, "\U0001f600" * 70, "--output=X", "-o", "CON",
                " ", "%s", "{}"),
                *("{scale}", "{{ 7 }}", "${HOME}", "\\input{/etc/passwd}", "<script>", "$\\frac{1}$", "*", "[a-z]*", "~root",
                "\u202ex"),
                f"'; import os; os.system('touch {self.sentinel}'); '",
            ]
        )  # fmt: skip


def picture(top: Path, but: Path | None = None) -> dict[str, tuple]:
    """All that lies in a folder, links as links."""
    found: dict[str, tuple] = {}
    for root, folders, names in os.walk(top):
        if but:
            folders[:] = [name for name in folders if Path(root, name) != but]
        for path in (Path(root, name) for name in (*folders, *names)):
            mode = path.lstat().st_mode
            what = {stat.S_IFLNK: os.readlink, stat.S_IFREG: Path.read_bytes}.get(stat.S_IFMT(mode), lambda path: None)
            found[str(path.relative_to(top))] = (mode, what(path))
    return found


def results(tree: Path) -> dict[str, tuple]:
    """What is kept, and the finished runs, of which nothing may go."""
    found = {}
    for name, content in picture(tree / "results").items() if (tree / "results").is_dir() else ():
        path = tree / "results" / name
        over = name.startswith("kept/") or (len(path.parts) > len(tree.parts) + 4 and _over(path, tree))
        if over and stat.S_ISREG(content[0]) and path.name not in cases.FREE and not path.name.startswith("."):
            found[name] = content
    return found


def _over(path: Path, tree: Path) -> bool:
    return tree.joinpath(*path.parts[len(tree.parts) :][:4], "record.json").is_file()


def names(scene: Scene) -> Iterator[tuple[Work, str]]:
    """Where a name is asked for."""
    draw, name = scene.draw, scene.hostile()
    params, experiments, scales, artifacts, claims = scene.settings()
    fig, shown = experiments["fig"], artifacts["figures"]["fig"]
    places = {
        "scale": lambda: (params["scales"].update({name: params["scales"]["quick"]}), params.update(scale=name),
        scales.update({name: scales["quick"]})),
        "paper": lambda: params["papers"].append(name),
        "experiment": lambda: (experiments.update({name: fig | {"rounds": 1}}), scales["quick"].update({name: {}})),
        "variant": lambda: fig.update(variants={name: {"rounds": 1}}),
        "label": lambda: fig["series"].update({name: {"name": "fedavg", "overrides": {"lr": 0.3}}}),
        "dataset": lambda: fig.update(dataset={"name": name}),
        "partition": lambda: fig.update(partition={"name": name, "clients": 3}),
        "algorithm": lambda: fig.update(series={"A": {"name": name}}),
        "study": lambda: fig.update(studies={name: {}}),
        "like": lambda: params["scales"]["other"].update(like=name),
        "mirror": lambda: (params.update(data_mirror=name), fig.update(dataset="mnist")),
        "overlay": lambda: scales["quick"].update(draw.choice([{name: {}}, {"fig": {name: 1}}])),
        "figure": lambda: artifacts["figures"].update({name: shown}),
        "table": lambda: artifacts["tables"].update({name: shown}),
        "claim": lambda: claims.update({name: shown}),
        "shown": lambda: shown.update(experiment=name),
        "title": lambda: (artifacts.update({draw.choice(["title", "reference", "curves_from"]): name}),
        shown.update(title=name)),
    }  # fmt: skip
    places["dvc"] = places["scale"]
    where = draw.choice([*places, "label", "label", "dvc", "option", "target", "notebook"])
    arguments = draw.choice([("list",), ("plan",), ("train", "--budget", "0s"), ("prune",), ("store",), ("restore",), ()])
    if where in places:
        places[where]()
    elif where == "option":
        option = draw.choice(["--scale", "--data-mirror", "--results", "--params", "--device"])
        arguments = draw.choice([("train", "--budget=0s"), ("plan",)]) + (f"{option}={name}",)
    else:
        arguments = ("notebook" if where == "notebook" else draw.choice(["train", "plan", "keep"]), "--", name)
    scene.write(params, experiments, scales, artifacts, claims)
    what = f"{where} {name[:60]!r}, {' '.join(arguments)[:80] or 'packing'}"
    if where == "dvc":
        params["papers"].append(name)
        scene.write(params)
        yield lambda: rendered(scene), what
    elif "\0" in "".join(arguments):
        yield lambda: 0, "no command line can have it"
    else:
        yield (lambda: main.main(list(arguments))) if arguments else lambda: packed(), what


def packed() -> int:
    """What Snakemake's main process plans."""
    plan_workflow(strict_yaml.read(Path("params.yaml")), Command(), Capacity())
    return 0


def rendered(scene: Scene) -> int:
    """The shell's part of what DVC would do: its commands, of programs that do nothing."""
    from dvc.repo import Repo

    tools = scene.folder / "tree" / "tools"
    tools.mkdir()
    (tools / "python").write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    (tools / "python").chmod(0o755)
    for name in ("dvc.yaml", "Snakefile"):
        shutil.copy(ROOT / name, scene.tree)
    shutil.copytree(ROOT / ".dvc", scene.tree / ".dvc", ignore=shutil.ignore_patterns("tmp", "cache", "config.local"))
    subprocess.run(["git", "init", "-q"], check=True)
    try:
        with Repo(".") as repo:
            commands = [command for stage in repo.index.stages for command in (stage.cmd or [])]
    except Exception as error:  # DVC's own refusal
        sys.stdout.write(f"error: DVC: {type(error).__name__}\n")
        return 2
    assert len(commands) > 5
    for command in commands:
        subprocess.run(["/bin/sh", "-c", command], env={"PATH": f"{tools}:/usr/bin:/bin"}, check=True)
    return 0


def commits(scene: Scene) -> Iterator[tuple[Work, str]]:
    """What a run, a study or a variable calls a commit, and git may take for an option."""
    draw, target = scene.draw, scene.precious / "doc.txt"
    name = draw.choice(
        [
            *(f"--output={target}", f"-o{target}", f"--exec=touch {scene.sentinel}", f"--remote=ext::touch {scene.sentinel}",
            "-h", "--help"),
            *("HEAD", "HEAD~1", "HEAD^{/x}", f";touch {scene.sentinel}", f"$(touch {scene.sentinel})", str(target),
            "0" * 10**5, "main", ""),
            *("0" * 40, "deadbeef", "deadbeef-dirty", "unknown-dirty", "unknown\n", "deadbeef\n--output=x", "\0", "-dirty",
            "é", "１２３４５６７"),
            *(None, 7, 1.5, True, [], ["deadbeef"], {"a": 1}),
        ]
    )  # fmt: skip
    what = f"commit {str(name)[:60]!r}"
    if draw.random() < 0.25 and isinstance(name, str) and "\0" not in name:
        for run in scene.tree.glob(RUNS):
            shutil.rmtree(run)
        yield lambda: outside(scene, name), f"FEDREPRO_COMMIT, {what}"
        yield lambda: main.main(["keep"]), f"FEDREPRO_COMMIT, {what}, keep"
        return
    path = scene.path(f"{RUNS}/record.json") if draw.random() < 0.6 else scene.path(f"{RUNS}/*-*.json")
    values = json.loads(path.read_text(encoding="utf-8"))
    values["environment"]["commit"] = name
    _rewrite(path, values, draw)
    command = draw.choice(["keep", "keep", "list", "store", "gather"])
    what += f" in {path.name}, {command}"
    yield gathered if command == "gather" else (lambda: main.main([command])), what


def outside(scene: Scene, commit: str) -> int:
    """Train where there is no checkout."""
    provenance.PACKAGE = shutil.copytree(provenance.PACKAGE, scene.folder / "tree/copy/fedrepro")
    provenance.clear_caches()
    os.environ["FEDREPRO_COMMIT"] = commit
    return main.main(["train"])


def _rewrite(path: Path, values: dict[str, Any], draw: random.Random) -> None:
    """With a seal that fits, as somebody would who knows of it, or without."""
    values.pop("seal", None)
    path.unlink()  # which may be a link to another
    records.write(path, values) if draw.random() < 0.5 else path.write_text(json.dumps(values), encoding="utf-8")


PLACES = (
    *(f"{RUNS}/{name}" for name in ("record.json", "begun.json", "log.txt")),
    *(f"{RUNS}/model.*", f"{RUNS}/*-*.json", f"{RUNS}/snapshots", f"{RUNS}/snapshots/*"),
    *("results", "results/runs", "results/runs/p", RUNS, RUNS, "results/kept", SHELF, SHELF, SHELF),
    *("results/stored", "results/stored/p", "results/stored/p/*", "results/stored/p/*/*", "data", "data/prepared",
    "data/prepared/*"),
    *("data/prepared/*/*", "data/partitions", "data/partitions/*", "data/raw", "data/raw/*", "data/raw/*/*"),
)  # fmt: skip
DISKS = (  # folders that a user may have put on another disk: new files come to be there, and none that is there goes
    *("data", "data/raw", "data/raw/digits", "data/prepared", "data/prepared/digits", "data/partitions"),
    *("results", "results/runs", "results/runs/p", "results/stored", "results/stored/p"),
)
ADDED = (
    *("results/runs/q", "results/runs/q/run", "results/runs/p/more", "results/runs/.part", "results/stored/q",
    "results/kept/q.jsonl", "results/kept/more"),
    *(f"results/runs/p/.x.json.{MACHINE}-4194303.part", f"results/kept/.p.jsonl.{MACHINE}-4194303.part"),
    *(f"data/partitions/.x.npz.{MACHINE}-4194303.part", "data/partitions/x.npz", "data/partitions/x.png", "results/.kept.lock",
    ".snakemake"),
    *("data/raw/.digits.fetch.lock", "data/prepared/.digits.lock", "data/prepared/.digits.part", "operations.json",
    "results/operations.json", "runs.json"),
    "{run}/snapshots/round-9.safetensors", "{run}/snapshots/round-9.clients", "{run}/checkpoint.safetensors",
    "{run}/checkpoint.clients",
    "{run}/progress.json", "{run}/newcomers-0.begun", "{run}/tsne-0.json", "{run}/.x.part",
    "{run}/.record.json.{machine}-4194303.part",
)  # fmt: skip


def links(scene: Scene) -> Iterator[tuple[Work, str]]:
    """Something else in the place of a file or folder, or beside them."""
    draw = scene.draw
    if draw.random() < 0.65:
        path = scene.path(draw.choice(PLACES))
        files = not path.is_dir()
        shutil.move(path, scene.tree / "moved")
    else:
        run = scene.path(RUNS)
        path = scene.tree / draw.choice(ADDED).format(run=run.relative_to(scene.tree), machine=MACHINE)
        files = True
        if path.exists():
            shutil.move(path, scene.tree / "moved")
        path.parent.mkdir(parents=True, exist_ok=True)
    targets = {
        "folder": scene.precious, "file": scene.precious / "doc.txt", "like": scene.precious / path.name,
        "absent": scene.precious / "absent",
        "itself": path.name, "within": scene.precious / "p", "run": next(scene.precious.glob("p/*")),
    }  # fmt: skip
    kind = draw.choice([*targets, *targets, "pipe", "other", "empty"])
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "other":
        path.mkdir() if files else path.write_bytes(b"no folder")
    elif kind == "empty":
        path.touch()
    else:
        path.symlink_to(targets[kind])
    name = str(path.relative_to(scene.tree))
    scene.elsewhere = path.is_symlink() and name in DISKS
    if draw.random() < 0.5:  # something is to be done
        for run in scene.tree.glob(RUNS):
            if not run.is_symlink() and draw.random() < 0.7 and (run / "record.json").is_file():
                (run / "record.json").unlink()
                for made in run.glob("model.*"):  # from a checkpoint, or from the beginning
                    other = made.with_name(made.name.replace("model", draw.choice(["checkpoint", "moved"])))
                    if not os.path.lexists(other):
                        made.rename(other)
    for command in draw.sample([["prune"], ["keep"], ["store"], ["restore"], ["train"], ["list"], ["plan"]], 2):
        yield lambda command=command: main.main(command), f"{kind} at {name}, {' '.join(command)}"


def documents(scene: Scene) -> Iterator[tuple[Work, str]]:
    """YAML that is larger, deeper or more than it looks, under a key that is drawn."""
    draw = scene.draw
    deep, wide = draw.randint(2, 14), draw.randint(2, 12)
    levels = {
        "bomb": "[" + ", ".join([f"&a0 [{', '.join(['x'] * wide)}]",
        *(f"&a{n} [{', '.join([f'*a{n - 1}'] * wide)}]" for n in range(1, deep))]) + "]",
        "maps": "{" + ", ".join(["k0: &a0 {x: 1}",
        *(f"k{n}: &a{n} {{{', '.join(f'm{i}: *a{n - 1}' for i in range(wide))}}}" for n in range(1, deep))]) + "}",
        "merge": "{" + ", ".join(["k0: &a0 {x: 1}",
        *(f"k{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * wide)}], y{n}: 1}}" for n in range(1, deep))]) + "}",
        "merges": draw.choice(["{<<: 7}", "{<<: [[]]}", "&a {<<: *a}", "{<<: {lr: 0.1}}", "{<<: null}",
        "{<<: {x: 1}, <<: {y: 2}}", "[<<]", "{? [<<] : 1}"]),
        "tag": draw.choice([
            f"!!python/object/apply:os.system ['touch {scene.sentinel}']",
            f"!!python/object/new:os.system [touch {scene.sentinel}]", "!!python/name:os.system",
            "!!python/module:os", f"!!python/object/apply:subprocess.check_output [[touch, {scene.sentinel}]]",
            "!!python/tuple [1]", "!unknown x", "!!binary aGFsbG8=",
            "!!set {a, b}", "!!omap [a: 1]", "!!timestamp 2001-01-01", "2001-01-01", "!!int x", "!!float []", "!!null 7",
            "!!bool x", "!!str [x]", "!!map []", "! x",
            "!!pairs [a: 1]", "!!seq {}", "!!merge <<", "!!value =", "=",
        ]),
        "nested": draw.choice(["[", "{a: ", "[[{x: "]) * draw.choice([30, 59, 70, 3000, 200_000]),
        "block": "\n" + "".join(f"{' ' * n}- \n" for n in range(12, draw.choice([40, 500]))),
        "scalar": draw.choice(["x", "9", "1:", "é", "\\x41", "0.", "- ", "1_"]) * draw.choice([10**5, 10**6, 5 * 10**6]),
        "keys": "{" + ", ".join(f"k{n}: 1" for n in range(draw.choice([100, 30_000]))) + "}",
        "key": "{? " + "k" * 10**6 + " : 1}",
        "template": f"{{__use_yte__: true, __definitions__: ['import os; os.system(\"touch {scene.sentinel}\")']}}",
        "many": "[" + "x, " * draw.choice([100, 10**5]) + "]",
        "odd": draw.choice(["{? [a] : 1}", "{? {a: 1} : 1}", "{null: 1}", "{.nan: 1, .nan: 2}", "{1: 1, true: 2}", "{1.0: 2}",
        "{? !!binary aGE= : 1}", "{2001-01-01: 1}",
                            "{? !!set {a} : 1}", "x\n---\ny: 1", "x\n...\n", "\"\\0\"", "\"\\ud800\"", ".inf", "-.inf", ".nan",
                            "{true: 1}", "&a *a", "|\n  x\n y", "%", "@", "`", "\"\\U00110000\""]),
    }  # fmt: skip
    kind = draw.choice(["bomb", *levels])
    if kind == "nested":
        levels["nested"] += "".join({"[": "]", "{": "}"}.get(character, "") for character in reversed(levels["nested"]))
    params, experiments, scales, artifacts, claims = values = scene.settings()
    fig, here = experiments["fig"], "HERE-"
    places: dict[str, tuple[dict, str]] = {
        "top": (params, "zz"), "params": (params, draw.choice(["device", "mlflow_uri", "papers", "scales", "devices",
        "data_mirror"])),
        "scale": (params["scales"]["quick"], draw.choice(["seeds", "note", "like"])), "model": (fig["model"],
        draw.choice(["width", "zz", "name"])),
        "series": (fig["series"], draw.choice(["FedAvg", "zz"])), "overrides": (fig["series"]["FedAvg"], "overrides"),
        "partition": (fig["partition"], draw.choice(["clients", "zz", "name"])),
        "studies": (fig, "studies"), "overlay": (scales, draw.choice(["quick", "zz"])), "title": (artifacts,
        draw.choice(["title", "reference", "figures", "proposed"])),
        "claim": (claims, "one"), "seeds": (fig, "seeds"), "measures": (fig, "measures"),
    }  # fmt: skip
    key, (above, name) = draw.choice(list(places.items()))
    above[name] = here
    scene.write(*values)
    for path in (scene.tree / file for file in FILES):
        path.write_text(path.read_text(encoding="utf-8").replace(here, levels[kind]), encoding="utf-8")
    command = draw.choice([["list"], ["plan"], ["train", "--budget", "0s"], ["prune"], ["keep"], []])
    what = f"{kind} ({deep}, {wide}, {levels[kind][:40]!r}) at {key} {name}, {command}"
    yield (lambda: main.main(command)) if command else packed, what


class Handler(BaseHTTPRequestHandler):
    """Answers the file that is attacked with `server.answer`, which makes pieces of bytes, others as they are."""

    def do_GET(self) -> None:
        name, server = self.path.rpartition("/")[2], self.server
        server.asked += 1
        data = server.files.get(name)
        with contextlib.suppress(OSError):
            if name == server.victim and data is not None:
                for piece in server.answer(data, self.headers.get("Range"), server.asked):
                    self.wfile.write(piece)
            elif data is None:
                self.send_error(404)
            else:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data)

    def log_message(self, *_: object) -> None:
        pass


def answers(scene: Scene) -> dict[str, Callable[[bytes, str | None, int], Iterator[bytes]]]:
    """What a server may say, of a file that is asked for, perhaps from a byte on, for the n-th time."""
    draw, ok = scene.draw, b"HTTP/1.1 200 OK\r\n"
    statuses = [*range(200, 208), 226, *range(300, 309), *range(400, 430)]
    status = draw.choice([*statuses, 100, 101, 103, 199, 500, 502, 503, 599, 600, 700, 999, 0, "abc", -1, 10**6])
    length = draw.choice(
        ["abc", "-1", "1e3", "", "0", "5", "99999999999", "9" * 5000, "5, 7", "0x10", "\u0661", "+5", " 5 ", "1.5"]
    ).encode()
    secret = scene.precious / "doc.txt"
    location = draw.choice(
        [
            *(f"file://{secret}", f"ftp://127.0.0.1{secret}", f"//localhost{secret}", f"gopher://x{secret}", "data:,x",
            "javascript:x", "", "/", "http://", "http://["),
            *("http://127.0.0.1:99999/", "http://127.0.0.1:1/", "http://127.0.0.1\0/", "\r", "é",
            "http://u:secret@127.0.0.1:1/", "x" * 70_000, f"unix://{secret}"),
        ]
    )  # fmt: skip
    pause, coding = draw.choice([0.003, 0.02]), draw.choice([b"gzip", b"br", b"chunked", b"x"])
    span = draw.choice(
        [b"bytes 0-3/9", b"bytes 5-8/9", b"bytes */9", b"x", b"bytes 9-1/9", b"bytes 0-99999999999/100000000000", b""]
    )

    def changing(data: bytes, asked: str | None, count: int) -> Iterator[bytes]:
        other = data[::-1]
        if not asked:
            yield ok + b"Content-Length: %d\r\n\r\n" % len(data) + data[: len(data) // 2]
        else:
            start = int(asked[6:-1])
            yield b"HTTP/1.1 206 X\r\nContent-Range: bytes %d-%d/%d\r\n" % (start, len(data) - 1, len(data))
            yield b"Content-Length: %d\r\n\r\n" % (len(data) - start) + other[start:]

    def slowly(head: bytes) -> Iterator[bytes]:
        yield head
        for _ in range(10**6):
            time.sleep(pause)
            yield b"x"

    def ever(head: bytes, piece: bytes = b"x" * 4096) -> Iterator[bytes]:
        return itertools.chain([head], itertools.repeat(piece))

    packed = gzip.compress(bytes(10**7))
    return {
        "endless": lambda *_: ever(ok + draw.choice([b"\r\n", b"Content-Length: 99999999\r\n\r\n"])),
        "endless chunks": lambda *_: ever(ok + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"),
        "endless headers": lambda *_: ever(ok, b"X: y\r\n"), "endless header": lambda *_: ever(ok + b"X: "),
        "endless status": lambda *_: ever(b"HTTP/1.1 200 "), "slow": lambda *_: slowly(ok + b"\r\n"),
        "slow headers": lambda *_: slowly(ok + b"X: "),
        "slow status": lambda *_: slowly(b"HTTP/1.1 200 "), "length": lambda data,
        *_: iter([ok + b"Content-Length: " + length + b"\r\n\r\n", data]),
        "lengths": lambda data, *_: iter([ok + b"Content-Length: 5\r\nContent-Length: 9\r\n\r\n", data]),
        "location": lambda *_: iter([b"HTTP/1.1 302 Found\r\nLocation: " + location.encode("latin-1",
        "replace") + b"\r\nContent-Length: 0\r\n\r\n"]),
        "bytes": lambda *_: iter([b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\xff\xfe\r\n\r\n"]),
        "loop": lambda *_: iter([b"HTTP/1.1 302 Found\r\nLocation: " + IMAGES.encode() + b"\r\nContent-Length: 0\r\n\r\n"]),
        "status": lambda data, *_: iter([f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n\r\n".encode(), data]),
        "changing": changing, "html": lambda *_: iter([ok + b"Content-Type: text/html\r\n\r\n<html>sign in</html>"]),
        "cut": lambda data, *_: iter([ok + b"\r\n", data[: len(data) // 3]]), "short": lambda data,
        *_: iter([ok + b"Content-Length: 9999\r\n\r\n", data[:50]]),
        "nothing": lambda *_: iter([]), "noise": lambda *_: iter([draw.randbytes(500)]),
        "empty": lambda *_: iter([ok + b"Content-Length: 0\r\n\r\n"]),
        "bomb": lambda *_: iter([ok + b"Content-Length: %d\r\n\r\n" % len(packed), packed]),
        "coded": lambda data, *_: iter([ok + b"Content-Encoding: " + coding + b"\r\n\r\n", data]),
        "chunks": lambda data, *_: iter([ok + b"Transfer-Encoding: chunked\r\n\r\n", draw.choice([b"zz\r\n", b"-5\r\n",
        b"ffffffffffffffff\r\n", b"\r\n"]), data]),
        "range": lambda data, *_: iter([b"HTTP/1.1 206 X\r\nContent-Range: " + span + b"\r\n\r\n", data]),
        "old": lambda data, *_: iter([data]), "split": lambda data, *_: iter([ok + b"X: a\r\n b\r\n: c\r\nd\r\n\r\n", data]),
    }  # fmt: skip


def downloads(scene: Scene) -> Iterator[tuple[Work, str]]:
    """A server with the files of a data set, one of which it gives in a hostile way; once, or whenever it is asked."""
    draw = scene.draw
    kind, mirror = draw.choice(list(answers(scene))), draw.random() < 0.5
    answer, again = answers(scene)[kind], draw.random() < 0.7
    params, experiments, *_ = scene.settings()
    experiments["fig"] |= {"dataset": "mnist", "train_images": 20, "test_images": 9}
    shutil.rmtree(scene.tree / "results")
    scene.write(params, experiments)

    def work() -> int:
        files = mnist_files()
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads, server.files, server.asked = True, files, 0
        server.victim = draw.choice([name for name in sorted(files)])

        def first(data: bytes, asked: str | None, count: int) -> Iterator[bytes]:
            server.victim = server.victim if again else ""
            return answer(data, asked, count)

        server.answer = first
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        pinned = tuple(File(name, (f"{url}/{name}",), md5(data)) for name, data in files.items())
        SOURCES["mnist"] = dataclasses.replace(SOURCES["mnist"], files=pinned, pixels=None)
        _download.MAX_BYTES, _download.BACKOFF, _download.WINDOW, _download.TIMEOUT = LARGEST, 0, 0.05, (0.3, 0.3)
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            os.environ.pop(name, None)
        code = main.main(["train", "--budget", "60s", *(["--data-mirror", url] if mirror else [])])
        if code == 0:
            found = {path.name: path.read_bytes() for path in Path("data/raw/mnist").glob("*ubyte*")}
            assert found == {name: files[name] for name in found}, "other files than the server's were taken"
        left = sum(path.stat().st_size for path in Path("data/raw").rglob("*") if path.is_file())
        assert left < 2 * LARGEST, f"{left} bytes were left"
        return code

    yield work, f"{kind}, {'mirror' if mirror else 'official'}{'' if again else ', once'}"


def tampered(scene: Scene) -> Iterator[tuple[Work, str]]:
    """An edit of what is kept, but for lines that go, which only git notices."""
    draw = scene.draw
    kind = draw.choice(["digit", "digit", "extra", "rows", "twice", "column", "seal", "added"])
    path = scene.tree / SHELF
    text = path.read_text(encoding="utf-8")
    rows = text.splitlines(keepends=True)
    at = draw.randrange(len(rows))
    if kind in ("digit", "extra"):
        at = draw.choice([at for at, letter in enumerate(text) if letter.isdigit()])
        other = str((int(text[at]) + draw.randint(1, 9)) % 10) if kind == "digit" else f"{text[at]}0"
        rows = [text[:at], other, text[at + 1 :]]
    elif kind == "rows":
        rows.reverse()
    elif kind == "twice":
        rows.insert(at, rows[at])
    elif kind == "column":
        rows[at] = rows[at].replace("]", ", 1]", 1)
    elif kind == "seal":
        wrong = "".join(draw.choices("0123456789abcdef", k=64)).join((rows[at][:10], rows[at][74:]))
        rows[at] = draw.choice([wrong, "x\n", rows[at][:60] + "\n", "\0\n"])
    elif kind == "added":
        path = scene.tree / "results/kept" / draw.choice(["another.csv", "q.jsonl", "studies.csv"])
    path.write_text("".join(rows), encoding="utf-8")
    command = draw.choice(["gather", "gather", "gather", "list", "plan", "keep"])
    scene.named = {path.name}
    yield (
        gathered if command == "gather" else (lambda: main.main([command])),
        f"{kind} in {path.relative_to(scene.tree)}, {command}",
    )


def configurations(scene: Scene) -> Iterator[tuple[Work, str]]:
    """What a user, a machine or a hook may have configured in git."""
    draw, touch = scene.draw, f"touch {scene.sentinel}"
    config = draw.choice(
        [
            "[log]\nshowSignature = true", "[core]\nautocrlf = true\neol = crlf", "[color]\nui = always\nstatus = always",
            f"[core]\nfsmonitor = {touch}",
            f"[core]\nsshCommand = {touch}\npager = {touch}\neditor = {touch}",
            f"[alias]\nstatus = !{touch}\nrev-parse = !{touch}\narchive = !{touch}",
            "[status]\nshowUntrackedFiles = all\nbranch = true\nshort = true\nrelativePaths = false",
            "[core]\nabbrev = 40\nquotePath = true", "[core", "garbage", "\0",
            f"[gpg]\nprogram = {touch}", f"[diff]\nexternal = {touch}", "[core]\nrepositoryformatversion = 9",
            f"[core]\nhooksPath = {scene.precious}", "[core]\nbare = true",
            "[safe]\nbareRepository = explicit", f"[include]\npath = {scene.tree}/itself",
            "[extensions]\nobjectFormat = sha256", "[core]\nworktree = /absent", "[advice]\nx = y",
            f"[core]\nattributesFile = {scene.tree}/attributes\n[filter \"f\"]\nclean = {touch}; cat\nsmudge = {touch}; cat",
            "[i18n]\nlogOutputEncoding = utf-16",
            "[log]\ndate = raw\nabbrevCommit = true", "[pager]\nstatus = true\nrev-list = true",
            "[core]\nignoreStat = true\nfileMode = false", f"[tar]\numask = 0777\n[tar \"tar\"]\ncommand = {touch}",
        ]
    )  # fmt: skip
    variables = draw.choice(
        [
            {}, {}, {}, {"GIT_DIR": str(scene.precious)}, {"GIT_DIR": "/absent", "GIT_WORK_TREE": "/absent"},
            {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"},
            {"PATH": "/absent"}, {"GIT_TRACE": "1"}, {"GIT_TRACE": str(scene.tree / "trace")}, {"GIT_PAGER": touch},
            {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"}, {"GIT_CEILING_DIRECTORIES": "/"},
            {"GIT_EXTERNAL_DIFF": touch}, {"GIT_CONFIG_COUNT": "x"}, {"GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": touch},
            {"GIT_INDEX_FILE": "/absent"}, {"GIT_ALTERNATE_OBJECT_DIRECTORIES": "/absent"}, {"GIT_OPTIONAL_LOCKS": "0"},
            {"GIT_LITERAL_PATHSPECS": "1"}, {"GIT_CONFIG_PARAMETERS": "x"},
            {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "0"}, {"GIT_FLUSH": "0"}, {"HOME": "/absent"}, {"HOME": ""},
            {"XDG_CONFIG_HOME": str(scene.precious)}, {"GIT_REDIRECT_STDOUT": str(scene.precious / "doc.txt")},
        ]
    )  # fmt: skip
    (scene.tree / "attributes").write_text("*.py filter=f\n* export-ignore\n", encoding="utf-8")
    (scene.tree / "config").write_text(config + "\n", encoding="utf-8")
    for path in scene.tree.glob("results/*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def run(*words: str) -> int:
        os.environ.update({"GIT_CONFIG_GLOBAL": str(scene.tree / "config")} | variables)
        for answer in (provenance.head_commit, provenance.current_commit, provenance.commit_date, provenance.committed_digest):
            answer.cache_clear()
        code = main.main(list(words))
        if words == ("train",):
            assert code == 0, "nothing is wrong with a run because of git"
            found = _numbers(Path())
            assert {name: scene.metrics[name] for name in found if name in scene.metrics} == scene.metrics
        return code

    what = f"{config[:60]!r} {variables}"
    yield lambda: run("train"), f"{what}, train"
    yield lambda: run("keep"), f"{what}, keep"


TOPICS: dict[str, tuple[str, Callable[[Scene], Iterator[tuple[Work, str]]]]] = {  # from which place each starts
    "names": ("trained", names),
    "commits": ("trained", commits),
    "links": ("whole", links),
    "YAML": ("fresh", documents),
    "downloads": ("fresh", downloads),
    "tampered": ("kept", tampered),
    "git": ("fresh", configurations),
}


def _numbers(tree: Path) -> dict[str, str]:
    """The digest of each finished run's numbers."""
    return {path.parent.name: records.load(path.parent)["metrics"] for path in tree.glob(f"{RUNS}/record.json")}


def repository(folder: Path) -> Path:
    """A checkout of the package's code; the package in it."""
    package = folder / "src/fedrepro"
    shutil.copytree(provenance.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "m"], ["commit", "-q", "--allow-empty", "-m", "n"]):
        subprocess.run([*git, *words], check=True)
    return package


class Attacks:
    """Places where all is well, and what lies beside them."""

    def __init__(self, folder: Path, verbose: bool) -> None:
        self.folder, self.verbose = folder, verbose
        for name in [name for name in os.environ if name.startswith(("GIT_", "FEDREPRO_"))]:
            del os.environ[name]
        import dvc.repo  # noqa: F401 - so that no case has to
        import requests  # noqa: F401

        for name in ("keep", "prune", "workflow", "run_list", "study_runner"):
            importlib.import_module(f"fedrepro.experiments.{name}")
        importlib.import_module("fedrepro.runs.dvc_store")
        provenance.PACKAGE = repository(folder / "repository")
        provenance.clear_caches()
        trained, fresh, kept, whole = (folder / name for name in ("trained", "fresh", "kept", "whole"))
        trained.mkdir()
        changes = {"rounds": 2, "train_images": 30, "test_images": 20, "local_epochs": 1, "studies": STUDIES, "series": SERIES}
        settings.write(trained, settings.fig(partition={"name": "permuted", "clients": 3}, **changes))
        settings.place_paper(trained, settings.PAPER)
        with contextlib.chdir(trained), contextlib.redirect_stdout(io.StringIO()):
            main.main(["train", "--budget", "0s"])  # remembers the digests of code
        self.well(trained, lambda: main.main(["train"]))
        self.metrics = _numbers(trained)
        shutil.copytree(trained, fresh, ignore=shutil.ignore_patterns("runs"))
        (fresh / "results").mkdir(exist_ok=True)
        shutil.copytree(trained, kept)
        with contextlib.chdir(kept), contextlib.redirect_stdout(io.StringIO()):
            main.main(["keep"])
        shutil.copytree(kept, whole)
        self.well(whole, lambda: main.main(["store"]))
        shutil.rmtree(kept / "results/runs")
        self.right = {name: self.shown(kept, work) for name, work in self.shows().items()}
        for path in [*folder.glob("trained/results/*"), *folder.glob("kept/results/*"), *folder.glob("whole/results/*")]:
            assert path.name in ("runs", "kept", "stored", ".kept.lock", ".stored.lock", "operations.json"), path

    @staticmethod
    def shows() -> dict[str, Work]:
        return {"gather": gathered, "list": lambda: main.main(["list"]), "plan": lambda: main.main(["plan"])}

    def well(self, place: Path, work: Work) -> Ended:
        ended = cases.ended(place, work)
        if ended.code:
            raise SystemExit(f"nothing is wrong, and yet: {ended.text}")
        return ended

    def shown(self, place: Path, work: Work) -> tuple[dict[str, bytes], str]:
        """What comes out where nothing is tampered with."""
        with tempfile.TemporaryDirectory() as folder:
            copied = shutil.copytree(place, Path(folder) / "tree", symlinks=True)
            text = self.well(copied, work).text
            return cases.contents(copied / "out"), text

    def __call__(self, number: int, draw: random.Random) -> str:
        topic = list(TOPICS)[number % len(TOPICS)]
        place, attack = TOPICS[topic]
        with tempfile.TemporaryDirectory() as folder:
            scene = self.scene(Path(folder), place, draw)
            outcomes = [self.tried(scene, topic, number, work, what) for work, what in attack(scene)]
        return f"{topic}: {'one message' if 'one message' in outcomes else 'allowed'}"

    def scene(self, folder: Path, place: str, draw: random.Random) -> Scene:
        scene = Scene(folder, draw)
        scene.metrics = self.metrics
        shutil.copytree(self.folder / place, scene.tree, symlinks=True)
        run = sorted((self.folder / "trained").glob(RUNS))[0]
        shutil.copytree(run, scene.precious / "p" / f"{run.name[:-1]}x")
        shutil.copytree(run, scene.precious, dirs_exist_ok=True)
        for name in ("doc.txt", "sub/doc.txt", f".x.{MACHINE}-4194303.part", "x.npz", "meta.json",
        "checkpoint.clients/0-1.safetensors",
                     "round-9.safetensors", "snapshots/round-9.clients/0-8.safetensors", "log.txt",
                     "runs.json"):  # fmt: skip
            path = scene.precious / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"mine, in {name}\n", encoding="utf-8")
        (scene.precious / "link").symlink_to("sub")
        (scene.precious / "file").symlink_to("doc.txt")
        return scene

    def tried(self, scene: Scene, topic: str, number: int, work: Work, what: str) -> str:
        """Do it, and look at what must not have happened."""
        beside, ours = picture(scene.folder, scene.tree), results(scene.tree)
        try:
            ended = cases.ended(scene.tree, work, SECONDS)
            outcome = "allowed" if ended.code in (0, 3) and "Traceback" not in ended.text else "one message"
            message = cases.one_message(ended) if outcome == "one message" else ""
        except Failed as failed:
            raise Failed(f"{topic}: {what}: {failed}") from None
        if self.verbose:
            cases.say(f"{number} {topic}: {what}: {message or outcome}"[:500])
        after = picture(scene.folder, scene.tree)
        if other := [name for name in _different(beside, after) if name in beside or not scene.elsewhere]:
            raise Failed(f"{topic}: {what}: written or deleted beside the working tree: {other}\n{ended.text[-2000:]}")
        left = results(scene.tree)
        kept = left.get("kept/p.jsonl", (0, b""))[1].decode(errors="replace")
        shelf = set(re.findall(r'^{"seal": "[^"]*", "run": "([^"]+)"', kept, re.MULTILINE))
        lost = [name for name in _different(ours, left) if name in ours]
        if lost := [name for name in lost if name in left or name.startswith("kept/") or Path(name).parts[2] not in shelf]:
            raise Failed(f"{topic}: {what}: lost or changed: {lost}\n{ended.text[-2000:]}")
        if topic == "tampered":
            self.look(scene, what, ended, message)
        return outcome

    def look(self, scene: Scene, what: str, ended: Ended, message: str) -> None:
        """What is shown of tampered results is what they were, or nothing, and the file is named."""
        command = what.rpartition(" ")[2]
        if message and not any(name in ended.text for name in scene.named):
            raise Failed(f"{what}: names no file: {message}")
        if not message and command in self.right:
            out, text = self.right[command]
            plain = re.sub("[0-9.]+ (s|ms)\\b", "", ended.text)
            if cases.different(out, cases.contents(scene.tree / "out")) or plain != re.sub("[0-9.]+ (s|ms)\\b", "", text):
                raise Failed(f"{what}: not noticed, and shown otherwise:\n{ended.text[-1500:]}")


def _different(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


if __name__ == "__main__":
    options = cases.parse_options("attacks", 500, verbose="print every message")
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(cases.run_campaign("attacks", lambda: Attacks(Path(folder), options.verbose), options))
