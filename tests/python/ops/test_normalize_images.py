# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`normalize_images` against a plain reference, for all dtypes and layouts."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.testing import assert_paths_agree, assert_resumable

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def reference(images: torch.Tensor, mean: list[float], std: list[float]) -> torch.Tensor:
    """Images [..., height, width, channels] normalized, channels first. Products and sums of so few bits are exact in
    float64, so that the only rounding is the one at the end, as in a fused multiply-add."""
    scale = np.array([np.float32(1 / (255 * s)) for s in std], dtype=np.float64)
    shift = np.array([np.float32(-m / s) for m, s in zip(mean, std, strict=True)], dtype=np.float64)
    values = (images.numpy().astype(np.float64) * scale + shift).astype(np.float32)
    return torch.from_numpy(np.moveaxis(values, -1, -3).copy())


@given(
    rows=st.integers(0, 5),
    frames=st.lists(st.integers(1, 3), max_size=1),
    height=st.integers(1, 6),
    width=st.integers(1, 40),
    channels=st.integers(1, 4),
    planes=st.booleans(),
    last=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    seed=st.integers(0, 99),
)
def test_every_value_is_that_of_the_reference(rows, frames, height, width, channels, planes, last, dtype, seed):
    torch.manual_seed(seed)
    if planes and width == channels:
        width += 1
    images = torch.randint(0, 256, (rows, *frames, height, width, channels), dtype=torch.uint8)
    mean, std = torch.rand(channels).tolist(), (torch.rand(channels) + 0.1).tolist()
    given_as = images.movedim(-1, -3).contiguous() if planes else images
    layout = "NHWC" if last else "NCHW"
    dataset = tdi.Dataset.from_tensor_slices(given_as).batch(8).normalize_images(mean, std, dtype, layout)
    expected = reference(images, mean, std).to(dtype)
    for batch in dataset:
        assert torch.equal(batch, expected.movedim(-3, -1) if last else expected)


def test_over_replicas_each_gets_its_rows():
    images = torch.randint(0, 256, (10, 4, 5, 3), dtype=torch.uint8)
    dataset = tdi.Dataset.from_tensor_slices({"x": images, "y": torch.arange(10)}).batch(4).normalize_images(MEAN, STD)
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    parts = [part for step in strategy.distribute_dataset(dataset) for part in step["x"].values]
    assert torch.equal(torch.cat(parts), reference(images, MEAN, STD))


def test_laws():
    images = torch.randint(0, 256, (7, 4, 5, 3), dtype=torch.uint8)
    rows = tdi.Dataset.from_tensor_slices(images)
    for dataset in (
        rows.batch(3).normalize_images(MEAN, STD),
        rows.shuffle(seed=3).normalize_images(MEAN, STD).batch(3),
        rows.filter(lambda x: True).batch(2).normalize_images(MEAN, STD),
    ):
        assert_resumable(dataset)
    assert_paths_agree(rows.batch(3).normalize_images(MEAN, STD))
    assert_paths_agree(rows.normalize_images(MEAN, STD).batch(3))


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_threads_change_nothing(threads):
    images = torch.randint(0, 256, (40, 40, 40, 3), dtype=torch.uint8)
    dataset = tdi.Dataset.from_tensor_slices(images).batch(20).normalize_images(MEAN, STD)
    result = torch.cat(list(dataset.with_options(tdi.Options(num_threads=threads))))
    assert torch.equal(result, reference(images, MEAN, STD))


def test_the_spec_tells_dtype_and_dims():
    dataset = tdi.Dataset.from_tensor_slices(torch.zeros(4, 6, 5, 3, dtype=torch.uint8)).batch(2, drop_remainder=True)
    spec = dataset.normalize_images(MEAN, STD, torch.bfloat16).element_spec
    assert spec == tdi.TensorSpec((2, 3, 6, 5), torch.bfloat16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "normalize_images: `mean` must have an entry for each channel, but is empty."),
        (([0.5], [0.0]), "normalize_images: `std` must be positive, but one entry is 0."),
        ((MEAN, STD, torch.float64), "normalize_images: `dtype` must be float32, float16 or bfloat16, but is float64."),
        ((MEAN, STD, torch.float32, "CHW"), 'normalize_images: `layout` must be "NCHW" or "NHWC", but is "CHW".'),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    dataset = tdi.Dataset.from_tensor_slices(torch.zeros(4, 6, 5, 3, dtype=torch.uint8))
    with pytest.raises(ValueError) as error:
        dataset.normalize_images(*arguments)
    assert str(error.value) == message


def test_images_of_other_channels_are_refused_when_they_are_read():
    images = iter([torch.zeros(4, 5, 2, dtype=torch.uint8)])
    spec = tdi.TensorSpec((None, None, None), torch.uint8)
    dataset = tdi.Dataset.from_generator(lambda: images, spec).normalize_images(MEAN, STD)
    with pytest.raises(ValueError, match=r"3 entries, one for each channel, but the element of shape \(4, 5, 2\)"):
        list(dataset)
