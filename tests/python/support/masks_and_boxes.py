# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Images with masks and boxes, for tests of what follows an image."""

import numpy as np
import pytest
import torch
from decoders import encoded

import torch_distinput as tdi

Image = pytest.importorskip("PIL.Image")

FORMATS = ("XYXY", "XYWH", "CXCYWH")


def png(array: np.ndarray, mode: str = "L", **options) -> bytes:
    image = Image.fromarray(array)
    if mode == "P":
        image = image.convert("P")
        image.putdata(array.reshape(-1).tolist())
        image.putpalette([3, 5, 7] * 256)
    elif mode != "L":
        image = image.convert(mode)
    return encoded(image, "PNG", **options)


def coordinates(width: int, height: int) -> torch.Tensor:
    """An image whose pixels tell where they were: (x, y, 255). What is padded has 0 in the last channel."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([x, y, torch.full_like(x, 255)]).to(torch.uint8)


def dataset(image, mask, boxes, box_format="XYXY") -> tdi.Dataset:
    row = {"image": image[None], "boxes": boxes[None], "mask": [mask] if isinstance(mask, bytes) else mask[None]}
    return tdi.Dataset.from_tensor_slices(row).with_image_targets("mask", "boxes", box_format, key="image")


def one(rows: tdi.Dataset):
    (row,) = list(rows)
    return row


def random_boxes(generator, count, box_format, dtype) -> torch.Tensor:
    """Some of them reach out of the image, or lie outside."""
    low, high = (torch.tensor(generator.uniform(-10, 45, (count, 2))) for _ in range(2))
    if box_format == "XYXY":
        return torch.cat([torch.minimum(low, high), torch.maximum(low, high)], 1).to(dtype)
    return torch.cat([low, (high - low).abs()], 1).to(dtype)
