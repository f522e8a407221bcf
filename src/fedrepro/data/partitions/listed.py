"""Clients from a .csv file with the columns client, image and, optionally, part: a line for each
image that a client has.

Clients count from 0, images from 0 in the order of the data set's files. The part is `train` or
`test`; without test images in the file, every client's test part has the class proportions of its
training part. Images that the run does not use, by `train_images` or `test_images`, and those that
are held out or that the server took, are left out. In place of a file, `images` may list each
client's training images.
"""

import csv
import functools
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from fedrepro.config.types import Count, Frozen, InputFile, read_input
from fedrepro.core.errors import UserError
from fedrepro.data.datasets._formats import reading
from fedrepro.data.datasets.base import LabelledSubset
from fedrepro.data.partitions.base import disjoint_test_parts

PARTS = ("train", "test")
MAX_BYTES = 1 << 26  # of the file: a line for each of some millions of images


class Row(NamedTuple):
    line: int  # without a file, the client
    client: int
    image: int


def _count(data: dict[str, Any]) -> int:
    if (images := data.get("images")) is not None:
        return len(images)
    rows = _listed(data.get("file"), None)["train"]
    return 1 + max((row.client for row in rows), default=0)


class Params(Frozen):
    file: InputFile | None = Field(None, exclude_if=lambda value: value is None)
    images: tuple[tuple[Annotated[int, Field(ge=0, strict=True)], ...], ...] | None = Field(
        None, exclude_if=lambda value: value is None
    )
    clients: Count = Field(default_factory=_count)  # those that are listed

    @model_validator(mode="after")
    def _lists_each_image_once(self) -> "Params":
        listed = [image for part in self.images or () for image in part]
        if (self.file is None) == (self.images is None):
            raise ValueError("expected either file or images")
        seen: set[int] = set()
        for image in listed:
            if image in seen:
                raise ValueError(f"images: {image} is listed twice")
            seen.add(image)
        return self


def check_extent(params: Params, train: int, test: int) -> None:
    """Raise UserError for images that the data set does not have, and for another number of clients
    than the file's."""
    source = params.file.path if params.file else "partition listed"
    for part, count in zip(PARTS, (train, test), strict=True):
        for row in _listed(params.file, params.images)[part]:
            if row.image >= count:
                raise UserError(
                    f"{source}: {'line' if params.file else 'client'} {row.line}: image "
                    f"{row.image}: the data set has {count} {part} images, 0 to {count - 1}"
                )
    if (clients := _count(vars(params))) != params.clients:
        raise UserError(
            f"partition listed: clients: {source} lists {clients} (got {params.clients})"
        )


def split(params: Params, train: LabelledSubset, draw: np.random.Generator) -> list[np.ndarray]:
    return _parts(params, "train", train)


def split_test(
    params: Params,
    parts: list[np.ndarray],
    train: LabelledSubset,
    test: LabelledSubset,
    draw: np.random.Generator,
) -> list[np.ndarray]:
    if _listed(params.file, params.images)["test"]:
        return _parts(params, "test", test)
    return disjoint_test_parts(params, parts, train, test, draw)


def _parts(params: Params, part: str, images: LabelledSubset) -> list[np.ndarray]:
    """Return each client's images, as places among those in use."""
    places = {int(number): place for place, number in enumerate(images.numbers)}
    parts: list[list[int]] = [[] for _ in range(params.clients)]
    for row in _listed(params.file, params.images)[part]:
        if row.image in places:
            parts[row.client].append(places[row.image])
    return [np.array(places, int) for places in parts]


def _listed(file: Any, images: tuple[tuple[int, ...], ...] | None) -> dict[str, list[Row]]:
    if file:
        return _rows(file.path, file.sha256)
    return {
        "train": [
            Row(client, client, image) for client, own in enumerate(images or ()) for image in own
        ],
        "test": [],
    }


@functools.lru_cache(maxsize=8)
def _rows(path: str, digest: str) -> dict[str, list[Row]]:
    """Return the rows of each part. Raises UserError, with the line, for what is no row, for an
    image that occurs twice and for a client without training images."""
    rows: dict[str, list[Row]] = {part: [] for part in PARTS}
    first: dict[tuple[str, int], int] = {}
    if len(content := read_input(path, digest)) > MAX_BYTES:
        raise UserError(
            f"{path}: {len(content)} bytes, of which at most {MAX_BYTES} are read. Write a line "
            f"for each image"
        )
    with reading(path):
        table = csv.reader(content.decode("utf-8-sig").splitlines())
        if (header := next(table, [])) not in (["client", "image"], ["client", "image", "part"]):
            raise UserError(
                f"{path}: line 1: expected client,image or client,image,part (got "
                f"{','.join(header)[:60]})"
            )
        for cells in filter(None, table):
            client, image, part = (
                [*cells, "train"][:3] if len(cells) == len(header) else ("", "", "")
            )
            if not (client.isdecimal() and image.isdecimal() and part in PARTS):
                form = f"two whole numbers from 0{', train or test' * (len(header) > 2)}"
                raise UserError(
                    f"{path}: line {table.line_num}: expected {form} (got {','.join(cells)[:60]})"
                )
            if (before := first.setdefault((part, int(image)), table.line_num)) != table.line_num:
                raise UserError(
                    f"{path}: line {table.line_num}: {part} image {int(image)} is on line "
                    f"{before} too"
                )
            rows[part].append(Row(table.line_num, int(client), int(image)))
    if not rows["train"]:
        raise UserError(f"{path}: no train images")
    clients = sorted({row.client for row in rows["train"]})
    without = [place for place, client in enumerate(clients) if place != client][:1]
    without += [row.client for row in rows["test"] if row.client > clients[-1]][:1]
    if without:
        raise UserError(
            f"{path}: client {without[0]} has no train images. Number clients from 0, without gaps"
        )
    return rows
