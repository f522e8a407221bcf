"""Augmentation of training images as batched tensor operations on pixel values 0-255, and the pixel
scaling after it.

Random numbers are drawn on the CPU, so that every device sees the same images; the images are
changed on their own device, without waiting for it. The draws depend on the number and the size of
the images alone, so that they can be drawn in advance.
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
# the defaults of torchvision's RandomResizedCrop
CROP_AREAS, CROP_RATIOS, CROP_TRIES = (0.08, 1.0), (3 / 4, 4 / 3), 10
# of an affine change; angles in both directions
MAX_TURN, MAX_SHEAR, ZOOM_RANGE = math.pi, math.radians(36), (1.0, 9 / 8)


RandomDraws = list[tuple[Tensor, ...]]  # the random numbers of each augmentation


class Augmentation(NamedTuple):
    """An augmentation: `draw` maps (number of images, height, width, generator) to tensors of
    random numbers; `make` applies these to images (B, C, H, W)."""

    draw: Callable[[int, int, int, torch.Generator], tuple[Tensor, ...]]
    make: Callable[..., Tensor]


def apply(images: Tensor, names: tuple[str, ...], random: torch.Generator | RandomDraws) -> Tensor:
    """Apply the named augmentations in the given order to float images (B, C, H, W) in 0-255, with
    random numbers from a generator or drawn before."""
    draws = (
        draw(len(images), images.shape, names, random)
        if isinstance(random, torch.Generator)
        else random
    )
    for name, tensors in zip(names, draws, strict=True):
        images = AUGMENTATIONS[name].make(images, *tensors)
    return images


def draw(
    count: int, shape: tuple[int, ...], names: tuple[str, ...], generator: torch.Generator
) -> RandomDraws:
    """Draw the random numbers of the named augmentations for `count` images of a shape (..., H,
    W)."""
    height, width = shape[-2:]
    return [AUGMENTATIONS[name].draw(count, height, width, generator) for name in names]


def _draw_uniform(low: float, high: float) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function that draws one number per image, (B, 1, 1, 1)."""

    def draw(count: int, height: int, width: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return (
            low
            + (high - low) * torch.rand(count, 1, 1, 1, generator=generator, dtype=torch.float64),
        )

    return draw


def _to_images(drawn: Tensor, images: Tensor) -> Tensor:
    return drawn.to(images.device, images.dtype, non_blocking=True)


def _draw_shifts(
    count: int, height: int, width: int, generator: torch.Generator
) -> tuple[Tensor, ...]:
    return (torch.randint(0, 2 * PADDING + 1, (2, count), generator=generator),)


def _crop(images: Tensor, shift: Tensor, border: str = "constant") -> Tensor:
    """Pad by 4 on each side, with zeros or by torch's padding mode `border`, and crop the original
    size at a random place."""
    count, channels, height, width = images.shape
    padded = F.pad(images, (PADDING,) * 4, mode=border)
    shift = shift.to(images.device, non_blocking=True)
    rows = shift[0][:, None] + torch.arange(height, device=images.device)
    columns = shift[1][:, None] + torch.arange(width, device=images.device)
    picture = torch.arange(count, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[None, :, None, None]
    return padded[picture, channel, rows[:, None, :, None], columns[:, None, None, :]]


def _draw_stretches(
    count: int, height: int, width: int, generator: torch.Generator
) -> tuple[Tensor, ...]:
    (top, rows), (left, columns) = random_boxes(count, height, width, generator)
    return _resize_matrix(height, top, rows), _resize_matrix(width, left, columns)


def _resized_crop(images: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """Crop a random box and resize it to the original size, as torchvision's RandomResizedCrop
    does, but without rounding to whole grey values. Antialiasing is not needed, since a box is
    never larger than the image."""
    return _to_images(down, images) @ images @ _to_images(across, images).mT


def random_boxes(
    count: int, height: int, width: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw a box for each of `count` images: the first of ten random shapes that fits into the
    image, at a random place.

    If none fits, the box is the largest one in the middle of the image that the ratios allow.
    Returns the first row and the number of rows, (2, count), and the same for columns."""
    draws = torch.rand(2, CROP_TRIES, count, generator=generator, dtype=torch.float64)
    area = height * width * (CROP_AREAS[0] + (CROP_AREAS[1] - CROP_AREAS[0]) * draws[0])
    ratio = torch.exp(
        math.log(CROP_RATIOS[0]) + (math.log(CROP_RATIOS[1]) - math.log(CROP_RATIOS[0])) * draws[1]
    )
    whole = min(max(width / height, CROP_RATIOS[0]), CROP_RATIOS[1])
    last_resort = torch.tensor(
        [[min(height, round(width / whole))], [min(width, round(height * whole))]]
    ).expand(2, count)
    tried = torch.stack([(area / ratio).sqrt().round(), (area * ratio).sqrt().round()]).long()
    room = torch.tensor([height, width])[:, None]
    fits = ((tried >= 1) & (tried <= room[:, None])).all(0)
    first = fits.to(torch.uint8).argmax(0)
    size = torch.where(fits.any(0), tried[:, first, torch.arange(count)], last_resort)
    place = (
        torch.rand(2, count, generator=generator, dtype=torch.float64) * (room - size + 1)
    ).long()
    place = torch.where(fits.any(0), place, (room - size) // 2)
    return torch.stack([place[0], size[0]]), torch.stack([place[1], size[1]])


def _resize_matrix(size: int, first: Tensor, length: Tensor) -> Tensor:
    """Return the matrix (B, 1, size, size) that stretches pixels first .. first + length - 1 of a
    line to all its `size` pixels: linear interpolation between pixel centres, without pixels
    outside the range."""
    pixels = torch.arange(size, dtype=torch.float64)
    inside = ((pixels + 0.5) / size * length[:, None] - 0.5).clamp(min=0)
    points = first[:, None] + torch.minimum(inside, length[:, None] - 1)
    return (1 - (points[:, None, :, None] - pixels).abs()).clamp(min=0)


def _draw_halves(
    count: int, height: int, width: int, generator: torch.Generator
) -> tuple[Tensor, ...]:
    return (torch.rand(count, generator=generator),)


def _flip(images: Tensor, draws: Tensor) -> Tensor:
    """Mirror left and right with probability one half."""
    mirrored = draws.to(images.device, non_blocking=True) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)


def _vertical_flip(images: Tensor, draws: Tensor) -> Tensor:
    """Turn upside down with probability one half."""
    return _flip(images.mT, draws).mT


def _draw_inverse_maps(
    count: int, height: int, width: int, generator: torch.Generator
) -> tuple[Tensor, ...]:
    """Draw affine maps (B, 2, 3) from a point of the result to its source: rotation and zoom come
    last, so are undone first."""
    turn, shear, zoom = random_transforms(count, generator)
    unturned = torch.stack(
        [torch.stack([turn.cos(), turn.sin()], 1), torch.stack([-turn.sin(), turn.cos()], 1)], 1
    )
    unsheared = torch.eye(2, dtype=torch.float64).repeat(count, 1, 1)
    unsheared[:, 0, 1] = shear.tan()
    back = unsheared @ unturned / zoom[:, None, None]
    sides = torch.tensor([width, height], dtype=torch.float64)
    back = back * sides / sides[:, None]  # on pixels to on sides from -1 to 1
    return (torch.cat([back, torch.zeros(count, 2, 1, dtype=torch.float64)], 2),)


def _affine(images: Tensor, back: Tensor) -> Tensor:
    """Shear along the rows, rotate and zoom around the middle, with black outside the image and
    nearest-pixel sampling.

    FedMAX's code does so on 288 x 288 pixels, scaled by 8/9 to 1, and crops the middle 256; our
    zoom combines both."""
    places = F.affine_grid(_to_images(back, images), list(images.shape), align_corners=False)
    return F.grid_sample(images, places, mode="nearest", align_corners=False)


def random_transforms(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw for each image the rotation and the shear in radians, and the zoom factor; each
    (count,), float64."""
    draws = torch.rand(3, count, generator=generator, dtype=torch.float64)
    zoom = ZOOM_RANGE[0] + (ZOOM_RANGE[1] - ZOOM_RANGE[0]) * draws[2]
    return MAX_TURN * (2 * draws[0] - 1), MAX_SHEAR * (2 * draws[1] - 1), zoom


def _contrast_jitter(images: Tensor, factor: Tensor) -> Tensor:
    """Scale the contrast around the image's mean grey by a factor from [0, 2] and clip at black and
    white: torchvision's ColorJitter(contrast=1), which FedMAX's code uses for medical images."""
    # of red, green and blue in grey
    shares = torch.tensor([0.2989, 0.587, 0.114] if images.shape[1] == 3 else [1.0])
    grey = (
        (images * shares.to(images, non_blocking=True)[:, None, None])
        .sum(1, keepdim=True)
        .mean((-2, -1), keepdim=True)
    )
    return (grey + (images - grey) * _to_images(factor, images)).clamp(0, 255)


def _brightness(images: Tensor, number: Tensor) -> Tensor:
    """Add a number from [-63, 63] (TensorFlow's CIFAR-10 tutorial, which the FedMMD code
    follows)."""
    return images + _to_images(number, images)


def _contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Scale by a number from [0.2, 1.8] around each channel's mean (the same tutorial)."""
    centre = images.mean((-2, -1), keepdim=True)
    return centre + (images - centre) * _to_images(factor, images)


AUGMENTATIONS = {
    "crop": Augmentation(_draw_shifts, _crop),
    "reflected_crop": Augmentation(_draw_shifts, partial(_crop, border="reflect")),  # FedMA's code
    "resized_crop": Augmentation(_draw_stretches, _resized_crop),
    "flip": Augmentation(_draw_halves, _flip),
    "vertical_flip": Augmentation(_draw_halves, _vertical_flip),
    "affine": Augmentation(_draw_inverse_maps, _affine),
    "brightness": Augmentation(_draw_uniform(-63, 63), _brightness),
    "contrast": Augmentation(_draw_uniform(0.2, 1.8), _contrast),
    "contrast_jitter": Augmentation(_draw_uniform(0, 2), _contrast_jitter),
}


def check(config: RunConfig, channels: int, real: bool) -> None:
    """Raise UserError if the settings are for pixels but the data are `real` numbers, or for
    another number of channels."""
    inputs = config.pixel_scaling
    if real and inputs.name != "raw":
        raise UserError(
            f"pixel_scaling: {config.dataset.name} has real numbers, not pixels: expected raw "
            f"(got {inputs.name})"
        )
    if real and config.augment:
        changes = ", ".join(config.augment)
        raise UserError(
            f"augment: {config.dataset.name} has real numbers, not pixels: expected [] (got "
            f"[{changes}])"
        )
    if inputs.mean and len(inputs.mean) != channels:
        problem = (
            f"pixel_scaling: mean and std: expected a number for each of the {channels} "
            f"channels of {config.dataset.name}"
        )
        raise UserError(f"{problem} (got {len(inputs.mean)})")


def scale(images: Tensor, inputs: PixelScaling, dataset: Dataset) -> Tensor:
    """Convert stored values (B, C, H, W) to network inputs as `pixel_scaling` says; all but `raw`
    are for pixels."""
    return INPUTS[inputs.name](images, inputs, dataset)


def _standardised(images: Tensor, inputs: PixelScaling, dataset: Dataset) -> Tensor:
    """Scale each image to mean 0, standard deviation 1; it is divided by at least 1/sqrt(values),
    as in TensorFlow."""
    values = images[0].numel()
    mean = images.mean((1, 2, 3), keepdim=True)
    deviation = images.std((1, 2, 3), keepdim=True, correction=0)
    return (images - mean) / deviation.clamp(min=values**-0.5)


def _normalised(images: Tensor, inputs: PixelScaling, dataset: Dataset) -> Tensor:
    """Normalise each channel by the settings' mean and standard deviation, or the training
    set's."""
    moments = torch.tensor(
        [inputs.mean or dataset.meta["mean"], inputs.std or dataset.meta["std"]],
        dtype=torch.float64,
    )
    mean, deviation = moments.to(images, non_blocking=True)[:, :, None, None]
    return (images / 255 - mean) / deviation


INPUTS = {
    "raw": lambda images, inputs, dataset: images,
    "unit": lambda images, inputs, dataset: images / 255,  # [0, 1]
    "half": lambda images, inputs, dataset: images / 255 - 0.5,  # [-0.5, 0.5]
    "standardised": _standardised,
    "normalised": _normalised,
}
