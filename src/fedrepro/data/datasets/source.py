"""What a data set declares: where it comes from, what is in it, and how it is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrepro.config.types import Frozen
from fedrepro.data.datasets._formats import Arrays


@dataclass(frozen=True)
class File:
    """One file of an official release. Its addresses are tried in order, and its md5 must match."""

    name: str
    urls: tuple[str, ...]
    md5: str


@dataclass(frozen=True)
class Contents:
    """What planning needs to know of a data set."""

    shape: tuple[int, int, int]  # (C, H, W) of an image
    train: int  # images
    test: int
    classes: tuple[str, ...]  # their names
    real: bool = False  # images are float32; else pixels, uint8
    devices: bool = False  # the data say which device an image comes from


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """A data set, a row of its module's table `SOURCES`.

    A set that is released as files declares `files` and `mirror`; one of class folders that the
    user unpacks `folders` and `how`. Without either it reads what the user put into
    data/raw/<name>/, if anything.

    `read(raw, options)` returns train_x, train_y, test_x, test_y: images (N, C, H, W) uint8, or
    float32 if they are real numbers; labels (N,) from 0. If images belong to devices, it returns
    train_owner and test_owner too, (N,) from 0. `raw` is the folder of raw files, or of the user's
    own.
    """

    title: str  # may name options in braces
    about: str  # for the reference
    contents: Contents | Callable[[Any], Contents]  # of the options
    read: Callable[[Path, Any], Arrays]
    options: type[Frozen] = Frozen
    # checksum of the official release's arrays; None if it could not be computed here
    pixels: str | None = None
    # options -> that of a draw, to identify runs before it is drawn
    checksums: Mapping[Any, str] = field(default_factory=dict)
    files: tuple[File, ...] = ()  # of the official release
    # alternative layouts of the files' paths below a mirror
    mirror: tuple[tuple[str, ...], ...] = ()
    folders: tuple[str, ...] = ()  # of classes
    how: str = ""  # how the user gets the folders
    origin: str | None = None  # the data set of which this is a part, whose raw files are read
    place: Callable[[Any], Path] | None = None  # the user's file or folder that the options name
    source: str = "own"  # of the data, for a set without files and folders
