"""Random changes of training images, as batched tensor work on pixel values 0-255, and the scaling that follows them.

`apply(images, names, generator)` draws on the CPU from the given generator, so that every device sees the same images.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from fedrepro.datasets import Dataset

PADDING = 4


def apply(images: Tensor, names: tuple[str, ...], generator: torch.Generator) -> Tensor:
    """The named changes in the given order; images (B, C, H, W), float, 0-255."""
    for name in names:
        images = CHANGES[name](images, generator)
    return images


def _uniform(images: Tensor, low: float, high: float, generator: torch.Generator) -> Tensor:
    """One number per image, (B, 1, 1, 1)."""
    draws = torch.rand(len(images), 1, 1, 1, generator=generator, dtype=torch.float64)
    return (low + (high - low) * draws).to(images.device, images.dtype)


def _crop(images: Tensor, generator: torch.Generator) -> Tensor:
    """Pad with zeros by 4 on each side, cut the original size out at a random place."""
    count, channels, height, width = images.shape
    padded = F.pad(images, (PADDING,) * 4)
    shift = torch.randint(0, 2 * PADDING + 1, (2, count), generator=generator).to(images.device)
    rows = shift[0][:, None] + torch.arange(height, device=images.device)
    columns = shift[1][:, None] + torch.arange(width, device=images.device)
    picture = torch.arange(count, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[None, :, None, None]
    return padded[picture, channel, rows[:, None, :, None], columns[:, None, None, :]]


def _flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror left and right with probability one half."""
    mirrored = torch.rand(len(images), generator=generator).to(images.device) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)


def _brightness(images: Tensor, generator: torch.Generator) -> Tensor:
    """Add a number from [-63, 63] (TensorFlow's CIFAR-10 tutorial, which the FedMMD code follows)."""
    return images + _uniform(images, -63, 63, generator)


def _contrast(images: Tensor, generator: torch.Generator) -> Tensor:
    """Scale by a number from [0.2, 1.8] around each channel's mean (the same tutorial)."""
    centre = images.mean((-2, -1), keepdim=True)
    return centre + (images - centre) * _uniform(images, 0.2, 1.8, generator)


CHANGES = {"crop": _crop, "flip": _flip, "brightness": _brightness, "contrast": _contrast}


def scale(images: Tensor, inputs: str, dataset: Dataset) -> Tensor:
    """Pixel values 0-255 (B, C, H, W) to what the network sees.

    unit: [0, 1]; half: [-0.5, 0.5]; standardised: each image to mean 0, deviation 1 (at least 1/sqrt(values), as TensorFlow);
    normalised: by the train set's mean and deviation per channel.
    """
    if inputs == "unit":
        return images / 255
    if inputs == "half":
        return images / 255 - 0.5
    if inputs == "standardised":
        values = images[0].numel()
        mean = images.mean((1, 2, 3), keepdim=True)
        deviation = images.std((1, 2, 3), keepdim=True, correction=0)
        return (images - mean) / deviation.clamp(min=values**-0.5)
    mean, deviation = (images.new_tensor(dataset.meta[key])[:, None, None] for key in ("mean", "std"))
    return (images / 255 - mean) / deviation
