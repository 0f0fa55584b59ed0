# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torchvision's ImageFolder, with transforms that this library has too, as a native dataset.

This module never imports torchvision: it recognises classes by module and name. Random transforms draw this library's
numbers, which belong to rows, from a seed that torch draws.
"""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.recognize._native_source import NotNative, Op, Source

_FOLDER = "torchvision.datasets.folder"
_TRANSFORMS = "torchvision.transforms."
_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
_INTERPOLATIONS = ("nearest", "bilinear", "bicubic")


def is_image_folder(kind: type) -> bool:
    """Whether `kind` is torchvision's ImageFolder, with torchvision's way to make rows."""
    made_by = getattr(getattr(kind, "__getitem__", None), "__module__", None)
    return kind.__module__ == _FOLDER == made_by and kind.__name__ == "ImageFolder"


def random_transforms(dataset: Any) -> list[str]:
    """The names of the transforms that draw random numbers, of an ImageFolder whose transforms are all known."""
    if not is_image_folder(type(dataset)):
        return []
    try:
        return _steps_of(dataset.transform).draws
    except NotNative:
        return []


def image_source(dataset: Any) -> Source:
    """The rows of an ImageFolder. Raises NotNative naming the transform that native code does not know."""
    transform, samples, count = dataset.transform, dataset.samples, len(dataset.samples)
    if dataset.target_transform is not None:
        raise NotNative("the ImageFolder's `target_transform` is a Python function")
    if getattr(dataset.loader, "__module__", None) != _FOLDER or dataset.loader.__name__ != "default_loader":
        raise NotNative("the ImageFolder's `loader` is not torchvision's default")
    for path, _ in samples:
        if not str(path).lower().endswith(_SUFFIXES):
            raise NotNative(f"{path} is not JPEG, PNG or WebP by its name")
    steps = _steps_of(transform)
    try:
        files = _C.image_files([os.fsencode(path) for path, _ in samples], [number for _, number in samples])
        native = steps.added_to(files)
    except (TypeError, ValueError) as error:
        raise NotNative(str(error)) from None

    def is_current() -> bool:
        if dataset.samples is not samples or len(samples) != count or dataset.target_transform is not None:
            return False
        try:
            return _steps_of(dataset.transform) == steps
        except NotNative:
            return False

    def ordered(op: Op) -> _C.Dataset:
        return steps.added_to(op(files))

    return Source(native, native.element_spec, is_current, draws=tuple(steps.draws), ordered_before_draws=ordered)


@dataclass
class _Steps:
    """What the transforms do: calls of `_C.ImageStep`, then, if `scale` is set, mean and std of the numbers."""

    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    draws: list[str] = field(default_factory=list)  # the names of random transforms
    is_tensor: bool = False
    is_float: bool = False
    scale: tuple[list[float], list[float]] | None = None

    def added_to(self, native: _C.Dataset) -> _C.Dataset:
        native = _C.apply_image_step(native, _C.ImageStep.decode_image("NCHW", 178_956_970, None), None)
        for name, arguments in self.calls:
            native = _C.apply_image_step(native, getattr(_C.ImageStep, name)(*arguments), None)
        if self.is_float:
            mean, std = self.scale or ([0.0] * 3, [1.0] * 3)
            native = native.normalize_images(mean, std, torch.float32, "NCHW")
        return native


def _steps_of(transform: Any) -> _Steps:
    steps = _Steps()
    _add(transform, steps)
    if not steps.is_tensor:
        raise NotNative("the transforms of the ImageFolder return no tensors")
    return steps


def _add(transform: Any, steps: _Steps) -> None:
    kind = type(transform)
    add = _KNOWN.get(kind.__name__) if kind.__module__.startswith(_TRANSFORMS) else None
    if add is None:
        raise NotNative(f"the transform {kind.__name__} runs in Python")
    if steps.is_float and kind.__name__ not in ("Normalize", "Compose"):
        raise NotNative(f"the transform {kind.__name__} comes after the conversion to floating-point numbers")
    add(transform, steps)


def _compose(transform: Any, steps: _Steps) -> None:
    for part in transform.transforms:
        _add(part, steps)


def _resize(transform: Any, steps: _Steps) -> None:
    if transform.max_size is not None or transform.size is None:
        raise NotNative("the transform Resize has a `max_size` that runs in Python")
    steps.calls.append(("resize", (_numbers(transform.size), *_filter(transform, steps))))


def _filter(transform: Any, steps: _Steps) -> tuple[str, bool]:
    """The interpolation, and whether it is antialiased, as it always is for Pillow's images unless it is "nearest"."""
    name = type(transform).__name__
    interpolation = getattr(transform.interpolation, "value", transform.interpolation)  # an enum, or its value
    if interpolation not in _INTERPOLATIONS:
        raise NotNative(f"the transform {name} has an `interpolation` that runs in Python")
    if steps.is_tensor and (transform.antialias is not True or interpolation == "nearest"):
        raise NotNative(f"the transform {name} of tensors is native with `antialias=True` only")
    return interpolation, interpolation != "nearest"


