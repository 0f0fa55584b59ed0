# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`PerReplica`: one value for each replica of this process."""

from collections.abc import Sequence
from typing import Any, NoReturn

from torch_distinput.base._structure import children, rebuild

_ADVICE = (
    "it holds one value for each replica. Use it inside `strategy.run(fn, args=(value,))`, where each replica sees its "
    "own value, or take `value.values`."
)
_OPERATORS = (
    "add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror "
    "xor rxor lshift rlshift rshift rrshift neg pos abs invert lt le gt ge getitem len float int complex index"
)


class PerReplica:
    """One value for each replica of this process, in replica order. Immutable.

    Structures hold `PerReplica` at their leaves. Outside `strategy.run` a PerReplica is not a tensor: operators raise
    TypeError, torch functions raise ValueError.

    >>> tdi.PerReplica([torch.tensor([0, 1]), torch.tensor([2])]).values[1]
    tensor([2])
    """

    __slots__ = ("_values",)

    def __init__(self, values: Sequence[Any]):
        try:
            self._values = tuple(values)
        except TypeError:
            raise TypeError(f"PerReplica: `values` must be a sequence, but is a {type(values).__name__}.") from None

    @property
    def values(self) -> tuple[Any, ...]:
        """The values, one for each replica of this process."""
        return self._values

    def __repr__(self) -> str:
        lines = [f"  {replica}: {value!r}" for replica, value in enumerate(self._values)]
        return "PerReplica:{\n" + ",\n".join(lines) + "\n}"

    def __bool__(self) -> bool:
        return True

    def __reduce__(self):
        return PerReplica, (self._values,)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"'PerReplica' object has no attribute '{name}': {_ADVICE}")

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None) -> NoReturn:
        name = getattr(function, "__name__", function)
        raise ValueError(f"{name}: a PerReplica was used as a tensor while not inside a replica context; {_ADVICE}")


def _refuse(operator: str):
    name = f"__{operator}__"

    def method(self, *arguments) -> NoReturn:
        others = "".join(f" and '{type(argument).__name__}'" for argument in arguments)
        raise TypeError(f"{name}: unsupported operand type(s): 'PerReplica'{others}; {_ADVICE}")

    method.__name__ = name
    return method


for _operator in _OPERATORS.split():
    setattr(PerReplica, f"__{_operator}__", _refuse(_operator))


def regroup(values: Sequence[Any], always_wrap: bool = False) -> Any:
    """Turns the replicas' results into one structure with `PerReplica` leaves.

    Unless `always_wrap`, a leaf that is the same Python object on every replica is not wrapped. Raises ValueError where
    the replicas' structures differ.
    """
    first = values[0]
    parts = children(first)
    if parts is None:
        same = not always_wrap and all(value is first for value in values)
        return first if same else PerReplica(values)
    columns = [parts]
    for replica, value in enumerate(values[1:], start=1):
        columns.append(_matching_children(first, value, replica))
    return rebuild(first, [regroup(column, always_wrap) for column in zip(*columns)])


def _matching_children(first: Any, value: Any, replica: int) -> list[Any]:
    parts = children(value)
    if parts is None or type(value) is not type(first) or len(value) != len(first):
        raise ValueError(
            f"The replicas' structures differ: replica 0 has {_describe(first)}, replica {replica} {_describe(value)}."
        )
    if not hasattr(first, "keys") or list(first) == list(value):
        return parts
    if set(first) != set(value):
        raise ValueError(f"The replicas' keys differ: replica 0 has {list(first)}, replica {replica} {list(value)}.")
    return [value[key] for key in first]


def _describe(value: Any) -> str:
    parts = children(value)
    name = type(value).__name__
    return f"a {name}" if parts is None else f"a {name} of {len(parts)}"


def select(value: Any, replica: int, num_replicas: int) -> Any:
    """`value` with each `PerReplica` inside replaced by the component of `replica`.

    A value without `PerReplica` is returned as it is, not copied.
    """
    if isinstance(value, PerReplica):
        return local_results(value, num_replicas)[replica]
    parts = children(value)
    if parts is None:
        return value
    selected = [select(part, replica, num_replicas) for part in parts]
    if all(new is old for new, old in zip(selected, parts)):
        return value
    return rebuild(value, selected)


def local_results(value: Any, num_replicas: int) -> tuple[Any, ...]:
    """The components of `value`, one for each replica of this process; a plain leaf gives a tuple of one."""
    if isinstance(value, PerReplica):
        if len(value.values) != num_replicas:
            raise ValueError(
                f"A PerReplica of {len(value.values)} values was given to a strategy of {num_replicas} local replicas."
            )
        return value.values
    if children(value) is None:
        return (value,)
    return tuple(select(value, replica, num_replicas) for replica in range(num_replicas))
