# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torchtitan: a DataLoader that its Trainer builds from a config, feeds from and checkpoints. Needs torchtitan."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

import torch
import torch.distributed as dist
import tyro
from torch.distributed.device_mesh import DeviceMesh

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.frameworks._distribute import TAIL
from torch_distinput.frameworks._token_batches import flat_batch, next_tokens
from torch_distinput.loader import _data_loader as data_loader
from torch_distinput.loader._config import config_of, ranks_of
from torch_distinput.loader.orders._exact_sampler import group_size_and_rank
from torch_distinput.loader.orders._exchanged import is_own_stream
from torch_distinput.loader.state import _by_stream

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
        repeat: whether an iterator goes on with the next epoch. Without it, the data end at the same step on all ranks,
            and torchtitan's training with them.
        num_tokens_per_batch: with it, batches are joined rows of tokens, as torchtitan has them from its Grain loader
            on: one dim of this length, the last ones padded with token 0 and labels -100.

    All other arguments are those of `torch_distinput.DataLoader`; only `tail` has another default, which leaves no part
    without rows if possible. With `num_tokens_per_batch` it is "zero_rows", because such parts are padded.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """What `config.dataloader` of torchtitan's Trainer or Validator may be."""

        dataset: Annotated[Callable[[Any, int], Any], tyro.conf.Suppress]
        """A function of torchtitan's tokenizer and of the length of a row: the whole dataset, on every rank. Its rows
        are `(inputs, labels)`: a dict of tensors of that length with the entry "input", and such a tensor."""

        repeat: Annotated[bool, tyro.conf.Suppress] = True
        """Whether the next epoch follows. The name in torchtitan's main branch, which its Validator sets."""

        infinite: Annotated[bool, tyro.conf.Suppress] = True
        """What the Validator of torchtitan 0.3 sets instead: False ends the data as `repeat=False` does."""

        arguments: Annotated[dict[str, Any], tyro.conf.Suppress] = field(default_factory=dict)
        """Further arguments of `torch_distinput.DataLoader`."""

        def build(
            self,
            *,
            dp_rank: int,
            dp_world_size: int,
            tokenizer: Any = None,
            seq_len: int | None = None,
            local_batch_size: int | None = None,
            max_context_length: int | None = None,
            num_tokens_per_batch: int | None = None,
            snapshot_every_n_steps: int | None = None,
        ) -> DataLoader:
            """The loader of this process, from what the Trainer passes: rows and their length in torchtitan 0.3, the
            tokens of a batch and the length of a context in its main branch. All ranks call it together."""
            length = seq_len if max_context_length is None else max_context_length
            if length is None:
                raise ValueError("DataLoader.Config.build: got neither `seq_len` nor `max_context_length`.")
            if num_tokens_per_batch is not None:
                if num_tokens_per_batch % length:
                    raise ValueError(
                        f"DataLoader.Config.build: `num_tokens_per_batch` must be a multiple of the length of a row, "
                        f"{length}, but is {num_tokens_per_batch}."
                    )
                local_batch_size = num_tokens_per_batch // length
            return self._owner(
                self.dataset(tokenizer, length),
                dp_rank,
                dp_world_size,
                distributed=_data_ranks(dp_rank, dp_world_size, dist.group.WORLD),
                repeat=self.repeat and self.infinite,
                num_tokens_per_batch=num_tokens_per_batch,
                **{"batch_size": local_batch_size, "snapshot_every_n_steps": snapshot_every_n_steps} | self.arguments,
            )

    def __init__(
        self,
        dataset: Any,
        dp_rank: int,
        dp_world_size: int,
        *,
        distributed: Any = True,
        repeat: bool = False,
        num_tokens_per_batch: int | None = None,
        **kwargs: Any,
    ):
        size, rank = group_size_and_rank(ranks_of(distributed))
        if (rank, size) != (dp_rank, dp_world_size):
            raise ValueError(
                f"DataLoader: torchtitan's data rank is {dp_rank} of {dp_world_size}, but `distributed` is a group in "
                f"which this process is {rank} of {size}; pass the mesh dimension of the data ranks."
            )
        self._dp_rank = dp_rank
        self._repeat = repeat
        self._num_tokens_per_batch = num_tokens_per_batch
        tail = {} if kwargs.get("drop_last") else {"tail": TAIL if num_tokens_per_batch is None else "zero_rows"}
        super().__init__(dataset, distributed=distributed, **tail | kwargs)

    def __iter__(self) -> Any:
        batches = self._epochs() if self._repeat else super().__iter__()
        if self._num_tokens_per_batch is None:
            return batches
        return (flat_batch(batch, self._num_tokens_per_batch) for batch in batches)

    def __bool__(self) -> bool:
        """True: torchtitan asks whether there is a loader, and a length may be unknown."""
        return True

    def _epochs(self) -> Iterator[Any]:
        """The steps of epoch after epoch. The rest of one that a state had ended is empty."""
        empty = 0
        while empty < 2:
            empty += 1
            for batch in super().__iter__():
                empty = 0
                yield batch
        raise ValueError("DataLoader: `repeat` needs data, but two epochs in a row had no step.")

    def state_dict(self) -> dict[str, Any]:
        """The position, under a key that data ranks with the same state share: all of them, or only this rank if ranks
        read streams of their own. torch.distributed.checkpoint then saves each state once. Under policy STREAMS, each
        stream that this rank reads has a key of its own, too, so that other ranks can load it."""
        state = super().state_dict()
        parts = _by_stream.parts_of(state) or {self._key(): state}
        return {key: _written(part) for key, part in parts.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:  # type: ignore[override]
        """Continues from a saved position; `{}` starts again, as in torchtitan."""
        if not state_dict:
            return super().load_state_dict({})
        if _by_stream.SHARED in state_dict:
            parts = {key: _read(part) for key, part in state_dict.items()}
            return super().load_state_dict(_by_stream.state_of_parts(parts, super().state_dict()))
        if self._key() not in state_dict:
            raise ValueError(
                f"load_state_dict: the state must have the key {self._key()!r}, but has "
                f"{sorted(map(str, state_dict))}; streams of the data ranks' own resume on the same number of data "
                "ranks only."
            )
        return super().load_state_dict(_read(state_dict[self._key()]))

    def _key(self) -> str:
        return f"dp_rank_{self._dp_rank}" if is_own_stream(config_of(self)) else "all_dp_ranks"


def _written(state: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def _read(written: bytes) -> Any:
    return torch.load(io.BytesIO(written), weights_only=True)


def next_token_rows(packed: Dataset) -> Dataset:
    """Rows of `Dataset.pack(length + 1)` as torchtitan trains on them: `({"input": [length], "positions": [length]},
    labels [length])`. A label is the next token of the same document, or -100, which torchtitan's losses leave out."""
    return packed.map(next_tokens)


@lru_cache(maxsize=1)  # a Validator builds a loader each time, and groups are never freed
def _data_ranks(dp_rank: int, dp_world_size: int, world: Any) -> Any:
    """What `distributed` takes for torchtitan's data ranks: ranks with the same `dp_rank` read the same rows. All
    processes of the group `world` call it together, because it may make groups."""
    if dp_world_size == dist.get_world_size(world):
        return True
    told = _C.all_gather_bytes(world, dp_rank.to_bytes(4, "little"))
    data_ranks = [int.from_bytes(data, "little") for data in told]
    peers = [[rank for rank, of in enumerate(data_ranks) if of == row] for row in range(dp_world_size)]
    device_type = importlib.import_module("torchtitan.tools.utils").device_type
    return DeviceMesh(device_type, torch.tensor(peers), mesh_dim_names=("data", "peers"))["data"]
