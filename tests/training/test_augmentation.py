"""Random changes of images against torchvision's, which our package does not import in training."""

import math
import time

import pytest
import torch
from torch.nn.functional import interpolate
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

from fedrepro.core import rng
from fedrepro.training.batches import augmentation
from fedrepro.training.batches.client_batches import AHEAD, prefetch

SHAPES = [(32, 32), (28, 28), (9, 24), (24, 9), (40, 5)]


def crop(images, seed=0):
    return augmentation.apply(images, ("resized_crop",), rng.generator(seed, "augment"))


def drawn(count, height, width, seed=0):
    """First row, rows, first column, columns, each (count,)."""
    rows, columns = augmentation.random_boxes(count, height, width, rng.generator(seed, "augment"))
    return *rows, *columns


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_same_boxes_give_torchvisions_pictures(height, width):
    """With its antialiasing on or off; it computes in single precision."""
    x = 255 * torch.rand(60, 3, height, width, generator=rng.generator(0, "x"))
    single, double = crop(x), crop(x.double())
    assert single.shape == double.shape == x.shape and (single.dtype, double.dtype) == (
        torch.float32,
        torch.float64,
    )
    for number, (top, rows, left, columns) in enumerate(
        zip(*drawn(60, height, width), strict=True)
    ):
        box = x[number, :, top : top + rows, left : left + columns].double()
        exact = interpolate(box[None], (height, width), mode="bilinear", align_corners=False)[0]
        assert (double[number] - exact).abs().max() < 1e-9 and (
            single[number] - exact
        ).abs().max() < 1e-3
        place = [int(part) for part in (top, left, rows, columns)]
        for antialias in (False, True):
            theirs = functional.resized_crop(
                x[number], *place, size=[height, width], antialias=antialias
            )
            assert (double[number] - theirs).abs().max() < 1e-3


def test_boxes_are_torchvisions_in_distribution():
    """Means of ours and of as many drawn by torchvision, each within five standard errors of the
    other."""
    count, image = 4000, torch.empty(1, 32, 32)
    ours = torch.stack(drawn(count, 32, 32)).double()
    torch.manual_seed(0)
    theirs = v2.RandomResizedCrop(32)
    boxes = [theirs.make_params([image]) for _ in range(count)]
    theirs = torch.tensor(
        [[box[key] for box in boxes] for key in ("top", "height", "left", "width")],
        dtype=torch.float64,
    )
    for one, other in (
        (ours, theirs),
        (ours[1] * ours[3], theirs[1] * theirs[3]),
        (ours[1] / ours[3], theirs[1] / theirs[3]),
    ):
        error = (one.var(-1) / count + other.var(-1) / count).sqrt()
        assert ((one.mean(-1) - other.mean(-1)).abs() < 5 * error).all()
    assert ours[1].min() <= 10 and ours[1].max() == 32


@pytest.mark.parametrize(("height", "width"), [*SHAPES, (7, 7)])
def test_a_box_if_no_try_fits(height, width, monkeypatch):
    monkeypatch.setattr(augmentation, "CROP_AREAS", (9.0, 9.0))
    expected = v2.RandomResizedCrop(1, scale=(9.0, 9.0)).make_params(
        [torch.empty(1, height, width)]
    )
    expected = [expected[key] for key in ("top", "height", "left", "width")]
    assert torch.stack(drawn(3, height, width)).T.tolist() == [expected] * 3


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_same_transforms_give_torchvisions_pictures(height, width):
    """Turn, shear and enlargement; but for the pixels that lie halfway, where rounding decides."""
    x = 1 + 254 * torch.rand(
        40, 3, height, width, generator=rng.generator(0, "x"), dtype=torch.float64
    )
    ours = augmentation.apply(x, ("affine",), rng.generator(0, "augment"))
    angles = [
        part.tolist() for part in augmentation.random_transforms(40, rng.generator(0, "augment"))
    ]
    same = []
    for image, mine, turn, shear, zoom in zip(x, ours, *angles, strict=True):
        theirs = functional.affine(
            image, math.degrees(turn), [0, 0], zoom, [math.degrees(shear), 0]
        )
        same.append((mine == theirs).all(0).double().mean())
    assert torch.stack(same).mean() > 0.99 and torch.stack(same).min() > 0.95


def test_transforms_stay_in_their_ranges():
    turn, shear, zoom = augmentation.random_transforms(4000, rng.generator(0, "augment"))
    for values, low, high in (
        (turn, -math.pi, math.pi),
        (shear, -math.pi / 5, math.pi / 5),
        (zoom, 1, 1.125),
    ):
        assert (
            low <= values.min() < low + 0.01 * (high - low)
            and high - 0.01 * (high - low) < values.max() <= high
        )


@pytest.mark.parametrize("channels", [1, 3])
def test_contrast_jitter_is_torchvisions(channels):
    x = torch.rand(30, channels, 8, 9, generator=rng.generator(0, "x"), dtype=torch.float64)
    ours = augmentation.apply(255 * x, ("contrast_jitter",), rng.generator(0, "augment")) / 255
    factors = 2 * torch.rand(
        30, 1, 1, 1, generator=rng.generator(0, "augment"), dtype=torch.float64
    )
    for image, mine, factor in zip(x, ours, factors, strict=True):
        assert torch.allclose(mine, functional.adjust_contrast(image, float(factor)), atol=1e-6)


def test_half_are_turned_upside_down():
    x = torch.rand(2000, 1, 4, 5, generator=rng.generator(0, "x"))
    turned = augmentation.apply(x, ("vertical_flip",), rng.generator(0, "augment"))
    changed = (turned != x).flatten(1).any(1)
    assert 910 < changed.sum() < 1090 and torch.equal(turned[changed], x[changed].flip(-2))


@pytest.mark.parametrize("name", augmentation.AUGMENTATIONS)
def test_drawn_before_it_is_the_same(name):
    """What the changes of several batches take does not depend on the batches."""
    batches = [
        255 * torch.rand(count, 3, 8, 8, generator=rng.generator(0, "x", count))
        for count in (5, 5, 2)
    ]
    names, one, other = (name, "flip"), rng.generator(1, "augment"), rng.generator(1, "augment")
    drawn = [augmentation.draw(len(batch), batch.shape, names, one) for batch in batches]
    for batch, before in zip(batches, drawn, strict=True):
        assert torch.equal(
            augmentation.apply(batch, names, before), augmentation.apply(batch, names, other)
        )


def test_prefetched_items_come_in_order_and_in_advance():
    made = []
    items = prefetch(made.append(item) or item for item in range(20))
    assert next(items) == 0
    while len(made) < AHEAD:  # a thread makes them
        time.sleep(0.001)
    assert list(items) == list(range(1, 20)) and made == list(range(20))
    assert list(prefetch(iter(()))) == []


def test_prefetch_raises_an_error_in_its_place():
    def items():
        yield from (1, 2)
        raise ValueError("no third")

    found = prefetch(items())
    assert [next(found), next(found)] == [1, 2]
    with pytest.raises(ValueError, match="no third"):
        next(found)
