# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Masks and boxes follow their image: against Pillow, a model of the coordinates, and the image itself."""

import numpy as np
import pytest
import torch
from decoders import encoded, needs_decoders
from hypothesis import given, settings
from hypothesis import strategies as st
from masks_and_boxes import FORMATS, coordinates, dataset, one, png, random_boxes

import torch_distinput as tdi

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")

DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64)


class Reference:
    """One mask and its boxes, changed by Pillow and by torchvision's formulas."""

    def __init__(self, mask: np.ndarray, boxes: torch.Tensor, box_format: str):
        self.mask, self.boxes, self.format = Image.fromarray(mask), boxes.clone(), box_format

    def _clamp(self):
        numbers = self.boxes.double()
        x, y, w, h = numbers.unbind(1)
        corners = {
            "XYXY": [x, y, w, h],
            "XYWH": [x, y, x + w, y + h],
            "CXCYWH": [x - w / 2, y - h / 2, x + w / 2, y + h / 2],
        }[self.format]
        sizes = (self.mask.width, self.mask.height) * 2
        left, top, right, bottom = (c.clamp(0, size) for c, size in zip(corners, sizes, strict=True))
        numbers = {
            "XYXY": [left, top, right, bottom],
            "XYWH": [left, top, right - left, bottom - top],
            "CXCYWH": [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top],
        }[self.format]
        self.boxes = torch.stack(numbers, 1).to(self.boxes.dtype)

    def _shift(self, x, y):
        by = [x, y, x, y] if self.format == "XYXY" else [x, y, 0, 0]
        self.boxes = self.boxes + torch.tensor(by, dtype=self.boxes.dtype)

    def _mirror(self, dim, size):
        first, second = self.boxes[:, dim].clone(), self.boxes[:, dim + 2].clone()
        if self.format == "XYXY":
            self.boxes[:, dim], self.boxes[:, dim + 2] = size - second, size - first
        else:
            self.boxes[:, dim] = size - (first + second if self.format == "XYWH" else first)

    def resize(self, height, width):
        dtype = torch.float64 if self.boxes.dtype == torch.float64 else torch.float32
        factors = torch.tensor([width / self.mask.width, height / self.mask.height] * 2, dtype=dtype)
        self.boxes = (self.boxes * factors).to(self.boxes.dtype)
        self.mask = self.mask.resize((width, height), Image.Resampling.NEAREST)

    def crop(self, left, top, width, height):
        self.mask = self.mask.crop((left, top, left + width, top + height))
        self._shift(-left, -top)
        self._clamp()

    def pad(self, left, top, right, bottom):
        self.mask = ImageOps.expand(self.mask, (left, top, right, bottom), 0)
        self._shift(left, top)
        self._clamp()

    def center_crop(self, height, width):
        missing = max(0, width - self.mask.width), max(0, height - self.mask.height)
        if any(missing):
            self.pad(*(m // 2 for m in missing), *(m - m // 2 for m in missing))
        self.crop(round((self.mask.width - width) / 2), round((self.mask.height - height) / 2), width, height)

    def horizontal_flip(self):
        self._mirror(0, self.mask.width)
        self.mask = self.mask.transpose(Image.Transpose.FLIP_LEFT_RIGHT)

    def vertical_flip(self):
        self._mirror(1, self.mask.height)
        self.mask = self.mask.transpose(Image.Transpose.FLIP_TOP_BOTTOM)

    def rotate90(self, k):
        for _ in range(k % 4):
            width = self.mask.width
            self.boxes = self.boxes[:, [1, 0, 3, 2]]
            self._mirror(1, width)
            self.mask = self.mask.transpose(Image.Transpose.ROTATE_90)


side = st.integers(1, 30)
steps = st.one_of(
    st.tuples(st.just("resize"), side, side),
    st.tuples(st.just("center_crop"), side, side),
    st.tuples(st.just("pad"), *[st.integers(0, 5)] * 4),
    st.tuples(st.just("horizontal_flip")),
    st.tuples(st.just("vertical_flip")),
    st.tuples(st.just("rotate90"), st.integers(-1, 5)),
    st.tuples(st.just("color_jitter")),
)


def applied(rows: tdi.Dataset, step, args) -> tdi.Dataset:
    if step in ("resize", "center_crop", "pad"):
        return getattr(rows, step)(args, **({"fill": 9} if step == "pad" else {}))
    if step == "color_jitter":
        return rows.color_jitter(0.3)
    return getattr(rows, step)(args[0] if args else 1.0)


@settings(max_examples=60)
@given(
    side,
    side,
    st.lists(steps, max_size=5),
    st.sampled_from(FORMATS),
    st.sampled_from(DTYPES),
    st.sampled_from(["png", "uint8", "bool", "instances"]),
    st.integers(0, 99),
)
def test_chains_are_those_of_the_reference(width, height, chain, box_format, dtype, kind, seed):
    generator = np.random.default_rng(seed)
    planes = generator.integers(0, 2 if kind == "bool" else 256, (2, height, width), dtype=np.uint8)
    boxes = random_boxes(generator, int(generator.integers(0, 4)), box_format, dtype)
    mask = {
        "png": lambda: png(planes[0]),
        "uint8": lambda: torch.from_numpy(planes[0]),
        "bool": lambda: torch.from_numpy(planes[0]).bool(),
        "instances": lambda: torch.from_numpy(planes),
    }[kind]()
    rows = dataset(coordinates(width, height), mask, boxes, box_format)
    references = [Reference(plane, boxes, box_format) for plane in planes]
    for step, *args in chain:
        rows = applied(rows, step, args)
        for reference in references if step != "color_jitter" else []:
            getattr(reference, step)(*args)
    row = one(rows)
    expected = torch.stack([torch.from_numpy(np.array(reference.mask)) for reference in references])
    expected = {"png": expected[:1], "uint8": expected[0], "bool": expected[0].bool(), "instances": expected}[kind]
    assert row["mask"].dtype == expected.dtype
    assert torch.equal(row["mask"], expected)
    assert row["boxes"].dtype == dtype
    # Centers are computed in another order of roundings.
    torch.testing.assert_close(row["boxes"], references[0].boxes, rtol=1e-5, atol=1e-4)


def from_coordinates(image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mask where the pixels of the changed image say that they come from."""
    x, y, inside = image.long()
    return torch.where(inside == 255, mask[y * (inside == 255), x * (inside == 255)], 0)


isometries = st.sampled_from(["random_crop", "horizontal_flip", "vertical_flip", "rotate90"])


@settings(max_examples=60)
@given(st.lists(isometries, min_size=1, max_size=5), st.integers(0, 999))
def test_random_ops_draw_the_same_numbers_for_all(chain, seed):
    generator = np.random.default_rng(seed)
    mask = torch.from_numpy(generator.integers(0, 256, (31, 37), dtype=np.uint8))
    boxes = random_boxes(generator, 5, "XYXY", torch.int64)
    rows = dataset(coordinates(37, 31), mask, boxes)
    crop = 29
    for step in chain:
        rows = rows.random_crop(crop) if step == "random_crop" else getattr(rows, step)()
        crop -= 4
    row = one(rows.with_options(tdi.Options(seed=seed)))
    image = row["image"]
    assert torch.equal(row["mask"], from_coordinates(image, mask))
    # Where the first pixel comes from, and one step to the right and down, tell where a corner goes.
    places = image[:2].long()
    across, down, first = places[:, 0, 1] - places[:, 0, 0], places[:, 1, 0] - places[:, 0, 0], places[:, 0, 0]
    to = torch.stack([across, down]).double()
    height, width = image.shape[1:]
    corners = (boxes.reshape(-1, 2, 2).double() - 0.5 - first) @ to.T + 0.5
    if "random_crop" in chain:
        corners = corners.clamp(torch.zeros(2), torch.tensor([width, height]).double())
    expected = torch.cat([corners.amin(1), corners.amax(1)], 1).long()
    assert torch.equal(row["boxes"], expected)


@settings(max_examples=40)
@given(side, side, st.sampled_from(FORMATS), st.integers(0, 999))
def test_random_resized_crop(width, height, box_format, seed):
    generator = np.random.default_rng(seed)
    mask = torch.from_numpy(generator.integers(0, 256, (height, width), dtype=np.uint8))
    boxes = random_boxes(generator, 3, box_format, torch.float32)
    rows = dataset(coordinates(width, height), mask, boxes, box_format)
    row = one(rows.random_resized_crop(30, interpolation="nearest").with_options(tdi.Options(seed=seed)))
    assert torch.equal(row["mask"], from_coordinates(row["image"], mask))
    # No side becomes smaller, so that each pixel of the part that was drawn is there.
    x, y, _ = row["image"].long()
    reference = Reference(mask.numpy(), boxes, box_format)
    reference.crop(int(x.min()), int(y.min()), int(x.max() - x.min()) + 1, int(y.max() - y.min()) + 1)
    reference.resize(30, 30)
    assert torch.equal(row["mask"], torch.from_numpy(np.array(reference.mask)))
    torch.testing.assert_close(row["boxes"], reference.boxes, rtol=1e-5, atol=1e-4)


@needs_decoders
def test_masks_that_are_encoded():
    numbers = np.arange(20 * 13, dtype=np.uint8).reshape(13, 20)
    image = png(numbers)
    cases = {
        "grey": (png(numbers), numbers),
        "palette": (png(numbers % 200, "P"), numbers % 200),
        "palette of 4 bits": (png(numbers % 13, "P", bits=4), numbers % 13),
        "palette of 1 bit": (png(numbers % 2, "P", bits=1), numbers % 2),
        "1 bit": (png(numbers % 2 * 255, "1"), numbers % 2 * 255),
    }
    for name, (mask, expected) in cases.items():
        rows = tdi.Dataset.from_tensor_slices({"mask": [mask], "image": [image]}).decode_image("image")
        rows = rows.with_image_targets(masks="mask", key="image")
        assert rows.element_spec["mask"] == tdi.TensorSpec((1, None, None), torch.uint8)
        assert torch.equal(one(rows)["mask"], torch.from_numpy(expected)[None]), name
        cropped = one(rows.center_crop((5, 6)))["mask"]
        assert torch.equal(cropped, torch.from_numpy(expected)[None, 4:9, 7:13]), name


@needs_decoders
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (lambda n: png(n, "RGB"), "PNG: a mask must be grey of at most 8 bits, or have a palette"),
        (lambda n: png(n.astype(np.uint16) * 256), "PNG: a mask must be grey of at most 8 bits"),
        (lambda n: png(n)[:60], "PNG: "),
        (lambda n: b"", "the image is empty"),
        (lambda n: png(n[:-1]), "a mask must be as large as its image, 13 x 20, but is 12 x 20"),
        (lambda n: encoded(Image.fromarray(n), "JPEG"), "a mask must be a PNG"),
    ],
)
def test_masks_that_cannot_be_used(mask, message):
    numbers = np.arange(20 * 13, dtype=np.uint8).reshape(13, 20)
    images = torch.zeros(2, 3, 13, 20, dtype=torch.uint8)
    rows = tdi.Dataset.from_tensor_slices({"image": images, "mask": [png(numbers), mask(numbers)]})
    rows = rows.with_image_targets(masks="mask").horizontal_flip()
    with pytest.raises(tdi.InvalidArgumentError, match=f"with_image_targets: row 1, leaf \\['mask'\\]: {message}"):
        list(rows)
    for path in (rows, rows.filter(lambda row: True)):
        skipping = iter(path.with_options(tdi.Options(on_error="skip")))
        assert len(list(skipping)) == 1
        assert skipping.stats()["skipped"] == 1


def test_boxes_outside_of_a_crop_keep_their_place_with_zero_area():
    boxes = torch.tensor([[0, 0, 2, 2], [3, 3, 5, 5], [7, 0, 9, 9], [-8, -9, -5, -7]])
    rows = dataset(coordinates(9, 9), torch.zeros(9, 9, dtype=torch.uint8), boxes)
    expected = [[0, 0, 0, 0], [0, 0, 2, 2], [3, 0, 3, 3], [0, 0, 0, 0]]
    assert one(rows.center_crop(3))["boxes"].tolist() == expected


def test_extreme_boxes_are_no_error():
    inf, nan = float("inf"), float("nan")
    floats = torch.tensor([[-inf, -inf, inf, inf], [nan, 0, 1, 1], [3e38, -3e38, 3e38, 3e38]])
    integers = torch.tensor([[-(2**63), -(2**63), 2**63 - 1, 2**63 - 1]])
    mask = torch.zeros(4, 6, dtype=torch.uint8)
    for box_format in FORMATS:
        for boxes in (floats, integers, integers.clamp(-(2**31), 2**31 - 1).int()):
            rows = dataset(coordinates(6, 4), mask, boxes, box_format).resize((8, 3)).rotate90(1).pad(2)
            result = one(rows.random_crop(5).horizontal_flip(1.0))["boxes"]
            if box_format == "XYXY" and boxes is not floats:
                assert result.tolist() == [[0, 0, 5, 5]]
