"""ResNet50 (He et al. 2016) made of torchvision's blocks, as FedMAX fine-tunes it on medical images
(Chen et al. 2020).

23,508,032 weights before the head. The head's inputs, 2048 values, are averages over the last maps.
Weights and biases of batch normalisation are frozen, as in the authors' code; running statistics
follow the data.

pretrained  start from torchvision's ImageNet weights (the first release, IMAGENET1K_V1), which are
downloaded and checked; the
            head is drawn. For grey images the kernels of the three colours are added, which equals
            a grey image in colours.
stages      number of bottleneck blocks in each stage; only ResNet50's numbers have ImageNet
weights.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from pydantic import model_validator
from torch import Tensor, nn

from fedrepro.config.types import Count
from fedrepro.core.errors import UserError
from fedrepro.core.files import check_regular, single_process
from fedrepro.data.datasets._download import NotFound, download
from fedrepro.models._blocks import Block, Head, Shape
from fedrepro.models._net import Net
from fedrepro.models.base import Network

RESNET50 = (3, 4, 6, 3)
NORMALISATIONS = ("*.bn?", "*.downsample.1")  # weights and biases of batch normalisation
# of the ImageNet weights' file
SHA256 = "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a"


class ResNet50(Network):
    pretrained: bool = False
    stages: tuple[Count, Count, Count, Count] = RESNET50
    frozen: tuple[str, ...] = NORMALISATIONS

    @model_validator(mode="after")
    def _check_fixed_options(self) -> "ResNet50":
        if self.norm != "none":
            raise ValueError(
                f"norm: expected none, since ResNet50 has its own batch normalisation (got "
                f"{self.norm})"
            )
        if self.pretrained and (self.width != 1 or self.stages != RESNET50):
            raise ValueError(
                f"pretrained: the ImageNet weights need width 1 and stages {list(RESNET50)}"
            )
        return self

    def blocks(self, outputs: int) -> list[Block | Head]:
        stages = [
            Bottlenecks(
                f"layer{number}", self.scaled(32 * 2**number), depth, 1 if number == 1 else 2
            )
            for number, depth in enumerate(self.stages, 1)
        ]
        return [Stem("stem", self.scaled(64)), *stages, Average("pool"), Head(outputs)]

    def start(self, net: Net) -> None:
        """Load the ImageNet weights if the options ask for them. Raises UserError if that fails."""
        if self.pretrained:
            copy_weights(net, load_imagenet_weights())


@dataclass(frozen=True)
class Stem(Block):
    channels: int

    def layers(self, shape: Shape) -> dict[str, nn.Module]:
        return {
            "conv1": nn.Conv2d(shape[0], self.channels, 7, 2, 3, bias=False),
            "bn1": nn.BatchNorm2d(self.channels),
            "relu": nn.ReLU(),
            "maxpool": nn.MaxPool2d(3, 2, 1),
        }


@dataclass(frozen=True)
class Bottlenecks(Block):
    """A sequence of bottleneck blocks, the first of which changes the size of the maps."""

    width: int
    depth: int
    stride: int

    def layers(self, shape: Shape) -> dict[str, nn.Module]:
        # torch 2.8 cannot import torchvision on "meta", where layers are created
        with torch.device("cpu"):
            bottleneck = torchvision_resnet().Bottleneck
        wide = self.width * bottleneck.expansion
        change = nn.Sequential(
            nn.Conv2d(shape[0], wide, 1, self.stride, bias=False), nn.BatchNorm2d(wide)
        )
        first = bottleneck(shape[0], self.width, self.stride, change)
        return {
            str(place): first if place == 0 else bottleneck(wide, self.width)
            for place in range(self.depth)
        }


@dataclass(frozen=True)
class Average(Block):
    def layers(self, shape: Shape) -> dict[str, nn.Module]:
        return {"avgpool": nn.AdaptiveAvgPool2d(1)}


def torchvision_resnet() -> ModuleType:
    """Import torchvision's module of ResNets; other networks do not need torchvision.

    Raises UserError if it is missing or does not fit this version of torch."""
    try:
        from torchvision.models import resnet
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"model resnet50: torchvision cannot be imported ({error}); install torch and "
            f"torchvision together, from one index"
        ) from None
    return resnet


def imagenet_weights() -> Any:
    """Return torchvision's description of the ImageNet weights."""
    return torchvision_resnet().ResNet50_Weights.IMAGENET1K_V1


def load_imagenet_weights() -> dict[str, Tensor]:
    """Load torchvision's ImageNet weights from torch's cache, downloading them first if they are
    missing.

    Raises UserError if the download fails, or if the file in the cache has another checksum."""
    url = imagenet_weights().url
    path = Path(torch.hub.get_dir(), "checkpoints", url.rpartition("/")[2])
    check_regular(path)
    try:
        if not path.exists():
            with single_process(path.with_name(f".{path.name}.lock")):
                if not path.exists():  # another process may have come first
                    download((url,), path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except (NotFound, OSError) as error:
        raise UserError(
            f"model resnet50: pretrained: cannot get the ImageNet weights from {url} ({error}); "
            f"put that file into {path.parent}, or set pretrained: false"
        ) from None
    if digest != SHA256:
        raise UserError(
            f"model resnet50: pretrained: {path}: not the file of {url}: its SHA-256 begins with "
            f"{digest[:8]}, not {SHA256[:8]}; delete it to download it again"
        )
    return torch.load(path, map_location="cpu", weights_only=True)


def copy_weights(net: Net, weights: dict[str, Tensor]) -> None:
    """Copy `weights`, by torchvision's names, to all layers but the head. Raises UserError if they
    are not ResNet50's.

    Counters of batches may be missing, as they are in the file, which is older than they are."""
    if not isinstance(weights, dict) or not all(
        isinstance(tensor, Tensor) for tensor in weights.values()
    ):
        raise UserError(
            f"model resnet50: pretrained: no dictionary of tensors, unlike the weights of "
            f"{imagenet_weights().url}"
        )
    state = {}
    for name, target in net.extractor.state_dict().items():
        default = torch.zeros_like(target) if name.endswith("num_batches_tracked") else None
        tensor = weights.get(name.removeprefix("stem."), default)
        if tensor is not None and name == "stem.conv1.weight" and target.shape[1] == 1:
            tensor = tensor.sum(1, keepdim=True)
        if tensor is None or tensor.shape != target.shape:
            problem = (
                "missing"
                if tensor is None
                else f"of shape {tuple(tensor.shape)}, not {tuple(target.shape)}"
            )
            raise UserError(
                f"model resnet50: pretrained: {name} is {problem} in the weights of "
                f"{imagenet_weights().url}"
            )
        state[name] = tensor
    net.extractor.load_state_dict(state)
