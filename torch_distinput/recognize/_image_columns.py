# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Image columns of Hugging Face datasets that native code decodes: images of one size, all RGB or all grey.

Such a column holds structs of bytes and a path, and one of the two is set. How the package decodes an image depends on
its header, so the headers of all images are read before the first row.
"""

import io
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

import torch

from torch_distinput import _C
from torch_distinput.recognize._collation import Images
from torch_distinput.recognize._native_source import NotNative

_MAX_PIXELS = 178_956_970
_ORIENTATION, _UPRIGHT = 0x0112, 1
_FORMATS = ("JPEG", "PNG", "WEBP")
# Pillow's modes that native code converts to a column's mode as Pillow does; None: the mode of the image.
_NATIVE = {None: ("L", "RGB"), "L": ("L",), "RGB": ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK")}
# Chunks of a PNG that may hold an orientation.
_METADATA = (b"eXIf", b"tEXt", b"zTXt", b"iTXt")


@dataclass(frozen=True)
class ImageColumn:
    """The images of a column: encoded in an Arrow array, or in files (`paths`). `steps`: what decodes them; `spec`:
    what remains to be done after that."""

    name: str
    column: Any
    paths: list[bytes] | None
    steps: list[_C.ImageStep]
    spec: Images | None

    def decoded(self, rows: _C.Dataset) -> _C.Dataset:
        """`rows`, with the pixels in place of leaf `name`, an encoded image."""
        for step in self.steps:
            rows = _C.apply_image_step(rows, step, self.name)
        return rows


@dataclass(frozen=True)
class _Head:
    """What Pillow knows about an image before it decodes it."""

    mode: str
    size: tuple[int, int]


def is_image(feature: Any) -> bool:
    """Whether a feature is the package's own `Image`, which decodes."""
    kind = type(feature)
    return kind.__name__ == "Image" and kind.__module__ == "datasets.features.image" and feature.decode


def image_column(name: str, column: Any, feature: Any, kind: str | None, rows: torch.Tensor | None) -> ImageColumn:
    """The images of `column` at `rows` (None: all), in a format of type `kind`. Raises NotNative naming the column if
    native code would not return what the package does."""
    import pyarrow.compute as compute

    if kind is None:
        raise NotNative(f"column {name!r} has images that torch cannot stack; give it `set_format('torch')`")
    encoded, places = compute.struct_field(column, "bytes"), compute.struct_field(column, "path")
    wanted = range(len(column)) if rows is None else rows.unique().tolist()
    paths = None
    if encoded.null_count == 0:
        head = _same_head(name, feature.mode, wanted, lambda row: io.BytesIO(encoded[row].as_py()))
    elif encoded.null_count == len(encoded) and places.null_count == 0:
        names = places.to_pylist()
        if any("://" in path or "::" in path for path in names):
            raise NotNative(f"column {name!r} has images that are no files of this machine")
        paths = [os.fsencode(path) for path in names]
        head = _same_head(name, feature.mode, wanted, lambda row: io.FileIO(paths[row]))
    else:
        raise NotNative(f"column {name!r} has images in it and others in files, or none in some rows")
    grey = head.mode == "L" and feature.mode != "RGB"
    layout = "NHWC" if kind == "numpy" and not grey else "NCHW"
    width, height = head.size
    steps = [_C.ImageStep.decode_image(layout, _MAX_PIXELS, None)]
    if paths is None:
        # A crop to their own size makes the size known beforehand, so batches are decoded in place. Files may be
        # replaced meanwhile.
        steps.append(_C.ImageStep.center_crop([height, width]))
    rest = Images(grey, flat=kind == "numpy", numbered=paths is not None)
    return ImageColumn(name, encoded, paths, steps, rest if grey or paths is not None else None)


def _same_head(name: str, mode: str | None, rows: Iterable[int], opened: Callable[[int], BinaryIO]) -> _Head:
    """The header that all images share, if native code decodes such an image as Pillow does for a column of `mode`.
    Raises NotNative for an image that differs."""
    first: _Head | None = None
    for row in rows:
        place = f"column {name!r} has an image in row {row}"
        try:
            with opened(row) as file:
                head = _head_of(file)
        except Exception as error:  # noqa: BLE001 - whatever Pillow says of it, the package will
            raise NotNative(f"{place} that cannot be read: {error}") from None
        if head is None:
            raise NotNative(f"{place} that is not JPEG, PNG or WebP, is animated, or has an orientation")
        if mode not in _NATIVE or head.mode not in _NATIVE[mode]:
            raise NotNative(f"{place} of mode {head.mode}, while the mode of the column is {mode}")
        if first is None:
            first = head
        if head.size != first.size:
            raise NotNative(f"{place} of {_shown(head.size)} pixels, while others have {_shown(first.size)}")
        if mode is None and head.mode != first.mode:
            raise NotNative(f"{place} of mode {head.mode}, while others are of {first.mode}")
    assert first is not None, "there are rows"
    return first


def _shown(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


def _head_of(file: BinaryIO) -> _Head | None:
    """None for an image that native code would not decode as Pillow does."""
    from PIL import Image

    with Image.open(file) as image:
        if image.format not in _FORMATS or getattr(image, "is_animated", False):
            return None
        # Pillow decodes a PNG to look for metadata.
        looks = image.format != "PNG" or _has_metadata(file)
        if looks and image.getexif().get(_ORIENTATION, _UPRIGHT) != _UPRIGHT:
            return None
        return _Head(image.mode, image.size)


def _has_metadata(png: BinaryIO) -> bool:
    place = png.tell()
    png.seek(0)
    content = png.read()
    png.seek(place)
    return any(chunk in content for chunk in _METADATA)
