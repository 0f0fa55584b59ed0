# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Whether two nested values are equal."""

from typing import Any

import torch


def same(one: Any, other: Any) -> bool:
    """Whether two values have the same structure, and equal tensors of the same dtypes and other values as leaves."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other) and one.dtype == other.dtype
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
