# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Chooses which path serves a DataLoader, and says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info
from torch.utils.data.dataloader import _DatasetKind

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.loader._iterators import CallerIter, LoaderIter, WorkersIter
from torch_distinput.loader._native import (
    PipelineIter,
    RowsIter,
    SampledRowsIter,
    options_of,
    reads_ahead,
    row_options,
)
from torch_distinput.loader.state._order import StockOrder, stock_order
from torch_distinput.loader.workers._pool import (
    devices_read,
    open_pool,
    start_method,
    why_not_page_locked,
    why_torchs_pool,
)
from torch_distinput.recognize._collation import can_collate, collated, converted, is_stock_collate, is_stock_convert
from torch_distinput.recognize._native_source import NotNative, Source
from torch_distinput.recognize._sources import source_of

if TYPE_CHECKING:
    from torch_distinput.loader._data_loader import DataLoader


_CALLER = "caller"


@dataclass(frozen=True)
class LoaderPath:
    """The path of one iterator: its name, why it was chosen, the function that opens the iterator, the native pipeline
    that it runs, or else the threads or processes that make the rows."""

    name: str
    why: str
    open: Callable[[], LoaderIter]
    pipeline: _C.Dataset | None = None
    threads: str = ""


def choose_path(loader: DataLoader) -> LoaderPath:
    """The native path where dataset and arguments of the loader allow it, else a path of torch's own iterators.

    Raises ValueError where an argument needs the native path and it cannot be taken.
    """
    try:
        _check_options(loader)
        if isinstance(loader.dataset, Dataset):
            return _pipeline_path(loader)
        return _rows_path(loader)
    except NotNative as reason:
        return _python_path(loader, str(reason))


def _check_options(loader: DataLoader) -> None:
    if loader.timeout:
        raise NotNative("`timeout` is about worker processes")
    if loader.num_workers > 0:
        if loader.worker_init_fn is not None:
            raise NotNative("`worker_init_fn` runs in worker processes")
        if loader.multiprocessing_context is not None:
            raise NotNative("`multiprocessing_context` is about worker processes")
        if not loader.prefetch_factor:
            raise NotNative("`prefetch_factor` is 0")


def _rows_path(loader: DataLoader) -> LoaderPath:
    if loader._dataset_kind != _DatasetKind.Map:
        raise NotNative("the dataset is a Python IterableDataset")
    if not loader._auto_collation:
        raise NotNative("samples are not batched")
    if not is_stock_collate(loader.collate_fn):
        raise NotNative("`collate_fn` is not torch's default, or types were added to it")
    source = source_of(loader.dataset)
    order = stock_order(loader.batch_sampler)
    rows = f"rows of a {type(loader.dataset).__name__} are copied"
    note = f"; random numbers of {', '.join(source.draws)} belong to rows, and are not torch's" if source.draws else ""
    if order is not None and order.shuffle and loader._loader_config.order == "torch":
        note += "; in torch's order, which is held in memory"
    if order is None or order.size != source.native.cardinality():
        why = f"{rows} at the sampler's indices{note}"
        return LoaderPath("native", why, lambda: SampledRowsIter(loader, source), threads=_CALLER)
    if source.steady or reads_ahead(loader):
        why = f"{rows} ahead by threads"
    else:
        why = (
            f"{rows} at the time of the request, because a write to them leaves no trace; "
            "with `num_workers` or `prefetch_bytes` threads copy them ahead"
        )
    pipeline = _rows_pipeline(loader, source, order)
    return LoaderPath("native", why + note, lambda: RowsIter(loader, source, order), pipeline)


def _rows_pipeline(loader: DataLoader, source: Source, order: StockOrder) -> _C.Dataset:
    """What RowsIter opens, without its seed and position."""
    # torch's permutation is drawn when the first batch is made, and is as large as the dataset.
    shuffles = order.shuffle and loader._loader_config.order != "torch"
    rows: Any = source.native.shuffle(None, None, True) if shuffles else source.native
    options = row_options(source, options_of(loader), reads_ahead(loader))
    return rows.batch(order.batch_size, order.drop_last).with_options(options)


def _pipeline_path(loader: DataLoader) -> LoaderPath:
    if get_worker_info() is not None:
        raise NotNative("a worker process reads its share of the dataset")
    pipeline: Any = loader.dataset._native
    spec = pipeline.element_spec
    if loader._auto_collation:
        if not is_stock_collate(loader.collate_fn):
            raise NotNative("`collate_fn` is not torch's default, or types were added to it")
        if spec is None or not can_collate(spec):
            raise NotNative(f"torch's default collate_fn may return something else for {spec}")
        pipeline, convert = pipeline.batch(loader.batch_size, loader.drop_last), collated(spec)
    else:
        if not is_stock_convert(loader.collate_fn):
            raise NotNative("`collate_fn` is not torch's default")
        convert = converted(spec) if spec is not None else loader.collate_fn
    if loader.num_workers > 0:
        pipeline = pipeline.prefetch(loader.num_workers * (loader.prefetch_factor or 0))
    pipeline = pipeline.with_options(options_of(loader))
    why = "the dataset is a pipeline of this library"
    return LoaderPath("native", why, lambda: PipelineIter(loader, pipeline, convert), pipeline)


def _python_path(loader: DataLoader, why: str) -> LoaderPath:
    if loader._loader_config.prefetch_bytes is not None:
        raise ValueError(f"DataLoader: `prefetch_bytes` is for native data, but here Python makes the rows: {why}.")
    kind = "per-sample Python"
    if loader._dataset_kind == _DatasetKind.Map and getattr(loader.dataset, "__getitems__", None):
        kind = "batched Python"
    if loader.num_workers > 0:
        return _workers_path(loader, kind, f"{why}; in {loader.num_workers} worker processes")
    why = f"{why}; in the caller's thread, without read-ahead"
    return LoaderPath(kind, why, lambda: CallerIter(loader), threads=_CALLER)


def _workers_path(loader: DataLoader, kind: str, why: str) -> LoaderPath:
    _check_start(loader)
    obstacle = why_torchs_pool(loader)
    threads = f"{loader.num_workers} processes"
    if obstacle is not None:
        why = f"{why} of torch's pool, because {obstacle}"
        return LoaderPath(kind, why, lambda: WorkersIter(loader, None), threads=threads)
    if devices_read(loader):
        refusal = why_not_page_locked(loader)
        if refusal is None:
            why += "; devices copy from the workers' memory, which is page-locked once"
        else:
            why += f"; batches are copied to page-locked memory, because {refusal}"
    return LoaderPath(kind, why, lambda: WorkersIter(loader, open_pool(loader)), threads=threads)


def _check_start(loader: DataLoader) -> None:
    """Raises ValueError where workers would have to be sent a dataset of this library, which cannot be pickled."""
    context = loader.multiprocessing_context
    method = start_method() if context is None else context.get_start_method()
    if method != "fork" and isinstance(loader.dataset, Dataset):
        raise ValueError(
            "DataLoader: a dataset of this library cannot be pickled, and so not be sent to the worker processes of "
            f'`multiprocessing_context="{method}"`. Use `multiprocessing_context="fork"`, or leave `num_workers` and '
            "`multiprocessing_context` out, or use `.map` and `.batch` of the dataset with `batch_size=None`, which "
            "threads run."
        )
