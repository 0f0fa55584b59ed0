# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a task is: bytes on disk, the tensors that must come out of them, and a program for each system."""

import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Literal

import torch

Batch = Sequence[torch.Tensor]
# Opens an epoch; called once for each.
Epoch = Callable[[], Iterable[Batch]]
# Does once what no epoch pays for (imports, data into memory, files in the system's own format), and returns the epoch.
Program = Callable[[Path], Epoch]
# A shuffled epoch moves its rows by at least this share of their number on average; a full shuffle by a third.
LEAST_SHIFT = 0.05


class WrongOutput(Exception):
    """A system delivered something else than the task asks for. Such a system has no figure."""


@dataclass(frozen=True)
class Task:
    """One comparison.

    `leaves`: dtype and shape of a row for each tensor of a batch. `ids`: the numbers of a batch's rows, read from its
    contents and checked against all of them; raises WrongOutput. `packages`: what a system needs beside torch, by the
    names they are installed under. `ranks`: processes that take part. Only where `inexact` may an epoch repeat or lose
    rows; these are counted then.
    """

    name: str
    title: str
    rows: int
    batch: int
    leaves: tuple[tuple[torch.dtype, tuple[int, ...]], ...]
    write: Callable[[Path], None]
    ids: Callable[[Batch, Path], torch.Tensor]
    systems: dict[str, Program]
    order: Literal["kept", "shuffled", "any"] = "kept"
    ranks: int = 1
    inexact: bool = False


def check_batch(task: Task, batch: Batch, folder: Path) -> torch.Tensor:
    """The numbers of the rows of `batch`, whose types, shapes and contents are as the task wants them."""
    if len(batch) != len(task.leaves):
        raise WrongOutput(f"{len(batch)} tensors in a batch, not {len(task.leaves)}")
    for number, (leaf, (dtype, shape)) in enumerate(zip(batch, task.leaves, strict=True)):
        if not isinstance(leaf, torch.Tensor):
            raise WrongOutput(f"leaf {number} is of {type(leaf).__name__}, not a tensor")
        if leaf.dtype != dtype or tuple(leaf.shape[1:]) != shape:
            raise WrongOutput(f"leaf {number} is {leaf.dtype} {list(leaf.shape)}, not {dtype} [rows, *{list(shape)}]")
    if len({len(leaf) for leaf in batch}) != 1:
        raise WrongOutput("the tensors of a batch have different numbers of rows")
    return task.ids(batch, folder)


def check_epoch(task: Task, batches: Iterable[Batch], folder: Path) -> None:
    """Takes a whole epoch of one process: every row exactly once, in full batches but for the last, in the order that
    the task asks for."""
    found = [check_batch(task, batch, folder) for batch in batches]
    sizes = [len(ids) for ids in found]
    if any(size != task.batch for size in sizes[:-1]) or (sizes and sizes[-1] > task.batch):
        raise WrongOutput(f"batches of {sorted(set(sizes))} rows, not of {task.batch}")
    ids = torch.cat(found) if found else torch.empty(0, dtype=torch.int64)
    repeated, missing = count_errors(task, ids)
    if repeated or missing:
        raise WrongOutput(f"{repeated} rows repeated, {missing} missing, of {task.rows}")
    shift = (ids - torch.arange(task.rows)).abs().double().mean().item() / task.rows
    if task.order == "shuffled" and shift < LEAST_SHIFT:
        raise WrongOutput(f"not shuffled: rows moved by {shift:.1%} of the epoch on average")
    if task.order == "kept" and shift > 0:
        raise WrongOutput("not in order")


def count_errors(task: Task, ids: torch.Tensor) -> tuple[int, int]:
    """How many rows too many, and how many missing."""
    if len(ids) and not (ids.min() >= 0 and ids.max() < task.rows):
        raise WrongOutput(f"a row that does not exist: {ids.min().item()} or {ids.max().item()}")
    counts = torch.bincount(ids, minlength=task.rows)
    return int((counts - 1).clamp(min=0).sum()), int((counts == 0).sum())


def same(first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    """`first`, which all `others` must be equal to."""
    if not all(torch.equal(first, other) for other in others):
        raise WrongOutput("the parts of a row do not belong together")
    return first


def tensors(arrays: Iterable) -> list[torch.Tensor]:
    """Arrays of numpy or of TensorFlow as tensors that share their memory."""
    return [torch.from_numpy(array) if hasattr(array, "strides") else torch.from_dlpack(array) for array in arrays]


def each(convert: Callable, batches: Callable[[], Iterable]) -> Epoch:
    """Epochs of `batches`, each batch converted in the consumer's thread."""
    return lambda: map(convert, batches())


@functools.cache
def mosaic() -> types.ModuleType:
    """MosaicML's `streaming`. Its import needs torchvision for classes that nothing here uses; the only build that pip
    finds may be one for another torch. Empty modules stand in for it then."""
    import importlib

    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        for name in ("torchvision", "torchvision.datasets", "torchvision.transforms.functional"):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__spec__ = ModuleSpec(name, None)
        sys.modules["torchvision.datasets"].VisionDataset = object
        sys.modules["torchvision.transforms.functional"].to_tensor = None
    return importlib.import_module("streaming")


def spdl_epoch(source: Callable[[], Iterable], function: Callable, threads: int = 2) -> Callable[[], Iterator]:
    """SPDL's pipeline of one stage, in threads; as in its guide."""
    from spdl.pipeline import PipelineBuilder

    def epoch() -> Iterator:
        builder = PipelineBuilder().add_source(source())
        builder = builder.pipe(function, concurrency=threads, output_order="input").add_sink(2 * threads)
        pipeline = builder.build(num_threads=threads)
        with pipeline.auto_stop():
            yield from pipeline.get_iterator()

    return epoch


@functools.cache
def ray_data():
    """Ray Data on this machine alone, without its progress bars."""
    import logging

    import ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    return ray.data
