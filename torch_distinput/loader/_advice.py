# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Advice for a loader whose program waits for data: only arguments that it takes and does not have yet."""

from torch_distinput._C import available_cpus
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._order import stock_order
from torch_distinput.observe import _network, _workers
from torch_distinput.observe._network import NetworkStats
from torch_distinput.observe._stats import Stats, general_advice
from torch_distinput.ops._base import native_of

_LEAST_AHEAD = 1 << 24  # bytes
_DEFAULT_AHEAD = 1 << 26  # bytes that are read ahead where `prefetch_bytes` is None
_LESS = "do less per row: fewer bytes, smaller images, fewer operations"


def advice_for(config: LoaderConfig, native: bool, bound: str, stats: Stats) -> str:
    """One or two sentences of advice for a program that is limited by `bound` of `stats`. Arguments in backquotes can
    be passed to the loader as written. `native`: whether native code makes the batches."""
    if bound == "latency" and native and stats.network is not None:
        return _network.advice(bound, stats.network, f"`prefetch_bytes={_bytes_that_fill(stats.network, config)}`")
    if bound not in ("read", "decode", "python", "copy"):
        return general_advice(bound, stats)
    if stats.workers is not None:
        return _workers.advice(stats.workers)
    if not native:
        return _of_python(config, bound)
    return (_of_pipeline if isinstance(config.dataset, Dataset) else _of_native_rows)(config, bound, stats)


def _of_python(config: LoaderConfig, bound: str) -> str:
    own = "operations of this library instead of Python, where they exist, copy rows without it."
    if bound == "copy":
        return "Copy fewer bytes, such as uint8 that becomes numbers on the device."
    workers = config.num_workers
    if config.is_stream and not isinstance(config.dataset, Dataset):
        if workers == 0:
            return f"`num_workers=1` lets a worker process make the rows meanwhile; {own}"
        return (
            f"Make rows faster; {own} More workers help only if the dataset gives each of them its own share "
            "(`torch.utils.data.get_worker_info`)."
        )
    if workers == 0:
        return f"`num_workers={max(2, available_cpus())}` lets worker processes make the rows meanwhile; {own}"
    if workers < available_cpus():
        return f"More workers, `num_workers={available_cpus()}`; {own}"
    return (
        f"Each of the {available_cpus()} CPUs has a worker: do less per row; {own} Rows that wait for files or a "
        f"network gain from more workers than CPUs, despite torch's warning: `num_workers={2 * workers}`."
    )


def _of_native_rows(config: LoaderConfig, bound: str, stats: Stats) -> str:
    if bound == "copy":
        return _of_copies(config, stats)
    if not config.distributed and stock_order(config.batch_sampler) is None:
        return (
            "Rows at the indices of a sampler of yours are copied in the caller's thread. Without it (`shuffle=True`, "
            f"or a `Subset` of the rows), `num_workers={max(2, available_cpus())}` lets threads copy rows ahead."
        )
    if not stats.queue_room:
        return (
            f"`num_workers={max(2, available_cpus())}` lets threads copy rows ahead, if nothing writes to the data "
            f"meanwhile; or {_LESS}."
        )
    if 0 < config.num_workers < available_cpus():
        return f"More threads, `num_workers={available_cpus()}`; or {_LESS}."
    return f"All {available_cpus()} CPUs work on rows: {_LESS}."


def _of_pipeline(config: LoaderConfig, bound: str, stats: Stats) -> str:
    if bound == "copy":
        return _of_copies(config, stats)
    if bound == "python":
        calls = [op.call for op in native_of(config.dataset).ops()]
        if any(call.startswith("map(") and "num_parallel_calls" not in call for call in calls):
            return (
                "`map(..., num_parallel_calls=2)` lets calls overlap where the function waits or releases Python's "
                "lock; or use this library's own operations instead of the function."
            )
        return "Use this library's own operations or sources instead of the Python function, or make that faster."
    threads = native_of(config.dataset).options().num_threads
    few = [n for n in (threads, config.num_workers) if n is not None and 0 < n < available_cpus()]
    told = f"more threads, `num_workers={available_cpus()}`" if few else ""
    if bound == "read":
        return f"Give the reader larger or fewer files, a faster disk{', or ' + told if told else ''}."
    return f"{told.capitalize()}; or {_LESS}." if told else f"{_LESS.capitalize()}."


def _of_copies(config: LoaderConfig, stats: Stats) -> str:
    ahead = max(_LEAST_AHEAD, 4 * (stats.bytes or 0) // max(stats.batches, 1))
    given = config.prefetch_bytes
    more = "" if given is not None and given >= ahead else f", or let them be made earlier: `prefetch_bytes={ahead}`"
    return f"Copy fewer bytes (uint8 and `normalize_images` on the device){more}."


def _bytes_that_fill(network: NetworkStats, config: LoaderConfig) -> int:
    """Twice the bytes of as many requests as may run at a time, and twice as many as may be read ahead now."""
    of_requests = network.limit * network.bytes // max(network.requests, 1)
    return 2 * max(of_requests, _DEFAULT_AHEAD if config.prefetch_bytes is None else config.prefetch_bytes)
