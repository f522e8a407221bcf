"""Random changes of training images, as batched tensor work on pixel values 0-255, and the scaling that follows them.

A change is drawn on the CPU, so that every device sees the same images, and made on the images' device, which nobody waits for.
What is drawn depends on the number and the size of the images alone, so that it can be drawn before they are there.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from fedrepro.config.params import PixelScaling, RunConfig
from fedrepro.core.errors import UserError
from fedrepro.data.datasets import Dataset

PADDING = 4
AREAS, RATIOS, TRIES = (0.08, 1.0), (3 / 4, 4 / 3), 10  # of a resized crop; the defaults of torchvision's RandomResizedCrop
TURN, SHEAR, ZOOM = math.pi, math.radians(36), (1.0, 9 / 8)  # of an affine change; angles up to, to both sides


Drawn = list[tuple[Tensor, ...]]  # of every change


class Augmentation(NamedTuple):
    """`draw`: (number of images, height, width, generator) -> tensors; `make`: (images (B, C, H, W), those) -> images."""

    draw: Callable[[int, int, int, torch.Generator], tuple[Tensor, ...]]
    make: Callable[..., Tensor]


def apply(images: Tensor, names: tuple[str, ...], random: torch.Generator | Drawn) -> Tensor:
    """The named changes in the given order, from a generator or from what was drawn from one; images (B, C, H, W), float,
    0-255."""
    drawn = draw(len(images), images.shape, names, random) if isinstance(random, torch.Generator) else random
    for name, tensors in zip(names, drawn, strict=True):
        images = AUGMENTATIONS[name].make(images, *tensors)
    return images


def draw(count: int, shape: tuple[int, ...], names: tuple[str, ...], generator: torch.Generator) -> Drawn:
    """What the named changes take, of so many images of a shape (..., H, W)."""
    return [AUGMENTATIONS[name].draw(count, *shape[-2:], generator) for name in names]


def _uniform(low: float, high: float) -> Callable[..., tuple[Tensor, ...]]:
    """One number per image, (B, 1, 1, 1)."""

    def draw(count: int, height: int, width: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return (low + (high - low) * torch.rand(count, 1, 1, 1, generator=generator, dtype=torch.float64),)

    return draw


def _there(drawn: Tensor, images: Tensor) -> Tensor:
    return drawn.to(images.device, images.dtype, non_blocking=True)


def _shifts(count: int, height: int, width: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randint(0, 2 * PADDING + 1, (2, count), generator=generator),)


def _crop(images: Tensor, shift: Tensor, border: str = "constant") -> Tensor:
    """Pad by 4 on each side, with zeros or as `border` has it in torch, and cut the original size out at a random place."""
    count, channels, height, width = images.shape
    padded = F.pad(images, (PADDING,) * 4, mode=border)
    shift = shift.to(images.device, non_blocking=True)
    rows = shift[0][:, None] + torch.arange(height, device=images.device)
    columns = shift[1][:, None] + torch.arange(width, device=images.device)
    picture = torch.arange(count, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[None, :, None, None]
    return padded[picture, channel, rows[:, None, :, None], columns[:, None, None, :]]


def _stretches(count: int, height: int, width: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    boxed = zip((height, width), boxes(count, height, width, generator), strict=True)
    return tuple(_stretch(size, *box) for size, box in boxed)


def _resized_crop(images: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """Cut out a random box and bring it back to the original size: torchvision's RandomResizedCrop without the rounding to
    whole grey values that it does on pictures. Its antialiasing has no effect where a box is never larger than the image."""
    return _there(down, images) @ images @ _there(across, images).mT


def boxes(count: int, height: int, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """First row and number of rows (2, count), first column and number of columns: the first of ten random shapes that fits
    into the image, at a random place; where none fits, the middle of the image, as much of it as the ratios allow."""
    draws = torch.rand(2, TRIES, count, generator=generator, dtype=torch.float64)
    area = height * width * (AREAS[0] + (AREAS[1] - AREAS[0]) * draws[0])
    ratio = torch.exp(math.log(RATIOS[0]) + (math.log(RATIOS[1]) - math.log(RATIOS[0])) * draws[1])
    whole = min(max(width / height, RATIOS[0]), RATIOS[1])
    last_resort = torch.tensor([[min(height, round(width / whole))], [min(width, round(height * whole))]]).expand(2, count)
    tried = torch.stack([(area / ratio).sqrt().round(), (area * ratio).sqrt().round()]).long()
    room = torch.tensor([height, width])[:, None]
    fits = ((tried >= 1) & (tried <= room[:, None])).all(0)
    first = fits.to(torch.uint8).argmax(0)
    size = torch.where(fits.any(0), tried[:, first, torch.arange(count)], last_resort)
    place = (torch.rand(2, count, generator=generator, dtype=torch.float64) * (room - size + 1)).long()
    place = torch.where(fits.any(0), place, (room - size) // 2)
    return torch.stack([place[0], size[0]]), torch.stack([place[1], size[1]])


def _stretch(size: int, first: Tensor, length: Tensor) -> Tensor:
    """(B, 1, size, size): what each of `size` points takes of each of `size` pixels, so that pixels first .. first + length - 1
    fill the line: linear between their centres, nothing from outside."""
    pixels = torch.arange(size, dtype=torch.float64)
    inside = ((pixels + 0.5) / size * length[:, None] - 0.5).clamp(min=0)
    points = first[:, None] + torch.minimum(inside, length[:, None] - 1)
    return (1 - (points[:, None, :, None] - pixels).abs()).clamp(min=0)


def _halves(count: int, height: int, width: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.rand(count, generator=generator),)


def _flip(images: Tensor, draws: Tensor) -> Tensor:
    """Mirror left and right with probability one half."""
    mirrored = draws.to(images.device, non_blocking=True) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)


def _vertical_flip(images: Tensor, draws: Tensor) -> Tensor:
    """Turn upside down with probability one half."""
    return _flip(images.mT, draws).mT


def _ways_back(count: int, height: int, width: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """(B, 2, 3): from a point of the outcome back to where it was: turned and enlarged last, so undone first."""
    turn, shear, zoom = transforms(count, generator)
    unturned = torch.stack([torch.stack([turn.cos(), turn.sin()], 1), torch.stack([-turn.sin(), turn.cos()], 1)], 1)
    unsheared = torch.eye(2, dtype=torch.float64).repeat(count, 1, 1)
    unsheared[:, 0, 1] = shear.tan()
    back = unsheared @ unturned / zoom[:, None, None]
    sides = torch.tensor([width, height], dtype=torch.float64)
    back = back * sides / sides[:, None]  # on pixels to on sides from -1 to 1
    return (torch.cat([back, torch.zeros(count, 2, 1, dtype=torch.float64)], 2),)


def _affine(images: Tensor, back: Tensor) -> Tensor:
    """Shear along the rows, turn and enlarge around the middle; black comes in from outside, a point takes the nearest pixel.
    FedMAX's code does it on 288 x 288 pixels, scaled by 8/9 to 1, and cuts the middle 256 out; that zoom is of the whole."""
    places = F.affine_grid(_there(back, images), list(images.shape), align_corners=False)
    return F.grid_sample(images, places, mode="nearest", align_corners=False)


