"""Synthetic devices whose differences grow with `alpha` and `beta`: Chen et al. 2021 (FedMAX), Fig.
2, from their code. It follows Li et al. 2020 (FedProx), where variances are (j + 1)^-1.2 and labels
come from a linear network.

A device draws u ~ N(0, alpha) and b ~ N(0, beta), where alpha and beta are standard deviations. Its
inputs are x ~ N(v, S): v has entries ~ N(b, 1), S is diagonal with S_00 = 1, S_jj = j^-1.2. Their
labels are the argmax of the device's own two-layer ReLU network, all of whose weights and biases
are ~ N(u, 1). Inputs are stored as images, (N, 1, side, side) float32.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, model_validator

from fedrepro.config.types import Count, Frozen, NonNegative
from fedrepro.core import rng
from fedrepro.data.datasets._formats import Arrays
from fedrepro.data.datasets.source import Contents, DataSource

CLASSES = tuple("0123456789")
MAX_NUMBERS = 1 << 30  # in memory at once: 4 GiB of inputs


def _finite(value: float) -> float:
    if value > 1e6:
        raise ValueError("at most 1e6, far beyond which numbers do not stay finite")
    return value


Deviation = Annotated[NonNegative, AfterValidator(_finite)]


class Params(Frozen):
    alpha: Deviation = 0.0  # how much the devices' networks differ
    beta: Deviation = 0.0  # how much their inputs differ
    devices: Count = 10
    train: Count = 5000  # of each device
    test: Count = 1000
    side: Count = 32
    hidden: Count = 512  # units of the networks that draw the labels

    @model_validator(mode="after")
    def _fits_memory(self) -> "Params":
        each, inputs = self.train + self.test, self.side**2
        if (
            numbers := max(self.devices * each * inputs, (each + inputs) * self.hidden)
        ) > MAX_NUMBERS:
            raise ValueError(
                f"devices, train, test, side and hidden: at most {MAX_NUMBERS} numbers at once "
                f"(got {numbers})"
            )
        return self


def read(raw: Path, params: Params) -> Arrays:
    devices = [_device(params, number) for number in range(params.devices)]
    parts: list[np.ndarray] = []
    for part in (slice(params.train), slice(params.train, None)):
        parts += [
            np.concatenate([array[part] for array in arrays])
            for arrays in zip(*devices, strict=True)
        ]
    owners = [np.repeat(np.arange(params.devices), count) for count in (params.train, params.test)]
    return *parts, *owners


def _device(params: Params, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs (N, 1, side, side) and labels (N,) of a device, training images first."""
    draw, inputs = rng.numpy_generator(0, "synthetic", client=number), params.side**2
    u, b = draw.normal(0, params.alpha), draw.normal(0, params.beta)
    v = draw.normal(b, 1, inputs)
    first, first_bias = draw.normal(u, 1, (inputs, params.hidden)), draw.normal(u, 1, params.hidden)
    second, second_bias = (
        draw.normal(u, 1, (params.hidden, len(CLASSES))),
        draw.normal(u, 1, len(CLASSES)),
    )
    deviations = np.maximum(np.arange(inputs), 1) ** -0.6  # square roots of the variances
    x = (v + deviations * draw.standard_normal((params.train + params.test, inputs))).astype(
        np.float32
    )
    logits = np.maximum(x.astype(np.float64) @ first + first_bias, 0) @ second + second_bias
    return x.reshape(-1, 1, params.side, params.side), logits.argmax(1)


QUICK = {"devices": 5, "train": 200, "test": 40, "side": 8, "hidden": 32}
CHECKSUMS = dict(
    (  # of the options that our papers use
        (
            Params(alpha=0, beta=0),
            "4d1184704adea8392b84a4377acfb326bb7f6718ce692a956fc02bfb24068cc7",
        ),
        (
            Params(alpha=0.5, beta=0.5),
            "fb1491398585ac2df0f65fa87f2507d9bc088558a4345ff60ede71dd710466d8",
        ),
        (
            Params(alpha=1, beta=1),
            "b49af67541fe547be994bca0d892a7ef946a0861ae09398cbc464c7d0e567892",
        ),
        (
            Params(alpha=0, beta=0, **QUICK),
            "e7c098866b9babde3c5bd19d52129b4363a3a797853c38b4f7b266290cde4e1f",
        ),
        (
            Params(alpha=0.5, beta=0.5, **QUICK),
            "15967dcf0815ddf442a93c92f1d8cd9d0f04087a239b80e30df2e41951b03133",
        ),
        (
            Params(alpha=1, beta=1, **QUICK),
            "4c9c1d9c03267e32e6408dcee3df7b782d8bcce9a2e038784b90bcfd03f89042",
        ),
    )
)
SOURCES = {
    "synthetic": DataSource(
        title="synthetic devices ({alpha:g}, {beta:g})",
        about="Synthetic devices whose differences grow with `alpha` and `beta`: Chen et al. 2021 "
        "(FedMAX), Fig. 2, from their code.",
        source="drawn",
        options=Params,
        contents=lambda options: Contents(
            *(
                (1, options.side, options.side),
                options.devices * options.train,
                options.devices * options.test,
            ),
            *(CLASSES, True, True),
        ),
        checksums=CHECKSUMS,
        read=read,
    )
}
