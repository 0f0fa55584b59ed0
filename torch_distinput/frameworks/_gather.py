# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The rows of one step from all processes, whose parts may differ in size and may be empty."""

import zlib
from typing import Any

import torch
import torch.distributed as dist

from torch_distinput.base._structure import map_leaves
from torch_distinput.loader._config import config_of, own_arguments
from torch_distinput.loader._data_loader import DataLoader, group_of, progress_of
from torch_distinput.loader.orders._exchanged import is_own_stream


def rows_that_count(value: Any, loader: DataLoader) -> Any:
    """`value`, which holds one item for each row of the step, without the items of padding."""
    if own_arguments(loader).tail != "padded" or is_own_stream(config_of(loader)):
        return value
    info = progress_of(loader).info
    assert info is not None, "`value` is of a step"
    share, valid = loader.batch_size, info.valid[0]
    if isinstance(value, list) and len(value) == share and not any(isinstance(item, torch.Tensor) for item in value):
        return value[:valid]
    return map_leaves(lambda leaf: leaf[:valid] if _has_rows(leaf, share) else leaf, value)


def gather_rows(value: Any, loader: DataLoader) -> Any:
    """The tensors of `value` with the rows of all processes, in the order of the processes, which is the loader's.

    A collective. Only dim 0 may differ between processes. A scalar counts as one row.
    """
    group = group_of(loader)
    leaves: list[torch.Tensor] = []
    map_leaves(leaves.append, value)
    if group is None or not leaves:
        return value
    rows = [leaf.detach().reshape(1) if leaf.dim() == 0 else leaf.detach() for leaf in leaves]
    sizes = [[len(leaf) for leaf in rows]] * group.size()
    if not _parts_are_equal(loader):
        mine = torch.tensor(sizes[0], device=rows[0].device)
        sizes = torch.stack(_all_gather(mine, group)).tolist()
    gathered = iter([_gather(leaf, [size[i] for size in sizes], group) for i, leaf in enumerate(rows)])
    return map_leaves(lambda leaf: next(gathered), value)


def check_shapes(shapes: list[tuple[int, ...]], loader: DataLoader, device: torch.device) -> None:
    """Raises ValueError on all processes if they are about to gather tensors of different `shapes` in a step whose
    parts differ: gloo would end the process, and other backends would read foreign memory. A collective, in such steps
    only."""
    group = group_of(loader)
    if group is None or group.size() != dist.get_world_size() or _parts_are_equal(loader):
        return
    rows = shapes[0][0] if shapes and shapes[0] else 1
    mine = torch.tensor([zlib.crc32(repr(shapes).encode()), rows], device=device)
    checksums, sizes = torch.stack(_all_gather(mine, group)).T.tolist()
    if len(set(checksums)) > 1:
        raise ValueError(
            f"DataLoader: `gather` needs tensors of one shape, but in this step the processes have {sizes} rows, "
            "because no row is repeated to make the parts equal. Use `accelerator.gather_for_metrics`, which returns "
            "each row once. What `even_batches=True` does in Accelerate's own loaders, where the last rows must be cut "
            'off again, `DataLoader(..., distributed=True, tail="repeat")` does here.'
        )


def _parts_are_equal(loader: DataLoader) -> bool:
    """Whether all processes know that they all have the same number of rows in this step."""
    if is_own_stream(config_of(loader)) or own_arguments(loader).tail == "padded":
        return False
    info = progress_of(loader).info
    assert info is not None, "there is a step"
    return own_arguments(loader).split == "balanced" and info.global_valid % info.num_replicas == 0


def _gather(leaf: torch.Tensor, sizes: list[int], group: dist.ProcessGroup) -> torch.Tensor:
    most = max(sizes)
    if len(leaf) < most:
        leaf = torch.cat([leaf, leaf.new_zeros(most - len(leaf), *leaf.shape[1:])])
    parts = _all_gather(leaf, group)
    return torch.cat([part[:size] for part, size in zip(parts, sizes)])


def _all_gather(tensor: torch.Tensor, group: dist.ProcessGroup) -> list[torch.Tensor]:
    tensor = tensor.contiguous()
    parts = [torch.empty_like(tensor) for _ in range(group.size())]
    dist.all_gather(parts, tensor, group=group)
    return parts


def _has_rows(leaf: Any, rows: int | None) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and len(leaf) == rows
