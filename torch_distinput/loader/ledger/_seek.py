# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Moves a loader's state to another step of its epoch, without reading rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._distributed import native_of as assigned_native_of
from torch_distinput.loader._config import LoaderConfig, accelerator_of
from torch_distinput.loader.orders._order import stock_order
from torch_distinput.loader.paths._choice import choose_path
from torch_distinput.loader.ranks._feed import Feed
from torch_distinput.loader.state._progress import Progress

State = dict[str, Any]


def moved(
    config: LoaderConfig, progress: Progress, feed: Feed | None, state: State, step: int, steps: int | None
) -> State | None:
    """`state`, which stands inside an epoch, at step `step` of it; None where only reading gets there. `steps`: of an
    epoch; None if unknown. Raises IndexError for a step beyond the end."""
    if steps is not None and step > steps:
        raise IndexError(f"seek: `step` must be at most {steps}, the number of steps, but is {step}.")
    found = _of_ranks if feed is not None else _of_pipeline if isinstance(config.dataset, Dataset) else _of_order
    fields = found(config, progress, feed, state, step)
    return None if fields is None else state | {"batches": step, "finished": False, **fields}


def _of_ranks(config: LoaderConfig, progress: Progress, feed: Any, state: State, step: int) -> State | None:
    assigned = feed.plan(config).dataset
    if assigned is None:
        return None
    seed = progress.last_seed if state["seed"] is None else state["seed"]
    if seed is None and not config.is_random and not isinstance(config.dataset, Dataset):
        seed = 0  # nothing is random, but positions hold a seed that ranks have agreed on
    if seed is None:
        return None
    iterator = assigned_native_of(assigned).iterate(epoch=state["epoch"], seed=seed)
    iterator.load_state_dict(state["distributed"] | {"seed": seed - 2**64 if seed >= 2**63 else seed})
    position = _position(iterator.state_at, "distributed", step)
    return None if position is None else position | {"seed": seed}


def _of_pipeline(config: LoaderConfig, progress: Progress, _: Any, state: State, step: int) -> State | None:
    pipeline = choose_path(config, progress).pipeline
    if pipeline is None or accelerator_of(config.device) is not None:
        return None
    iterator = pipeline.iterate(epoch=state["epoch"], seed=state["seed"])
    iterator.load_state_dict(state["native"])
    position = _position(iterator.state_at, "native", step)
    return None if position is None else position | {"rows": step * (config.batch_size or 1)}


def _position(state_at: Callable[[int], State], name: str, step: int) -> State | None:
    try:
        return {name: state_at(step)}
    except ValueError:
        return None


def _of_order(config: LoaderConfig, progress: Progress, _: Any, state: State, step: int) -> State | None:
    """The place in the indices of a sampler that has no state of its own."""
    if config.is_stream or progress.start.resized or any(state[name] is not None for name in ("dataset", "sampler")):
        return None
    order = stock_order(config.batch_sampler)
    rows = step * (config.batch_size or 1)
    if order is None:
        return {"rows": rows}
    own = "torch" if config.order == "torch" or choose_path(config, progress).pipeline is None else "native"
    drawn = {"permutation": state["permutation"] or own} if order.shuffle and state["seed"] is None else {}
    return {"rows": min(rows, order.size), "ended": False, **drawn}
