# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The device that the argument `device` of a DataLoader means."""

from __future__ import annotations

import os
from typing import Any

import torch

from torch_distinput import _C


def device_of(device: Any) -> torch.device:
    """The device that the argument `device` means. Raises ValueError for an unknown name, TypeError for other types.

    An accelerator without an index is the one of LOCAL_RANK, or the only one that this process sees.
    """
    try:
        device = torch.device("cpu" if device is None else device)
    except RuntimeError as error:
        raise ValueError(f"DataLoader: `device` is {device!r}: {error}") from None
    except TypeError:
        raise TypeError(f"DataLoader: `device` must be a torch.device or its name, but is {device!r}.") from None
    if device.type != "cpu" and device.index is None:
        rank = int(os.environ.get("LOCAL_RANK", "0"))
        device = torch.device(device.type, 0 if rank > 0 and _C.device_count() == 1 else rank)
    return device


def accelerator_of(device: Any) -> torch.device | None:
    """The accelerator that the argument `device` means; None where batches stay on the CPU."""
    found = device_of(device)
    return None if found.type == "cpu" else found
