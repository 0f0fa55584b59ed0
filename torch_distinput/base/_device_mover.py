# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Copies of batches that native code has not brought to their device."""

import functools
from collections.abc import Iterator
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.base._structure import children, is_plain, rebuild


class DeviceMover:
    """Copies batches that Python made to an accelerator; None leaves them as they are."""

    def __init__(self, device: torch.device | None):
        self._device = device

    @functools.cached_property
    def _copies(self) -> _C.DeviceCopies:
        return _C.DeviceCopies(str(self._device))

    def __call__(self, batch: Any) -> Any:
        """`batch` on the device: all values with a method `to`; plain tensors share as few copies as possible."""
        if self._device is None:
            return batch
        plain: list[torch.Tensor] = []
        self._collect(batch, plain)
        return self._moved(batch, iter(self._copies.bring(plain)) if plain else iter(()))

    def release(self) -> None:
        """Releases batches that have been copied, where copies of earlier ones are not waited for."""
        if self._device is not None:
            self._copies.collect()

    def _collect(self, value: Any, plain: list[torch.Tensor]) -> None:
        if _is_block(value):
            plain.append(value)
        elif not hasattr(value, "to"):
            for part in children(value) or ():
                self._collect(part, plain)

    def _moved(self, value: Any, arrived: Iterator[torch.Tensor]) -> Any:
        if _is_block(value):
            return next(arrived)
        if hasattr(value, "to"):
            return value.to(self._device, non_blocking=True)
        parts = children(value)
        return value if parts is None else rebuild(value, [self._moved(part, arrived) for part in parts])


def _is_block(value: Any) -> bool:
    """Whether a copy of its contiguous bytes is a complete copy of `value`."""
    return type(value) is torch.Tensor and is_plain(value) and value.is_contiguous()
