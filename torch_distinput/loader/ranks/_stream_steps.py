# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Steps where each rank reads a stream of its own: the ranks agree on their number."""

import functools
import queue
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._distributed import native_of
from torch_distinput.distribute._input_options import InputOptions
from torch_distinput.loader.orders._exact_sampler import group_size_and_rank
from torch_distinput.loader.paths._batches import joined, padded, rows_of
from torch_distinput.loader.ranks._steps import PythonSteps
from torch_distinput.recognize._stateful import Failed, Taken, attempt

_TOKENS = _C.TensorSpec([None], torch.int8)


@dataclass
class _Place:
    """A position where each rank reads its own stream. `row`: over all ranks. `after`: the inner loader's state."""

    step: int
    row: int
    world: int
    rank: int
    after: Taken | Failed

    def __call__(self) -> dict[str, Any]:
        return {"step": self.step, "row": self.row, "inner": self.after(), "world": self.world, "rank": self.rank}


class StreamSteps(PythonSteps):
    """Steps where each rank reads a stream of its own.

    The strategy gets tokens instead of batches: a tensor with as many entries as the batch has rows.
    """

    def _open(self) -> _C.DistributedIterator:
        strategy = self._feed.strategy(self._config)
        self._pads = self._config.tail == "padded"
        self._merges = self._config.tail == "merge"
        self._full = self._config.batch_size or 0  # rows of a full batch; without a batch size, the most seen
        self._first_step, self._first_row = self._restore(strategy.num_replicas_in_sync)
        self._inner: Any = None  # of a rank that follows
        if not self._follows_stream:
            self._inner = iter(self._plan.inner)
            self._workers = self._inner._workers
        self._batches: queue.SimpleQueue[tuple[Any, Taken | Failed]] = queue.SimpleQueue()
        after = attempt(self._plan.inner.state_dict)
        world, rank = group_size_and_rank(self._config.ranks)
        self._place = _Place(self._first_step, self._first_row, world, rank, after)
        self._position.native = self._place
        open_tokens = functools.partial(_tokens_of, self._inner, self._plan.inner, self._batches)
        tokens = Dataset(_C.Dataset.from_generator(open_tokens, _TOKENS, "DataLoader", lists_are_structure=False))
        options = InputOptions(
            per_replica_buffer_size=1 if self._config.num_workers else 0,  # 0 reads in the caller's thread
            # This class pads, because the strategy does not know how many rows a full batch has.
            tail="zero_rows" if self._pads or self._config.drop_last else self._config.tail,
            peer_timeout=self._config.peer_timeout,
            host_timeout=self._config.host_timeout,
        )
        assigned = strategy.distribute_datasets_from_function(lambda context: tokens, options)
        return native_of(assigned).iterate(epoch=self._start.epoch, facts=self._facts(rank))

    def exclude(self, rows: list[int]) -> None:
        raise ValueError("exclude: each rank reads a stream or a sampler of its own, whose rows have no numbers.")

    def _facts(self, rank: int) -> list[tuple[str, str]]:
        """Facts by which ranks check that each continues its own stream, and all at the same step. If all ranks share
        one stream, any rank's state will do."""
        saved = self._start.saved
        own = saved is not None and (self._config.stream_part is not None or saved["distributed"]["rank"] == rank)
        loaded = "none" if saved is None else "its own" if own else f"that of rank {saved['distributed']['rank']}"
        return [("state of a stream", loaded), ("first step", f"step {self._first_step}, row {self._first_row}")]

    def _restore(self, world: int) -> tuple[int, int]:
        """Loads the state of the inner loader, also that of a finished epoch; returns steps and rows before this
        iterator."""
        if self._start.saved is None:
            return 0, 0
        saved = self._start.saved["distributed"]
        if self._start.state is not None and saved["world"] != world:
            raise ValueError(
                f"load_state_dict: the state is of {saved['world']} ranks that read streams of their own, but "
                f"there are {world} ranks."
            )
        self._plan.inner.load_state_dict(saved["inner"])
        return (0, 0) if self._start.state is None else (saved["step"], saved["row"])

    def _follow_pinned_epoch(self) -> None:
        """Does nothing: a stream that has begun cannot change its epoch."""

    def _take(self) -> tuple[Any, _C.StepInfo] | None:
        if self._reads is not None:
            return self._shared_step(self._reads)
        step = self._read_step()
        return None if step is None else (self._moved(step[0]), step[1])

    def _read_step(self) -> tuple[Any, _C.StepInfo] | None:
        step = self._native.next(None)
        if step is None:
            # The epoch may end before this rank's stream does, as with tail="until_first".
            self._inner.finish()
            self._place.after = attempt(self._plan.inner.state_dict)
            return None
        token, info = step
        if info.has_value[0]:
            batch, self._place.after = self._next_batch(info)
            self._full = max(self._full, len(token))
            self._feed.post_example(self._config, batch)
            batch = self._kept(padded(batch, self._full) if self._pads and len(token) < self._full else batch)
        else:
            batch = self._dummy(self._full if self._pads else 0)
        self._place.step += 1
        self._place.row += info.global_valid
        return batch, self._placed(info)

    def _next_batch(self, info: _C.StepInfo) -> tuple[Any, Taken | Failed]:
        """The rank's next batch, joined with all that follow if the last step was merged, and the state after it."""
        batch, after = self._batches.get_nowait()
        batches = [batch]
        while self._merges and info.is_last and not self._batches.empty():
            batch, after = self._batches.get_nowait()
            batches.append(batch)
        return joined(batches), after

    def _example(self) -> Any:
        return self._feed.example(self._config)

    def _placed(self, info: _C.StepInfo) -> _C.StepInfo:
        """`info` with step and row counted from the beginning of the epoch, not from the restored position."""
        if not self._first_step:
            return info
        return _C.StepInfo(
            info.epoch,
            info.step + self._first_step,
            info.row_start + self._first_row,
            info.valid,
            info.global_valid,
            info.num_replicas,
            info.loss_scale,
            info.is_last,
            info.has_value,
        )


def _tokens_of(inner: Any, loader: Any, batches: queue.SimpleQueue) -> Iterator[torch.Tensor]:
    for batch in inner:
        batches.put((batch, attempt(loader.state_dict)))
        yield torch.zeros(rows_of(batch), dtype=torch.int8)
