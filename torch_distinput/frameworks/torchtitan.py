# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torchtitan: a DataLoader of the shape of its `ParallelAwareDataloader`. Needs torchtitan."""

from __future__ import annotations

import importlib
import io
from typing import Any

import torch

from torch_distinput.frameworks._distribute import TAIL
from torch_distinput.loader import _data_loader as data_loader
from torch_distinput.loader._config import config_of
from torch_distinput.loader.orders._exact_sampler import group_size_and_rank
from torch_distinput.loader.orders._exchanged import is_own_stream

# Where it is in torchtitan's main branch and in its releases up to 0.3.
_PLACES = ("torchtitan.components.data.loader", "torchtitan.components.dataloader")


def _base() -> Any:
    """torchtitan's `BaseDataLoader`. Raises ImportError if it is not in a known place."""
    for place in _PLACES:
        try:
            return importlib.import_module(place).BaseDataLoader
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("torchtitan."):  # a package that torchtitan needs, or itself
                raise
        except AttributeError:
            pass
    raise ImportError(
        f"torch_distinput.frameworks.torchtitan: this torchtitan has no `BaseDataLoader` in {' or '.join(_PLACES)}. "
        "`torch_distinput.DataLoader` itself has `state_dict` and `load_state_dict`, which its checkpoints need."
    )


BaseDataLoader: Any = _base()


class DataLoader(data_loader.DataLoader, BaseDataLoader):
    """`torch_distinput.DataLoader` as torchtitan builds and checkpoints one.

    Args:
        dataset: the whole dataset on every rank; a Python `IterableDataset` is this data rank's own stream.
        dp_rank, dp_world_size: what torchtitan passes. They have to be those of the group in `distributed`.
        distributed: the mesh dimension that torchtitan loads data along, `parallel_dims.get_mesh("batch")`, or True
            where all ranks are data ranks.

    All other arguments are those of `torch_distinput.DataLoader`; only `tail` has another default, which leaves no part
    without rows if possible.
    """

    def __init__(self, dataset: Any, dp_rank: int, dp_world_size: int, *, distributed: Any = True, **kwargs: Any):
        size, rank = group_size_and_rank(distributed)
        if (rank, size) != (dp_rank, dp_world_size):
            raise ValueError(
                f"DataLoader: torchtitan's data rank is {dp_rank} of {dp_world_size}, but `distributed` is a group in "
                f"which this process is {rank} of {size}; pass the mesh dimension of the data ranks."
            )
        self._dp_rank = dp_rank
        tail = {} if kwargs.get("drop_last") else {"tail": TAIL}
        super().__init__(dataset, distributed=distributed, **tail | kwargs)

    def state_dict(self) -> dict[str, Any]:
        """The position, under a key that data ranks with the same state share: all of them, or only this rank if ranks
        read streams of their own. torch.distributed.checkpoint then saves each state once."""
        buffer = io.BytesIO()
        torch.save(super().state_dict(), buffer)
        return {self._key(): buffer.getvalue()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from a saved position; `{}` starts again, as in torchtitan."""
        if not state_dict:
            return super().load_state_dict({})
        if self._key() not in state_dict:
            raise ValueError(
                f"load_state_dict: the state must have the key {self._key()!r}, but has "
                f"{sorted(map(str, state_dict))}; streams of the data ranks' own resume on the same number of data "
                "ranks only."
            )
        return super().load_state_dict(torch.load(io.BytesIO(state_dict[self._key()]), weights_only=True))

    def _key(self) -> str:
        return f"dp_rank_{self._dp_rank}" if is_own_stream(config_of(self)) else "all_dp_ranks"
