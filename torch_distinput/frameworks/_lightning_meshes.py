# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Loaders of Lightning's ModelParallelStrategy are dealt along the mesh that the strategy makes.

A loader is often made before the strategy has its mesh. Lightning lets the strategy process each loader before its
first epoch, so that this module wraps `ModelParallelStrategy.process_dataloader`.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

from torch_distinput.loader._config import own_arguments
from torch_distinput.loader._data_loader import DataLoader, deal_over

_MODULES = tuple(
    f"{package}.strategies.model_parallel"
    for package in ("lightning.pytorch", "lightning.fabric", "pytorch_lightning", "lightning_fabric")
)


def follow_meshes() -> None:
    """Wraps the strategies of the packages that the program has imported, once."""
    for name in _MODULES:
        strategy = getattr(sys.modules.get(name), "ModelParallelStrategy", None)
        if strategy is not None and not hasattr(strategy.process_dataloader, "__wrapped__"):
            strategy.process_dataloader = _along_the_mesh(strategy.process_dataloader)


def _along_the_mesh(original: Callable) -> Callable:
    @functools.wraps(original)
    def process_dataloader(self: Any, dataloader: Any) -> Any:
        dataloader = original(self, dataloader)
        if isinstance(dataloader, DataLoader) and own_arguments(dataloader).distributed is True:
            deal_over(dataloader, self.device_mesh)
        return dataloader

    return process_dataloader
