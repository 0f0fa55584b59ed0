# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A digest of a batch, by which peers see whether they got the same one."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from torch_distinput.base._structure import children

# Of each tensor as many elements, evenly spread, are looked at: enough to tell other rows from these.
_MOST_ELEMENTS = 4096
_OF_ITEMSIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class BatchDigest:
    """The digest of `batch`. Values on a device are summed up there; what it takes to have them here is not waited for
    before `value` is called."""

    def __init__(self, batch: Any):
        self._texts: list[str] = []
        self._sums: dict[torch.device, list[Tensor]] = {}
        self._add(batch)
        self._copies = [_copied(torch.stack(sums)) for sums in self._sums.values()]

    def value(self) -> str:
        """The digest: equal for equal batches, whatever the device."""
        hashed = hashlib.blake2b("\n".join(self._texts).encode(), digest_size=8)
        for sums, event in self._copies:
            if event is not None:
                event.synchronize()
            hashed.update(repr(sums.tolist()).encode())
        return hashed.hexdigest()

    def _add(self, value: Any) -> None:
        parts = children(value)
        if parts is not None:
            self._texts.append(f"{len(parts)} {list(value) if isinstance(value, Mapping) else ''}")
            for part in parts:
                self._add(part)
        elif isinstance(value, Tensor):
            self._texts.append(f"{value.dtype} {tuple(value.shape)}" if not value.is_nested else f"{value.dtype}")
            for strided in _strided(value):
                self._sums.setdefault(strided.device, []).append(_sum(strided))
        else:
            self._texts.append(repr(value)[:1000] if isinstance(value, (str, bytes, int, float)) else "")


def _strided(value: Tensor) -> list[Tensor]:
    """The dense tensors that hold the values of a tensor of any layout."""
    value = value.detach()
    if value.is_nested:
        return [value.values()] if value.layout is torch.jagged else list(value.unbind())
    if value.layout is torch.sparse_coo:
        value = value.coalesce()
        return [value.indices(), value.values()]
    return [value] if value.layout is torch.strided else [value.values()]


def _sum(tensor: Tensor) -> Tensor:
    """A sum of the tensor's bits, weighted by place, on its device: a scalar of int64."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    flat = tensor.flatten()
    flat = flat[:: -(-flat.numel() // _MOST_ELEMENTS) or 1].contiguous()
    bits = flat.view(_OF_ITEMSIZE[flat.element_size()]).to(torch.int64)
    places = torch.arange(1, 2 * bits.numel() + 1, 2, device=bits.device)
    return (bits * places).sum()


def _copied(sums: Tensor) -> tuple[Tensor, Any]:
    """`sums` in host memory, and the event after which they are there; None where they are there now."""
    if sums.device.type == "cpu":
        return sums, None
    host = torch.empty(sums.shape, dtype=sums.dtype, pin_memory=True)
    host.copy_(sums, non_blocking=True)
    event = torch.Event(sums.device)
    event.record()
    return host, event