def transforms(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Of each image: angle of the turn and of the shear in radians, enlargement; each (count,), float64."""
    draws = torch.rand(3, count, generator=generator, dtype=torch.float64)
    return TURN * (2 * draws[0] - 1), SHEAR * (2 * draws[1] - 1), ZOOM[0] + (ZOOM[1] - ZOOM[0]) * draws[2]


def _contrast_jitter(images: Tensor, factor: Tensor) -> Tensor:
    """Mix with the image's mean grey, from nothing of the image to twice its contrast, and cut off at black and white:
    torchvision's ColorJitter(contrast=1), as FedMAX's code has it for medical images."""
    shares = torch.tensor([0.2989, 0.587, 0.114] if images.shape[1] == 3 else [1.0])  # of red, green and blue in grey
    grey = (images * shares.to(images, non_blocking=True)[:, None, None]).sum(1, keepdim=True).mean((-2, -1), keepdim=True)
    return (grey + (images - grey) * _there(factor, images)).clamp(0, 255)


def _brightness(images: Tensor, number: Tensor) -> Tensor:
    """Add a number from [-63, 63] (TensorFlow's CIFAR-10 tutorial, which the FedMMD code follows)."""
    return images + _there(number, images)


def _contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Scale by a number from [0.2, 1.8] around each channel's mean (the same tutorial)."""
    centre = images.mean((-2, -1), keepdim=True)
    return centre + (images - centre) * _there(factor, images)


AUGMENTATIONS = {
    "crop": Augmentation(_shifts, _crop),
    "reflected_crop": Augmentation(_shifts, partial(_crop, border="reflect")),  # FedMA's code
    "resized_crop": Augmentation(_stretches, _resized_crop),
    "flip": Augmentation(_halves, _flip),
    "vertical_flip": Augmentation(_halves, _vertical_flip),
    "affine": Augmentation(_ways_back, _affine),
    "brightness": Augmentation(_uniform(-63, 63), _brightness),
    "contrast": Augmentation(_uniform(0.2, 1.8), _contrast),
    "contrast_jitter": Augmentation(_uniform(0, 2), _contrast_jitter),
}


def check(config: RunConfig, channels: int, real: bool) -> None:
    """Raises UserError where the settings are made for pixels and the data are real numbers, or for other channels."""
    inputs = config.pixel_scaling
    if real and inputs.name != "raw":
        raise UserError(
            f"pixel_scaling: {config.dataset.name} holds real numbers, not pixels 0-255: only raw (got {inputs.name})"
        )
    if real and config.augment:
        changes = ", ".join(config.augment)
        raise UserError(f"augment: {config.dataset.name} holds real numbers, not pixels 0-255: only [] (got [{changes}])")
    if inputs.mean and len(inputs.mean) != channels:
        told = f"pixel_scaling: mean and std need a number for each channel of {config.dataset.name}, {channels}"
        raise UserError(f"{told} (got {len(inputs.mean)})")


def scale(images: Tensor, inputs: PixelScaling, dataset: Dataset) -> Tensor:
    """Values as they are stored (B, C, H, W) to what the network sees, by the setting `inputs`; all but raw are for pixels."""
    return INPUTS[inputs.name](images, inputs, dataset)


def _standardised(images: Tensor, inputs: PixelScaling, dataset: Dataset) -> Tensor:
    """Each image to mean 0, deviation 1 (at least 1/sqrt(values), as TensorFlow)."""
    values = images[0].numel()
    mean = images.mean((1, 2, 3), keepdim=True)
    deviation = images.std((1, 2, 3), keepdim=True, correction=0)
    return (images - mean) / deviation.clamp(min=values**-0.5)


def _normalised(images: Tensor, inputs: PixelScaling, dataset: Dataset) -> Tensor:
    """By mean and deviation per channel, those given or the train set's."""
    moments = [inputs.mean or dataset.meta["mean"], inputs.std or dataset.meta["std"]]
    known = torch.tensor(moments, dtype=torch.float64)
    mean, deviation = known.to(images, non_blocking=True)[:, :, None, None]
    return (images / 255 - mean) / deviation


INPUTS = {
    "raw": lambda images, inputs, dataset: images,
    "unit": lambda images, inputs, dataset: images / 255,  # [0, 1]
    "half": lambda images, inputs, dataset: images / 255 - 0.5,  # [-0.5, 0.5]
    "standardised": _standardised,
    "normalised": _normalised,
}
