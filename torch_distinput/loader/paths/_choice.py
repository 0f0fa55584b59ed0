# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Chooses which path serves a DataLoader, and says why."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.utils.data import get_worker_info

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._order import stock_order
from torch_distinput.loader.paths._iterators import (
    CallerIter,
    LoaderIter,
    SiftingCallerIter,
    SiftingWorkersIter,
    WorkersIter,
)
from torch_distinput.loader.paths._native import (
    PipelineIter,
    RowsIter,
    SampledRowsIter,
    native_rows,
    options_of,
    reads_ahead,
)
from torch_distinput.loader.state._progress import Progress
from torch_distinput.loader.workers._pool import (
    devices_read,
    open_pool,
    why_not_page_locked,
    why_torchs_pool,
)
from torch_distinput.ops._base import native_of
from torch_distinput.recognize._collation import can_collate, collated, converted, is_stock_collate, is_stock_convert
from torch_distinput.recognize._fetch import Sifting
from torch_distinput.recognize._native_source import NotNative
from torch_distinput.recognize._sources import source_of

_CALLER = "caller"


@dataclass(frozen=True)
class LoaderPath:
    """The path of one iterator: its name, why it was chosen, the function that opens the iterator, and the native
    pipeline that it runs, or the threads or processes that make the rows."""

    name: str
    why: str
    open: Callable[[], LoaderIter]
    pipeline: _C.Dataset | None = None
    threads: str = ""


def choose_path(config: LoaderConfig, progress: Progress) -> LoaderPath:
    """The native path where dataset and arguments allow it, else a path of torch's own iterators.

    Raises ValueError if an argument needs the native path and the path cannot be taken.
    """
    try:
        _check_options(config)
        if isinstance(config.dataset, Dataset):
            return _pipeline_path(config, progress)
        return _rows_path(config, progress)
    except NotNative as reason:
        return _python_path(config, progress, str(reason))


def _check_options(config: LoaderConfig) -> None:
    if config.skips_rows:
        raise NotNative('`on_error="skip"` reads rows one by one')
    if config.timeout:
        raise NotNative("`timeout` is about worker processes")
    if config.num_workers > 0:
        if config.worker_init_fn is not None:
            raise NotNative("`worker_init_fn` runs in worker processes")
        if config.multiprocessing_context is not None:
            raise NotNative("`multiprocessing_context` is about worker processes")
        if not config.prefetch_factor:
            raise NotNative("`prefetch_factor` is 0")


def _rows_path(config: LoaderConfig, progress: Progress) -> LoaderPath:
    if config.is_stream:
        raise NotNative("the dataset is a Python IterableDataset")
    if not config.auto_collation:
        raise NotNative("samples are not batched")
    if not is_stock_collate(config.collate_fn):
        raise NotNative("`collate_fn` is not torch's default, or types were added to it")
    source = source_of(config.dataset)
    order = stock_order(config.batch_sampler)
    rows = f"rows of a {type(config.dataset).__name__} are copied"
    note = f"; random numbers of {', '.join(source.draws)} belong to rows, and are not torch's" if source.draws else ""
    if order is not None and order.shuffle and config.order == "torch":
        note += "; in torch's order, which is held in memory"
    if order is None or order.size != source.native.cardinality():
        why = f"{rows} at the sampler's indices{note}"
        return LoaderPath("native", why, lambda: SampledRowsIter(config, progress, source), threads=_CALLER)
    if source.steady or reads_ahead(config):
        why = f"{rows} ahead by threads"
    else:
        why = (
            f"{rows} at the time of the request, because a write to them leaves no trace; "
            "with `num_workers` or `prefetch_bytes` threads copy them ahead"
        )
    # torch's permutation is drawn when the first batch is made, and is as large as the dataset.
    shuffles = order.shuffle and config.order != "torch"
    pipeline = native_rows(config, source, order.batch_size, order.drop_last, shuffles=shuffles)
    return LoaderPath("native", why + note, lambda: RowsIter(config, progress, source, order), pipeline)


def _pipeline_path(config: LoaderConfig, progress: Progress) -> LoaderPath:
    if get_worker_info() is not None:
        raise NotNative("a worker process reads its share of the dataset")
    pipeline: Any = native_of(config.dataset)
    spec = pipeline.element_spec
    if config.auto_collation:
        if not is_stock_collate(config.collate_fn):
            raise NotNative("`collate_fn` is not torch's default, or types were added to it")
        if spec is None or not can_collate(spec):
            raise NotNative(f"torch's default collate_fn may return something else for {spec}")
        pipeline, convert = pipeline.batch(config.batch_size, config.drop_last), collated(spec)
    else:
        if not is_stock_convert(config.collate_fn):
            raise NotNative("`collate_fn` is not torch's default")
        convert = converted(spec) if spec is not None else config.collate_fn
    if config.num_workers > 0:
        pipeline = pipeline.prefetch(config.num_workers * (config.prefetch_factor or 0))
    pipeline = pipeline.with_options(options_of(config))
    why = "the dataset is a pipeline of this library"
    return LoaderPath("native", why, lambda: PipelineIter(config, progress, pipeline, convert), pipeline)


def _python_path(config: LoaderConfig, progress: Progress, why: str) -> LoaderPath:
    if config.prefetch_bytes is not None and not config.num_workers:
        raise ValueError(
            "DataLoader: `prefetch_bytes` needs `num_workers` here, where Python makes the rows, and none ahead in the "
            f"caller's thread: {why}."
        )
    kind = "per-sample Python"
    if not config.is_stream and getattr(config.dataset, "__getitems__", None):
        kind = "batched Python"
    if config.num_workers > 0:
        return _workers_path(config, progress, kind, f"{why}; in {config.num_workers} worker processes")
    why = f"{why}; in the caller's thread, without read-ahead"
    caller = SiftingCallerIter if config.skips_rows else CallerIter
    return LoaderPath(kind, why, lambda: caller(config, progress), threads=_CALLER)


def _workers_path(config: LoaderConfig, progress: Progress, kind: str, why: str) -> LoaderPath:
    obstacle = why_torchs_pool(config)
    if config.on_worker_death == "restart":
        _check_restarts(config, obstacle)
    threads = f"{config.num_workers} processes"
    workers = SiftingWorkersIter if config.skips_rows else WorkersIter
    if obstacle is not None:
        if config.skips_rows or isinstance(config.collate_fn, Sifting):
            raise ValueError(f'DataLoader: `on_error="skip"` needs this library\'s pool of workers, but {obstacle}.')
        why = f"{why} of torch's pool, because {obstacle}"
        return LoaderPath(kind, why, lambda: WorkersIter(config, progress, None), threads=threads)
    if devices_read(config):
        refusal = why_not_page_locked(config)
        if refusal is None:
            why += "; devices copy from the workers' memory, which is page-locked once"
        else:
            why += f"; batches are copied to page-locked memory, because {refusal}"
    return LoaderPath(kind, why, lambda: workers(config, progress, open_pool(config)), threads=threads)


def _check_restarts(config: LoaderConfig, obstacle: str | None) -> None:
    """Raises ValueError if no other process could take the place of a worker."""
    if obstacle is not None:
        raise ValueError(
            "DataLoader: `on_worker_death=\"restart\"` needs this library's pool of workers, but torch's must run "
            f"them: {obstacle}."
        )
    if isinstance(config.dataset, Dataset):
        raise ValueError(
            'DataLoader: `on_worker_death="restart"` cannot restore the place of a dataset of this library in a worker '
            "process; leave `collate_fn` out, or use `.map` and `.batch` of the dataset with `batch_size=None`, which "
            "threads run."
        )
