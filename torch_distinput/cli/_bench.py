# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`bench`: measure a loader of a script beside its limit, and what a faster loader would gain."""

import argparse
import functools
import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from torch_distinput.base._structure import map_leaves
from torch_distinput.cli._target import add_target, load_target
from torch_distinput.distribute._values import PerReplica
from torch_distinput.loader._data_loader import DataLoader, advise
from torch_distinput.observe._stats import HIDDEN, Stats, Verdict, general_advice, stats_of, verdict_of

_TURNS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_target(parser)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each of the measurements runs (3)")
    parser.add_argument(
        "--step",
        metavar="NAME",
        help="a function of the script that trains on one batch; it is measured with the loader, and then with one "
        "batch again and again, which is as fast as training can get",
    )


def run(arguments: argparse.Namespace) -> None:
    """Prints the figures. ValueError for a loader without batches, LookupError where the script has no such step."""
    if not arguments.seconds > 0:
        raise ValueError(f"`--seconds` must be above 0, but is {arguments.seconds}.")
    loader, names = load_target(arguments.target, arguments.script_arguments)
    step = None
    if arguments.step is not None:
        if not callable(names.get(arguments.step)):
            raise LookupError(f"the script defines no function `{arguments.step}`.")
        step = names[arguments.step]
    batches = _endless(loader)
    cached = next(batches)  # the first batch opens files and starts threads, and is not measured
    for line in measure(loader, batches, cached, step, arguments.seconds):
        print(line)


def measure(
    loader: Any, batches: Iterator[Any], cached: Any, step: Callable[[Any], Any] | None, seconds: float
) -> Iterator[str]:
    """Lines with the rates of the loader, of a copy of the cached batch, and of training with each."""
    rows = rows_of(cached)
    rate = _train(batches, lambda batch: None, seconds).rate
    limit = _train(itertools.repeat(cached), _copy, seconds).rate
    yield f"loader:           {_shown(rate, rows)}"
    yield f"limit:            {_shown(limit, rows)}: one copy of a batch in memory, {rate / limit:.1%} reached"
    if step is not None:
        # In turns, so that other load on the machine affects both.
        turns = [
            (_train(batches, step, seconds / _TURNS), _train(itertools.repeat(cached), step, seconds / _TURNS).rate)
            for _ in range(_TURNS)
        ]
        yield f"training:         {_shown(statistics.median(train.rate for train, _ in turns), rows)}"
        replayed = statistics.median(replay for _, replay in turns)
        yield f"training, cached: {_shown(replayed, rows)}: one batch again and again"
        yield from conclusions(loader, [train for train, _ in turns], [replay / train.rate for train, replay in turns])


@dataclass(frozen=True)
class Training:
    """A turn of training, or of other use of batches: batches, seconds inside `next`, and seconds inside the step."""

    batches: int
    waited: float
    worked: float

    @property
    def rate(self) -> float:
        """Batches a second."""
        return self.batches / (self.waited + self.worked)


def conclusions(loader: Any, turns: Sequence[Training], gains: Sequence[float]) -> Iterator[str]:
    """Lines on what a perfect loader would gain and why, all from the same turns of training.

    Args:
        gains: for each turn, how much faster training on one repeated batch was: without waits, and without the CPU
            time that loading takes from the step.
    """
    waited, worked = sum(turn.waited for turn in turns), sum(turn.worked for turn in turns)
    share = waited / (waited + worked)
    gain, least, most = (max(value, 1.0) for value in (statistics.median(gains), min(gains), max(gains)))
    yield (
        f"a perfect loader would make training {gain:.2f} times as fast ({least:.2f} to {most:.2f} in {len(gains)} "
        f"turns), {1 / (1 - share):.2f} times by not waiting for data, which takes {share:.1%}"
    )
    if share < HIDDEN and least > 1 + HIDDEN:
        yield (
            "the step hardly waits, but is slower beside the loader than without: give loading fewer threads "
            "(`num_workers`, `Options(num_threads=...)`), or the step CPUs of its own"
        )
        return
    if hasattr(loader, "stats"):
        yield f"training was {_verdict(loader, stats_of(loader), sum(turn.batches for turn in turns), waited, worked)}"


def _verdict(loader: Any, stats: Stats, batches: int, waited: float, worked: float) -> Verdict:
    """The verdict on the turns: the loader's counters are of its last epoch."""
    peer = stats.peer_seconds * waited / stats.wait_seconds if stats.wait_seconds else 0.0
    measured = replace(stats, batches=batches, wait_seconds=waited, consumer_seconds=worked, peer_seconds=peer)
    advice = functools.partial(advise, loader) if isinstance(loader, DataLoader) else general_advice
    return verdict_of(measured, advice)


def _train(batches: Iterator[Any], step: Callable[[Any], Any], seconds: float) -> Training:
    count, waited, began = 0, 0.0, time.perf_counter()
    while True:
        asked = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asked
        step(batch)
        count += 1
        passed = time.perf_counter() - began
        if passed >= seconds:
            return Training(count, waited, passed - waited)


def rows_of(batch: Any) -> int | None:
    """The rows of a batch: dim 0 of its first tensor; None where it has none."""
    found: list[int] = []

    def count(leaf: Any) -> None:
        if isinstance(leaf, PerReplica):
            found.append(sum(rows_of(value) or 0 for value in leaf.values))
        elif isinstance(leaf, torch.Tensor) and leaf.dim():
            found.append(len(leaf))

    map_leaves(count, batch)
    return found[0] if found else None


def _copy(batch: Any) -> None:
    def copied(leaf: Any) -> Any:
        if isinstance(leaf, PerReplica):
            return [copied(value) for value in leaf.values]
        return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf

    map_leaves(copied, batch)


def _endless(loader: Iterable[Any]) -> Iterator[Any]:
    """The batches of one epoch after the other. ValueError for an epoch without batches, TypeError for no iterable."""
    while True:
        empty = True
        for batch in loader:
            empty = False
            yield batch
        if empty:
            raise ValueError("the loader yields no batch; an iterator, which can be read once, is not a loader.")


def _shown(rate: float, rows: int | None) -> str:
    per_batch = f"{rate:,.1f} batches/s"
    return per_batch if rows is None else f"{per_batch}, {rate * rows:,.0f} rows/s"
