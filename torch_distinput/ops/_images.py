# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The ops of images: methods of `Dataset`."""

from collections.abc import Sequence
from typing import Any

from torch_distinput import _C
from torch_distinput.base._arguments import flag, integer, number, optional_integer, sequence, text
from torch_distinput.ops._base import Dataset, Ops
from torch_distinput.ops._description import described
from torch_distinput.typing import BoxFormat, ImageLayout, Interpolation, PaddingMode

Key = str | int | None
Keys = str | int | Sequence[str | int]
Sizes = int | Sequence[int]
Factors = float | Sequence[float]


class ImageOps(Ops[Dataset]):
    """Ops on images: uint8 in and out, before `batch`; names and arguments of `torchvision.transforms.v2`.

    An image is [C, H, W] or [H, W, C] with 1, 3 or 4 channels, found by their number. `key` names the leaf of a dict or
    named tuple, or the place in a tuple; it is needed where several leaves could be meant. Random ops draw from (seed,
    epoch, row, op): the same pixels on any number of threads and processes, and after a restore. Consecutive ops run as
    one: only the pixels that the last one needs are decoded and computed.
    """

    @described
    def decode_image(
        self,
        key: Key = None,
        layout: ImageLayout = "NCHW",
        max_pixels: int = 178_956_970,
        reducing_gap: float | None = 2.0,
    ) -> Dataset:
        """JPEG, PNG and WebP bytes as RGB images, as Pillow's `convert("RGB")` gives them.

        Grey is repeated, alpha and profiles are left out, CMYK is converted without a profile, 16 bits keep the high
        byte (grey: at most 255). The EXIF orientation is not applied, as in Pillow and torchvision.

        Args:
            key: the leaf of encoded images (`bytes`).
            layout: "NCHW" for images [3, H, W], "NHWC" for [H, W, 3].
            max_pixels: an image with more pixels is refused before it is decoded; the default is Pillow's limit.
            reducing_gap: as in Pillow: a JPEG whose next op resizes it is decoded at 1/2, 1/4 or 1/8 of its size if the
                result is at least `reducing_gap` times the wanted size in both dims. None: never, which gives the
                pixels of an exact resize. At least 1.

        Raises ValueError at the call where this build lacks a decoder, and InvalidArgumentError when a row is read
        whose image is damaged, truncated or too large; `on_error="skip"` skips and counts it.

        >>> import base64
        >>> png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
        >>> [image.shape for image in tdi.Dataset.from_tensor_slices([base64.b64decode(png)]).decode_image()]
        [torch.Size([3, 1, 1])]
        """
        op = "decode_image"
        gap = None if reducing_gap is None else number(op, "reducing_gap", reducing_gap)
        step = _C.ImageStep.decode_image(text(op, "layout", layout), integer(op, "max_pixels", max_pixels), gap)
        return self._image(step, key)

    @described
    def resize(
        self, size: Sizes, interpolation: Interpolation = "bilinear", antialias: bool = True, *, key: Key = None
    ) -> Dataset:
        """Images of `size`: (height, width), or one number for the shorter edge, keeping the proportions.

        Args:
            size: in pixels.
            interpolation: "nearest", "bilinear" or "bicubic", as Pillow's, up to 1 grey level.
            antialias: whether a pixel of a smaller image is a mean over all pixels that it covers; needed for
                "bicubic".
            key: the leaf of images.

        A JPEG that becomes at most a quarter as large is decoded at 1/2, 1/4 or 1/8 of its size, unless its
        `decode_image` has `reducing_gap=None`; docs/images.md says how far the results are apart.

        >>> images = tdi.Dataset.from_tensor_slices(torch.zeros(1, 3, 4, 8, dtype=torch.uint8))
        >>> [image.shape for image in images.resize(2)]
        [torch.Size([3, 2, 4])]
        """
        op = "resize"
        step = _C.ImageStep.resize(
            _sizes(op, "size", size), _interpolation(op, interpolation), flag(op, "antialias", antialias)
        )
        return self._image(step, key)

    @described
    def center_crop(self, size: Sizes, *, key: Key = None) -> Dataset:
        """The middle (height, width) of each image, or a square; a smaller image is padded with 0.

        >>> images = tdi.Dataset.from_tensor_slices(torch.arange(9, dtype=torch.uint8).reshape(1, 1, 3, 3))
        >>> [image.tolist() for image in images.center_crop(1)]
        [[[[4]]]]
        """
        return self._image(_C.ImageStep.center_crop(_sizes("center_crop", "size", size)), key)

    @described
    def random_crop(
        self,
        size: Sizes,
        padding: Sizes | None = None,
        pad_if_needed: bool = False,
        fill: int = 0,
        padding_mode: PaddingMode = "constant",
        *,
        key: Key = None,
    ) -> Dataset:
        """(height, width) pixels of each image, or a square, at a random place.

        Args:
            size: in pixels.
            padding: pixels added around the image before, as in `pad`; None for none.
            pad_if_needed: whether a smaller image is padded; else it raises InvalidArgumentError when it is read.
            fill, padding_mode: as in `pad`.
            key: the leaf of images.

        >>> images = tdi.Dataset.from_tensor_slices(torch.zeros(1, 3, 4, 8, dtype=torch.uint8))
        >>> [image.shape for image in images.random_crop((2, 3))]
        [torch.Size([3, 2, 3])]
        """
        op = "random_crop"
        step = _C.ImageStep.random_crop(
            _sizes(op, "size", size),
            [] if padding is None else _sizes(op, "padding", padding),
            flag(op, "pad_if_needed", pad_if_needed),
            integer(op, "fill", fill),
            text(op, "padding_mode", padding_mode),
        )
        return self._image(step, key)

    @described
    def random_resized_crop(
        self,
        size: Sizes,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Interpolation = "bilinear",
        antialias: bool = True,
        *,
        key: Key = None,
    ) -> Dataset:
        """A random part of each image, resized to (height, width) or to a square.

        Args:
            size: in pixels.
            scale: the smallest and largest share of the image's area.
            ratio: the smallest and largest width divided by height.
            interpolation, antialias: as in `resize`.
            key: the leaf of images.

        >>> images = tdi.Dataset.from_tensor_slices(torch.zeros(1, 3, 4, 8, dtype=torch.uint8))
        >>> [image.shape for image in images.random_resized_crop(2)]
        [torch.Size([3, 2, 2])]
        """
        op = "random_resized_crop"
        step = _C.ImageStep.random_resized_crop(
            _sizes(op, "size", size),
            _pair(op, "scale", scale),
            _pair(op, "ratio", ratio),
            _interpolation(op, interpolation),
            flag(op, "antialias", antialias),
        )
        return self._image(step, key)

    @described
    def horizontal_flip(self, p: float = 0.5, *, key: Key = None) -> Dataset:
        """Images mirrored left to right with probability `p`.

        >>> images = tdi.Dataset.from_tensor_slices(torch.tensor([[[[1, 2]]]], dtype=torch.uint8))
        >>> [image.tolist() for image in images.horizontal_flip(p=1.0)]
        [[[[2, 1]]]]
        """
        return self._image(_C.ImageStep.horizontal_flip(number("horizontal_flip", "p", p)), key)

    @described
    def vertical_flip(self, p: float = 0.5, *, key: Key = None) -> Dataset:
        """Images mirrored top to bottom with probability `p`.

        >>> images = tdi.Dataset.from_tensor_slices(torch.tensor([[[[1], [2]]]], dtype=torch.uint8))
        >>> [image.tolist() for image in images.vertical_flip(p=1.0)]
        [[[[2], [1]]]]
        """
        return self._image(_C.ImageStep.vertical_flip(number("vertical_flip", "p", p)), key)

    @described
    def rotate90(self, k: int | None = None, *, key: Key = None) -> Dataset:
        """Images turned by `k` quarters counterclockwise, as `torch.rot90`; None: by a random number of them.

        >>> images = tdi.Dataset.from_tensor_slices(torch.tensor([[[[1, 2]]]], dtype=torch.uint8))
        >>> [image.tolist() for image in images.rotate90(1)]
        [[[[2], [1]]]]
        """
        return self._image(_C.ImageStep.rotate90(optional_integer("rotate90", "k", k)), key)

    @described
    def pad(self, padding: Sizes, fill: int = 0, padding_mode: PaddingMode = "constant", *, key: Key = None) -> Dataset:
        """Images with pixels added around them.

        Args:
            padding: one number for all edges, (left and right, top and bottom), or (left, top, right, bottom).
            fill: the value of added pixels, 0 to 255.
            padding_mode: "constant" (`fill`), "edge", "reflect" or "symmetric".
            key: the leaf of images.

        >>> images = tdi.Dataset.from_tensor_slices(torch.tensor([[[[1, 2]]]], dtype=torch.uint8))
        >>> [image.tolist() for image in images.pad((1, 0))]
        [[[[0, 1, 2, 0]]]]
        """
        op = "pad"
        mode = text(op, "padding_mode", padding_mode)
        return self._image(_C.ImageStep.pad(_sizes(op, "padding", padding), integer(op, "fill", fill), mode), key)

    @described
    def color_jitter(
        self,
        brightness: Factors = 0,
        contrast: Factors = 0,
        saturation: Factors = 0,
        hue: Factors = 0,
        *,
        key: Key = None,
    ) -> Dataset:
        """RGB images with brightness, contrast, saturation and hue changed by random factors, in random order.

        Args:
            brightness, contrast, saturation: a number x for a factor from [max(0, 1 - x), 1 + x], or (lowest, highest).
            hue: a number x for a shift from [-x, x], or (lowest, highest), within [-0.5, 0.5]; 1 is a full turn.
            key: the leaf of images.

        The results are those of torchvision's ColorJitter for Pillow's images.

        >>> images = tdi.Dataset.from_tensor_slices(torch.full((1, 3, 1, 1), 100, dtype=torch.uint8))
        >>> [image.tolist() for image in images.color_jitter(brightness=(0.5, 0.5))]
        [[[[50]], [[50]], [[50]]]]
        """
        op = "color_jitter"
        step = _C.ImageStep.color_jitter(
            _factors(op, "brightness", brightness),
            _factors(op, "contrast", contrast),
            _factors(op, "saturation", saturation),
            _factors(op, "hue", hue, middle=0.0, least=None),
        )
        return self._image(step, key)

    @described
    def rand_augment(
        self, num_ops: int = 2, magnitude: int = 9, num_magnitude_bins: int = 31, *, key: Key = None
    ) -> Dataset:
        """RGB images after `num_ops` random changes of RandAugment's 14 (Cubuk et al. 2020).

        Args:
            num_ops: how many changes, one after the other, at most 64.
            magnitude: how large they are, in [0, num_magnitude_bins).
            num_magnitude_bins: the number of magnitudes; the last one is the strongest.
            key: the leaf of images.

        The changes are identity, shears, shifts, rotation, brightness, saturation, contrast, sharpness, posterize,
        solarize, autocontrast and equalize, each as torchvision's RandAugment makes it of Pillow's images: the nearest
        pixels, and 0 outside of the image. Masks and boxes cannot follow the image.

        >>> images = tdi.Dataset.from_tensor_slices(torch.full((2, 3, 4, 5), 100, dtype=torch.uint8))
        >>> [list(image.shape) for image in images.rand_augment()]
        [[3, 4, 5], [3, 4, 5]]
        """
        op = "rand_augment"
        numbers = {"num_ops": num_ops, "magnitude": magnitude, "num_magnitude_bins": num_magnitude_bins}
        step = _C.ImageStep.rand_augment(*(integer(op, name, number) for name, number in numbers.items()))
        return self._image(step, key)

    @described
    def with_image_targets(
        self, masks: Keys = (), boxes: Keys = (), box_format: BoxFormat = "XYXY", *, key: Key = None
    ) -> Dataset:
        """Declares masks and bounding boxes of the image: the ops after it change them together with the image.

        Args:
            masks: the leaves of masks: uint8 or bool, [H, W] or [N, H, W], as large as the image; or `bytes` of a
                grey or palette PNG, which become uint8 [1, H, W] with the grey values or the palette's indices.
            boxes: the leaves of boxes: float32, float64, int32 or int64, [N, 4], in pixels; N may differ between rows.
            box_format: "XYXY" (left, top, right, bottom), "XYWH" (left, top, width, height) or "CXCYWH" (center first).
            key: the leaf of images.

        What they become is what `torchvision.transforms.v2` makes of `tv_tensors.Mask` and `BoundingBoxes`. A mask is
        resized to the nearest pixel (as Pillow's "nearest") and padded with 0. Crops and padding clamp boxes to the
        image; a box outside of it stays, with zero area, so that its label keeps its place. Integers lose their
        fractions when resized. Random ops change them by the same random numbers as the image.

        The declaration holds for all later ops on this image, also after `shuffle`, `filter` and other ops that keep
        the structure of elements; an op that changes it ends the declaration, and the next geometric op says so. A
        second declaration replaces the first one; without masks and boxes, nothing follows any more.

        Raises ValueError at the call for leaves of other types, and InvalidArgumentError when a row is read whose mask
        is not as large as its image.

        >>> row = {"image": torch.zeros(1, 3, 4, 8, dtype=torch.uint8), "boxes": torch.tensor([[[0, 1, 2, 3]]])}
        >>> rows = tdi.Dataset.from_tensor_slices(row).with_image_targets(boxes="boxes")
        >>> [row["boxes"].tolist() for row in rows.horizontal_flip(p=1.0)]
        [[[6, 1, 8, 3]]]
        """
        op = "with_image_targets"
        step = _C.ImageStep.with_image_targets(
            _keys(op, "masks", masks), _keys(op, "boxes", boxes), text(op, "box_format", box_format)
        )
        return self._image(step, key)

    def _image(self, step: _C.ImageStep, key: Any) -> Dataset:
        if key is not None and not _is_key(key):
            raise TypeError(f"`key` must be a str, an int or None, but is {key!r}.")
        return self._wrapped(_C.apply_image_step(self._native, step, key))


