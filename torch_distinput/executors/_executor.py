# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Executor`: which engine makes the rows elsewhere, and within which bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch_distinput.base._arguments import count
from torch_distinput.executors._engine import Engine, Work
from torch_distinput.executors._processes import open_processes
from torch_distinput.executors._ray import open_ray

EngineName = Literal["ray", "processes"]
_Open = Callable[[Work, bool], Engine]  # of what workers do, and whether all that they make goes to devices
_ENGINES: dict[str, Callable[[dict[str, Any]], _Open]] = {
    "processes": open_processes,
    "ray": open_ray,
}


@dataclass(frozen=True)
class Executor:
    """Where the rows of a loader or a distributed dataset are made, instead of in the program's own process.

    As many workers as the program's waits ask for, within the bounds, answer requests for parts of steps. Order, states
    and errors stay with the program, so that workers may die, and be asked twice, without a row more or less.

    Args:
        engine: "processes" on this host, "ray" for actors of a Ray cluster, or a function that opens another engine for
            a `Work`.
        min_workers: workers that always run.
        max_workers: workers at most, for each process that reads; None: as many as there is room for (a CPU each),
            shared by the processes that read.
        worker_options: options of Ray's for its actors, such as `{"num_cpus": 2, "resources": {"decoder": 1}}`.

    Raises ValueError or TypeError that names the field, and ImportError without Ray.

    >>> tdi.Executor("processes", max_workers=4)
    Executor(engine='processes', min_workers=1, max_workers=4, worker_options={})
    """

    engine: EngineName | Callable[[Work], Engine]
    min_workers: int = 1
    max_workers: int | None = None
    worker_options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        least = count("Executor", "min_workers", self.min_workers, least=1)
        if self.max_workers is not None:
            count("Executor", "max_workers", self.max_workers, least=least)
        if not callable(self.engine):
            _opener(self.engine, self.worker_options)
        elif self.worker_options:
            raise ValueError("Executor: `worker_options` are for named engines; give others theirs in `engine`.")

    def open(self, work: Work, for_devices: bool = False) -> Engine:
        """The engine, without workers yet. `for_devices`: the tensors of values are copied to devices at once."""
        if callable(self.engine):
            return self.engine(work)
        return _opener(self.engine, self.worker_options)(work, for_devices)

    def most(self, engine: Engine, shares: int) -> int:
        """Workers at most, where `shares` processes have a pool each."""
        if self.max_workers is not None:
            return self.max_workers
        return max(self.min_workers, engine.room() // shares)


def executor_of(op: str, given: Any) -> Executor | None:
    """The argument `executor` of `op`. Raises as `Executor`, and TypeError for another type."""
    if given is None or isinstance(given, Executor):
        return given
    if isinstance(given, str):
        return Executor(given)  # type: ignore[arg-type]  # which checks it
    raise TypeError(
        f'{op}: `executor` must be None, "ray", "processes" or an Executor, but is a {type(given).__name__}.'
    )


def _opener(name: Any, options: Mapping[str, Any]) -> _Open:
    if name not in _ENGINES:
        raise ValueError(f"Executor: `engine` must be one of {', '.join(map(repr, _ENGINES))}, but is {name!r}.")
    return _ENGINES[name](dict(options))