def _fill(transform: Any) -> tuple[int, str]:
    if not isinstance(transform.fill, int):
        raise NotNative(f"the transform {type(transform).__name__} has a `fill` that is not an int")
    return transform.fill, getattr(transform.padding_mode, "value", transform.padding_mode)


def _random_crop(transform: Any, steps: _Steps) -> None:
    padding = [] if transform.padding is None else _numbers(transform.padding)
    arguments = _numbers(transform.size), padding, bool(transform.pad_if_needed), *_fill(transform)
    _add_random("random_crop", arguments, transform, steps)


def _random_resized_crop(transform: Any, steps: _Steps) -> None:
    scale, ratio = _interval(transform.scale), _interval(transform.ratio)
    arguments = _numbers(transform.size), scale, ratio, *_filter(transform, steps)
    _add_random("random_resized_crop", arguments, transform, steps)


def _flip(name: str, transform: Any, steps: _Steps) -> None:
    _add_random(name, (float(transform.p),), transform, steps)


def _color_jitter(transform: Any, steps: _Steps) -> None:
    given = (transform.brightness, transform.contrast, transform.saturation, transform.hue)
    arguments = tuple(None if factors is None else _interval(factors) for factors in given)
    _add_random("color_jitter", arguments, transform, steps)


def _rand_augment(transform: Any, steps: _Steps) -> None:
    interpolation = getattr(transform.interpolation, "value", transform.interpolation)
    if interpolation != "nearest" or transform.fill is not None or steps.is_tensor:
        raise NotNative(
            'the transform RandAugment is native for Pillow\'s images, `interpolation` "nearest" and no `fill` only'
        )
    arguments = int(transform.num_ops), int(transform.magnitude), int(transform.num_magnitude_bins)
    _add_random("rand_augment", arguments, transform, steps)


def _add_random(name: str, arguments: tuple[Any, ...], transform: Any, steps: _Steps) -> None:
    steps.calls.append((name, arguments))
    steps.draws.append(type(transform).__name__)


def _interval(numbers: Any) -> list[float]:
    low, high = numbers
    return [float(low), float(high)]


def _numbers(value: Any) -> list[int]:
    return [int(number) for number in value] if isinstance(value, (list, tuple)) else [int(value)]


def _to_tensor(transform: Any, steps: _Steps) -> None:
    steps.is_tensor = True


def _to_numbers(transform: Any, steps: _Steps) -> None:
    steps.is_tensor = steps.is_float = True


def _to_dtype(transform: Any, steps: _Steps) -> None:
    if not (steps.is_tensor and transform.dtype == torch.float32 and transform.scale):
        raise NotNative("the transform ToDtype is native for tensors, `torch.float32` and `scale=True` only")
    steps.is_float = True


def _normalize(transform: Any, steps: _Steps) -> None:
    mean, std = ([float(x) for x in values] for values in (transform.mean, transform.std))
    if not steps.is_float or steps.scale is not None or len(mean) != 3 or len(std) != 3:
        raise NotNative("the transform Normalize is native once, after ToTensor or ToDtype, for 3 channels")
    steps.scale = mean, std


_KNOWN: dict[str, Callable[[Any, _Steps], None]] = {
    "Compose": _compose,
    "Resize": _resize,
    "CenterCrop": lambda transform, steps: steps.calls.append(("center_crop", (_numbers(transform.size),))),
    "Pad": lambda transform, steps: steps.calls.append(("pad", (_numbers(transform.padding), *_fill(transform)))),
    "RandomCrop": _random_crop,
    "RandomResizedCrop": _random_resized_crop,
    "RandomHorizontalFlip": functools.partial(_flip, "horizontal_flip"),
    "RandomVerticalFlip": functools.partial(_flip, "vertical_flip"),
    "ColorJitter": _color_jitter,
    "RandAugment": _rand_augment,
    "PILToTensor": _to_tensor,
    "ToImage": _to_tensor,
    "ToTensor": _to_numbers,
    "ToDtype": _to_dtype,
    "Normalize": _normalize,
}