def _is_key(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _keys(op: str, name: str, value: Any) -> list[str | int]:
    """One key, or a sequence of them."""
    keys = [value] if _is_key(value) else value
    if not isinstance(keys, Sequence) or not all(map(_is_key, keys)):
        raise TypeError(f"{op}: `{name}` must be a str, an int or a sequence of them, but is {value!r}.")
    return list(keys)


def _sizes(op: str, name: str, value: Any) -> list[int]:
    if hasattr(value, "__index__") or not hasattr(value, "__iter__"):
        return [integer(op, name, value)]
    return sequence(op, name, value, integer)


def _interpolation(op: str, value: Any) -> str:
    """The name of an interpolation; torchvision's enum has it as its value."""
    return text(op, "interpolation", getattr(value, "value", value))


def _pair(op: str, name: str, value: Any) -> list[float]:
    pair = sequence(op, name, value, number)
    if len(pair) != 2:
        raise ValueError(f"{op}: `{name}` must be a pair of numbers, but is {value!r}.")
    return pair


def _factors(op: str, name: str, value: Any, middle: float = 1.0, least: float | None = 0.0) -> list[float] | None:
    """The interval of a factor; None where it changes nothing."""
    if hasattr(value, "__iter__"):
        pair = _pair(op, name, value)
    else:
        width = number(op, name, value)
        if width < 0:
            raise ValueError(f"{op}: `{name}` must be at least 0, but is {width:g}.")
        low = middle - width
        pair = [low if least is None else max(least, low), middle + width]
    return None if pair == [middle, middle] else pair
