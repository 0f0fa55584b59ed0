# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Questions about tensors."""

from __future__ import annotations

from torch import Tensor, strided


def is_plain(tensor: Tensor) -> bool:
    """Whether `tensor` is its bytes in host memory, their type and their strides, and nothing else."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout is strided
        and not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor.is_nested)
    )
