# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a DataLoader tells about itself: its report, and the stats of all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import distributed as dist

from torch_distinput.dataset import Dataset
from torch_distinput.explanation import Explanation, of_facts
from torch_distinput.stats import Stats

if TYPE_CHECKING:
    from torch_distinput.data_loader import DataLoader


def explained_loader(loader: DataLoader, text: str) -> Explanation:
    """The report in `text`; its tree shows the loader, and the pipeline below it where it reads one."""
    dataset = loader.dataset
    below = [dataset.explain()] if isinstance(dataset, Dataset) else []
    title = f"{type(loader).__name__}({type(dataset).__name__}, batch_size={loader.batch_size})"
    return of_facts(title, text, below)


def gather_stats(stats: Stats, group: Any) -> list[Stats]:
    """The stats of all ranks of `group` (None: the default one; a DeviceMesh: its group), by rank. A collective."""
    if not dist.is_initialized():
        raise RuntimeError("verdict: `all_ranks=True` needs torch.distributed.init_process_group.")
    group = group.get_group() if hasattr(group, "get_group") else group
    gathered: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(gathered, stats, group=group)
    return gathered
