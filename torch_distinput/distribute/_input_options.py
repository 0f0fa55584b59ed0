# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Options of a distributed dataset."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, get_args

import torch

from torch_distinput import _C
from torch_distinput._C import InputReplicationMode
from torch_distinput.base._arguments import count, flag, number, sequence
from torch_distinput.base._row_cost import RowCost, row_cost
from torch_distinput.executors._executor import EngineName, Executor, executor_of
from torch_distinput.typing import ReplicationMode, Split, Tail

SPLITS: tuple[Split, ...] = get_args(Split)
TAILS: tuple[Tail, ...] = get_args(Tail)


@dataclass(frozen=True, init=False)
class InputOptions:
    """How `distribute_dataset` assigns rows, and `distribute_datasets_from_function` elements. Immutable, comparable.

    Args:
        fetch_to_device: whether values arrive on the replicas' devices; False leaves them on the CPU. None means True.
        replication_mode: an `InputReplicationMode` or its name. PER_REPLICA, a pipeline for each replica, is for
            `distribute_datasets_from_function` of MirroredStrategy only.
        place_dataset_on_device: for `PER_REPLICA` pipelines, with `fetch_to_device=False`; `distribute_dataset`
            ignores it, as its `explain()` says.
        per_replica_buffer_size: steps read ahead, at least 0.
        split: "tf" cuts a global batch as tf.distribute would; "balanced" cuts it into contiguous parts, in order,
            whose sizes differ by at most one row: with n rows and N replicas, replica g gets the rows from
            g * (n // N) + min(g, n % N) on; "lanes" cuts it into parts of the same sizes by the lanes of
            `Dataset.shuffle(blocks=...)`: the rows of the first lanes to replica 0, and so on, so that each block of
            the data is read by one process, and by two where their parts meet. The default is that of the programs
            that these options come from; `DataLoader`, which takes the place of torch's, has "balanced".
        tail: what becomes of a short last global batch, and of a replica without rows. "zero_rows": the batch is split
            as it is, a replica may get zero rows. "padded": each replica's part is filled to its full size with its own
            last row; `StepInfo.valid` says how many rows count. "repeat": the batch is filled with the first rows of
            the epoch, which count. "drop": it is not delivered. "until_first": every replica stops before the first
            step in which one has no row. "merge": a last step that would leave a replica without rows is joined to
            the step before it. None means "zero_rows", with a warning where "merge" would spare a replica a part
            without rows.
        weights: relative share of each replica, one positive number for each replica of all processes; needs
            `split="balanced"`.
        balance: what rows cost (tokens, pixels, ...): in each step the replicas' parts, whose sizes stay, then cost
            about the same. A tensor (or array, or list of numbers) has a cost for each row of the source; the costs
            follow their rows through `shuffle`, `select` and `map`. It needs random access, and each process reads its
            own rows only. With a str, the key of a column of the batches, or a function of a row, each process reads
            all rows. Parts depend on the costs alone: nothing is sent, and any number of processes can resume. Needs
            `split="balanced"` without `weights`, and replicas that share one stream.
        balance_window: global batches whose rows are exchanged, so that steps cost about the same, too. With 1 each
            global batch keeps its rows. With more, a state within a window can only go on with the same batch size,
            `balance` and window, on any number of processes.
        peer_timeout: seconds that other processes, and the group's store, may keep this one waiting.
        host_timeout: seconds without a sign of life after which another host counts as lost, or `peer_timeout` if that
            is shorter. A process that dies is known at once.
        executor: "processes", "ray" or an `Executor`: workers on this host, or anywhere in a Ray cluster, make the rows
            of steps, as for `DataLoader`.

    The fields that tf.distribute has can also be given with its prefix `experimental_`. Raises TypeError or ValueError
    that names the field.

    >>> tdi.InputOptions(tail="padded").tail
    'padded'
    """

    fetch_to_device: bool
    replication_mode: InputReplicationMode
    place_dataset_on_device: bool
    per_replica_buffer_size: int
    split: Split
    tail: Tail
    weights: tuple[float, ...] | None
    balance: torch.Tensor | str | Callable[..., Any] | None = field(hash=False)
    balance_window: int
    peer_timeout: float
    host_timeout: float
    executor: Executor | None
    _tail_given: ClassVar[bool]  # set on each object, not a field

    def __init__(
        self,
        fetch_to_device: bool | None = True,
        replication_mode: InputReplicationMode | ReplicationMode = InputReplicationMode.PER_WORKER,
        place_dataset_on_device: bool = False,
        per_replica_buffer_size: int = 1,
        split: Split = "tf",
        tail: Tail | None = None,
        weights: Sequence[float] | None = None,
        balance: RowCost | None = None,
        balance_window: int = 1,
        peer_timeout: float = 300.0,
        host_timeout: float = 5.0,
        executor: Executor | EngineName | None = None,
        **experimental: Any,
    ):
        values: dict[str, Any] = {
            "fetch_to_device": fetch_to_device,
            "replication_mode": replication_mode,
            "place_dataset_on_device": place_dataset_on_device,
            "per_replica_buffer_size": per_replica_buffer_size,
        }
        for name, value in experimental.items():
            field = name.removeprefix("experimental_")
            if field == name or field not in values:
                raise TypeError(f"InputOptions: there is no field `{name}`.")
            values[field] = value
        if values["fetch_to_device"] is None:
            values["fetch_to_device"] = True
        values |= {
            "split": split,
            "tail": "zero_rows" if tail is None else tail,
            "weights": weights,
            "balance": balance,
            "balance_window": balance_window,
            "peer_timeout": peer_timeout,
            "host_timeout": host_timeout,
            "executor": executor,
        }
        object.__setattr__(self, "_tail_given", tail is not None)
        for name, value in values.items():
            object.__setattr__(self, name, _CHECKS[name](name, value))
        if self.weights is not None and self.split != "balanced":
            raise ValueError(f"InputOptions: `weights` needs `split` 'balanced', but `split` is {self.split!r}.")
        if self.balance is not None and self.split != "balanced":
            raise ValueError(f"InputOptions: `balance` needs `split` 'balanced', but `split` is {self.split!r}.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InputOptions):
            return NotImplemented
        pairs = [(getattr(self, each.name), getattr(other, each.name)) for each in fields(self)]
        return all(_same_values(*pair) for pair in pairs)

    @property
    def experimental_fetch_to_device(self) -> bool:
        """tf.distribute's name for `fetch_to_device`."""
        return self.fetch_to_device

    @property
    def experimental_replication_mode(self) -> InputReplicationMode:
        """tf.distribute's name for `replication_mode`."""
        return self.replication_mode

    @property
    def experimental_place_dataset_on_device(self) -> bool:
        """tf.distribute's name for `place_dataset_on_device`."""
        return self.place_dataset_on_device

    @property
    def experimental_per_replica_buffer_size(self) -> int:
        """tf.distribute's name for `per_replica_buffer_size`."""
        return self.per_replica_buffer_size


def _mode(name: str, value: Any) -> InputReplicationMode:
    if isinstance(value, str) and value in InputReplicationMode.__members__:
        return InputReplicationMode[value]
    if not isinstance(value, InputReplicationMode):
        raise _not_among(name, value, list(InputReplicationMode.__members__))
    return value


def _word(words: Sequence[str]) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if value not in words:
            raise _not_among(name, value, words)
        return value

    return check


def _weights(name: str, value: Any) -> tuple[float, ...] | None:
    if value is None:
        return None
    weights = tuple(sequence("InputOptions", name, value, number))
    if not weights or not all(math.isfinite(weight) and weight > 0 for weight in weights):
        raise ValueError(f"InputOptions: `{name}` must be positive numbers, one for each replica, but is {value!r}.")
    return weights


def _cost(name: str, value: Any) -> torch.Tensor | str | Callable[..., Any] | None:
    return None if value is None else row_cost("InputOptions", name, value)


def _same_values(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    return not isinstance(one, torch.Tensor) and not isinstance(other, torch.Tensor) and bool(one == other)


def _seconds(name: str, value: Any) -> float:
    seconds = number("InputOptions", name, value)
    if not seconds > 0:
        raise ValueError(f"InputOptions: `{name}` must be more than 0 seconds, but is {value!r}.")
    return seconds


def _not_among(name: str, value: Any, words: Sequence[str]) -> ValueError:
    return ValueError(f"InputOptions: `{name}` must be one of {', '.join(map(repr, words))}, but is {value!r}.")


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "fetch_to_device": partial(flag, "InputOptions"),
    "replication_mode": _mode,
    "place_dataset_on_device": partial(flag, "InputOptions"),
    "per_replica_buffer_size": partial(count, "InputOptions"),
    "split": _word(SPLITS),
    "tail": _word(TAILS),
    "weights": _weights,
    "balance": _cost,
    "balance_window": partial(count, "InputOptions", least=1),
    "peer_timeout": _seconds,
    "host_timeout": _seconds,
    "executor": lambda name, value: executor_of("InputOptions", value),
}


def native_options(options: InputOptions) -> _C.InputOptions:
    """The options as C++ has them."""
    known = [field.name for field in fields(options) if field.name != "executor"]  # which Python has
    return _C.InputOptions(**{name: getattr(options, name) for name in known})


def tail_given(options: InputOptions) -> bool:
    """Whether the user chose the tail."""
    return options._tail_given
