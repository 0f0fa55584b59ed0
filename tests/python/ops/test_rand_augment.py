# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""RandAugment against its changes made with Pillow, as torchvision makes them."""

import itertools
import math

import numpy as np
import pytest
import torch
from decoders import encoded, needs_decoders

import torch_distinput as tdi
from torch_distinput.testing import assert_paths_agree, assert_resumable

Image = pytest.importorskip("PIL.Image")
ImageEnhance = pytest.importorskip("PIL.ImageEnhance")
ImageOps = pytest.importorskip("PIL.ImageOps")


def sample_image(width: int, height: int, seed: int = 0):
    values = np.random.default_rng(seed).integers(0, 200, (3, 4, 3), dtype=np.uint8)
    smooth = Image.fromarray(values).resize((width, height), Image.Resampling.BICUBIC)
    noise = np.random.default_rng(seed + 1).integers(0, 30, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(np.asarray(smooth) // 8 * 7 + noise)


def as_tensor(image) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)


def changes(image, magnitude: int, bins: int) -> list:
    """What each of RandAugment's 14 changes makes of `image`, with both signs where there is one."""
    width, height = image.size

    def part(first: float, last: float) -> float:
        return float(torch.linspace(first, last, bins)[magnitude])

    def moved(*numbers: float):
        return image.transform(image.size, Image.Transform.AFFINE, numbers, Image.Resampling.NEAREST)

    def both(change, most: float) -> list:
        return [change(sign * part(0.0, most)) for sign in (1, -1)]

    enhancers = (ImageEnhance.Brightness, ImageEnhance.Color, ImageEnhance.Contrast, ImageEnhance.Sharpness)
    bits = int((8 - torch.arange(bins) / ((bins - 1) / 4)).round()[magnitude])
    return [
        image,
        *both(lambda m: moved(1, math.tan(math.atan(m)), 0, 0, 1, 0), 0.3),
        *both(lambda m: moved(1, 0, 0, math.tan(math.atan(m)), 1, 0), 0.3),
        *both(lambda m: moved(1, 0, -int(m), 0, 1, 0), 150.0 / 331.0 * width),
        *both(lambda m: moved(1, 0, 0, 0, 1, -int(m)), 150.0 / 331.0 * height),
        *both(lambda m: image.rotate(m, Image.Resampling.NEAREST), 30.0),
        *(changed for kind in enhancers for changed in both(lambda m, kind=kind: kind(image).enhance(1 + m), 0.9)),
        ImageOps.posterize(image, bits),
        ImageOps.solarize(image, 255 * part(1.0, 0.0)),
        ImageOps.autocontrast(image),
        ImageOps.equalize(image),
    ]


def contents(images) -> set[bytes]:
    return {image.tobytes() for image in images}


def augmented(image, count: int, **arguments: int) -> list:
    rows = tdi.Dataset.from_tensor_slices(as_tensor(image).unsqueeze(0).repeat(count, 1, 1, 1))
    rows = rows.rand_augment(**arguments).with_options(tdi.Options(seed=3))
    return [Image.fromarray(row.permute(1, 2, 0).numpy()) for row in rows]


@pytest.mark.parametrize("magnitude, bins", [(0, 31), (1, 31), (9, 31), (14, 31), (20, 31), (30, 31), (1, 2), (7, 10)])
@pytest.mark.parametrize("size", [(23, 17), (40, 64)])
def test_every_change_is_that_of_pillow(magnitude, bins, size):
    image = sample_image(*size, seed=magnitude)
    found = contents(augmented(image, 400, num_ops=1, magnitude=magnitude, num_magnitude_bins=bins))
    assert found == contents(changes(image, magnitude, bins))


def test_changes_follow_each_other():
    image = sample_image(20, 16)
    pairs = contents(itertools.chain.from_iterable(changes(first, 12, 31) for first in changes(image, 12, 31)))
    found = contents(augmented(image, 300, num_ops=2, magnitude=12))
    assert found <= pairs and len(found) > 100
    assert contents(augmented(image, 3, num_ops=0)) == {image.tobytes()}


FEW_VALUES = (
    [7] * 64,
    [0] * 60 + [255] * 4,
    [10, 10, 10, 200] * 16,
    [3] * 400 + [90] * 300 + [100] * 420 + [250] * 480,
)


@pytest.mark.parametrize("values", FEW_VALUES)
def test_few_values_are_as_in_pillow(values):
    side = math.isqrt(len(values))
    grey = np.array(values, dtype=np.uint8).reshape(side, side)
    image = Image.fromarray(np.stack([grey, 255 - grey, grey // 2], -1))
    found = contents(augmented(image, 300, num_ops=1, magnitude=9))
    assert found == contents(changes(image, 9, 31))


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (2, 3)])
def test_images_of_few_pixels_are_as_in_pillow(size):
    image = sample_image(*size)
    assert contents(augmented(image, 300, num_ops=1)) == contents(changes(image, 9, 31))


@needs_decoders
def test_laws():
    files = [encoded(sample_image(40 + seed, 50 - seed, seed), "JPEG" if seed % 2 else "PNG") for seed in range(7)]
    rows = tdi.Dataset.from_tensor_slices(files).decode_image()
    images = rows.rand_augment(3).random_crop(24).rand_augment(magnitude=20).with_options(tdi.Options(seed=5))
    assert_resumable(images.shuffle(seed=1).batch(3))
    assert_paths_agree(images.batch(3))


def test_masks_and_boxes_cannot_follow():
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    rows = tdi.Dataset.from_tensor_slices({"image": images, "mask": images[:, 0], "boxes": torch.zeros(2, 1, 4)})
    for targets in ({"masks": "mask"}, {"boxes": "boxes"}):
        declared = rows.with_image_targets(**targets, key="image")
        with pytest.raises(ValueError, match="rand_augment: masks and boxes cannot follow the image"):
            declared.rand_augment(key="image")
        declared.with_image_targets(key="image").rand_augment(key="image")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((-1,), "`num_ops` must be in \\[0, 64\\], but is -1."),
        ((65,), "`num_ops` must be in \\[0, 64\\], but is 65."),
        ((2, 31), "`magnitude` must be in \\[0, 30\\], but is 31."),
        ((2, -1), "`magnitude` must be in \\[0, 30\\], but is -1."),
        ((2, 0, 1), "`num_magnitude_bins` must be in \\[2, 1024\\], but is 1."),
        ((2.5,), "`num_ops` must be an int"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(arguments, message):
    images = tdi.Dataset.from_tensor_slices(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises((ValueError, TypeError), match="rand_augment: " + message):
        images.rand_augment(*arguments)


def test_grey_images_are_an_error_where_colours_change():
    rows = tdi.Dataset.from_tensor_slices(torch.zeros(20, 1, 8, 8, dtype=torch.uint8)).rand_augment()
    with pytest.raises(tdi.InvalidArgumentError, match="rand_augment.*row.*colours need 3 channels"):
        list(rows)
