# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Scalars`: a loader's counters in TensorBoard."""

from typing import Any

from torch_distinput.monitoring._meter import Meter
from torch_distinput.observe._stats import stats_of


class Scalars:
    """Writes what a loader measures with a `torch.utils.tensorboard.SummaryWriter`. One thread at a time.

    Args:
        writer: anything with `add_scalar(tag, value, step)` and `add_text(tag, text, step)`.
        source: a `DataLoader`, or an iterator with `stats()`.
        tag: what stands before the names: "input/wait_share" and so on.

    >>> from torch_distinput.monitoring.tensorboard import Scalars
    >>> class Printer:
    ...     def add_scalar(self, tag, value, step):
    ...         print(tag, step)
    >>> loader = tdi.DataLoader(torch.arange(8), batch_size=4)
    >>> scalars = Scalars(Printer(), loader)
    >>> batch = next(iter(loader))
    >>> scalars.write(1)
    input/batches_per_second 1
    ...
    """

    def __init__(self, writer: Any, source: Any, tag: str = "input"):
        self._writer, self._source, self._tag = writer, source, tag
        self._meter = Meter(source)

    def write(self, step: int) -> None:
        """Writes speed and busy times as of step `step` of the program."""
        speed, stats = self._meter.look(), stats_of(self._source)
        values = {
            "batches_per_second": speed.batches_per_second,
            "rows_per_second": speed.rows_per_second,
            "wait_share": speed.wait_share,
            "queue_ready": stats.queue_ready if stats.queue_room else None,
            "skipped": stats.skipped,
        }
        for stage in ("read", "build", "python", "copy", "peer"):
            values[f"seconds_per_batch/{stage}"] = stats[f"{stage}_seconds"] / max(stats.batches, 1)
        if stats.network:
            for name in ("bytes_per_second", "concurrency", "limit", "throttled", "answer_p50", "answer_p99"):
                values[f"network/{name}"] = getattr(stats.network, name)
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(f"{self._tag}/{name}", value, step)

    def write_verdict(self, step: int) -> None:
        """Writes the verdict as a text, as of step `step` of the program."""
        verdict = str(stats_of(self._source).verdict())
        self._writer.add_text(f"{self._tag}/verdict", verdict.replace("\n", "  \n"), step)
