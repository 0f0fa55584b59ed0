# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How a dataset was made: the calls of ops and constructors that pickling writes down, and that make it again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeVar, cast

from torch_distinput.base._structure import map_leaves
from torch_distinput.ops._base import Call, Ops, call_of, remember
from torch_distinput.ops._named_function import Unnamed, has_name
from torch_distinput.ops._preprocessing_layer import as_of_now

VERSION = 1

F = TypeVar("F", bound=Callable[..., Any])
_functions: dict[str, Callable[..., Any]] = {}  # by the `op` of a call
_constructors: set[str] = set()


@dataclass(frozen=True)
class Whole:
    """An argument that is not searched for datasets; it is asked for when the dataset is pickled."""

    value: Callable[[], Any]


@dataclass(frozen=True)
class Value:
    """In the place of a `Whole` in a description."""

    value: Any


@dataclass(frozen=True)
class Input:
    """In the place of a dataset in a description: the number of the step that makes it."""

    step: int


@dataclass(frozen=True)
class Step:
    """A call in a description; `kind` is the class of the dataset where a constructor was called."""

    op: str
    kind: type | None
    arguments: dict[str, Any]


def described(function: F) -> F:
    """Decorates each public function that returns a dataset, and each constructor of one: the dataset remembers the
    call, unless the function has remembered another call that makes the same."""
    constructs = function.__name__ == "__init__"
    op = function.__qualname__.partition(".")[0] if constructs else function.__name__

    @functools.wraps(function)
    def remembered(*args: Any, **kwargs: Any) -> Any:
        if constructs:  # an iterator over names of files would be used up
            args, kwargs = tuple(map(_listed, args)), {name: _listed(value) for name, value in kwargs.items()}
        result = function(*args, **kwargs)
        dataset = args[0] if constructs else result
        if call_of(dataset) is None:
            kept = tuple([_kept(value) for value in (args[1:] if constructs else args)])
            remember(dataset, Call(op, kept, {name: _kept(value) for name, value in kwargs.items()}))
        return result

    assert op not in _functions, op
    _functions[op] = remembered
    if constructs:
        _constructors.add(op)
    return cast("F", remembered)


def describe(dataset: Any) -> tuple[Step, ...]:
    """The calls that make `dataset`, each after those that make its inputs.

    Raises TypeError, naming op and parameter, for what cannot be made again.
    """
    steps: list[Step] = []
    places: dict[int, Input] = {}  # by the `id` of a dataset that `dataset` holds
    pending = [(dataset, _arguments_of(dataset))]
    while pending:  # a recursion would limit the number of ops
        current, arguments = pending[-1]
        inputs = [leaf for leaf in _leaves(arguments) if isinstance(leaf, Ops) and id(leaf) not in places]
        pending.extend((leaf, _arguments_of(leaf)) for leaf in inputs)
        if inputs:
            continue
        pending.pop()
        if id(current) not in places:
            steps.append(_step(current, arguments, places))
            places[id(current)] = Input(len(steps) - 1)
    return tuple(steps)


def make_again(version: int, steps: tuple[Step, ...]) -> Any:
    """The dataset of a description. Raises ValueError for a version or a call that this library does not know."""
    if version > VERSION:
        raise ValueError(
            f"unpickle: the description of the Dataset has version {version}, but this torch_distinput reads versions "
            f"up to {VERSION}: use the one that pickled it, or a later one."
        )
    made: list[Any] = []
    for step in steps:
        if step.op not in _functions:
            raise ValueError(f"unpickle: a Dataset was made by {step.op!r}, which this torch_distinput does not have.")
        given = map_leaves(lambda leaf: _given(leaf, made), step.arguments)
        if step.kind is None:
            made.append(_functions[step.op](**given))
        else:
            made.append(object.__new__(step.kind))
            _functions[step.op](made[-1], **given)
    return made[-1]


def _arguments_of(dataset: Any) -> dict[str, Any]:
    """The arguments of the call that made `dataset`, by parameter."""
    call = call_of(dataset)
    if call is None:
        raise TypeError(
            f"pickle: {dataset!r} cannot be pickled, because native code made it, such as the elements of `window`."
        )
    parameters = inspect.signature(_functions[call.op])
    before = (None,) if call.op in _constructors else ()
    arguments = parameters.bind(*before, *call.args, **call.kwargs).arguments
    if before:
        del arguments[next(iter(parameters.parameters))]
    return dict(arguments)


def _step(dataset: Any, arguments: dict[str, Any], places: dict[int, Input]) -> Step:
    op = cast("Call", call_of(dataset)).op
    kind = type(dataset) if op in _constructors else None
    name = op if kind is None else kind.__name__
    return Step(op, kind, {key: _written(name, key, value, places) for key, value in arguments.items()})


def _written(op: str, parameter: str, value: Any, places: dict[int, Input]) -> Any:
    """An argument as a description holds it."""

    def written(leaf: Any) -> Any:
        if isinstance(leaf, Ops):
            return places[id(leaf)]
        if isinstance(leaf, Whole):
            return Value(leaf.value())
        if isinstance(leaf, Iterator):
            raise TypeError(
                f"pickle: a Dataset cannot be pickled where `{parameter}` of {op} is a {type(leaf).__name__}, because "
                "that can be read only once."
            )
        if isinstance(leaf, FunctionType) and not has_name(leaf):
            return Unnamed(leaf, f"{op}({parameter}={leaf.__name__})")
        return leaf

    return map_leaves(written, value)


def _given(leaf: Any, made: list[Any]) -> Any:
    """What `_written` put in the place of an argument, as an argument."""
    if isinstance(leaf, Input):
        return made[leaf.step]
    if isinstance(leaf, Value):
        return leaf.value
    return leaf.function if isinstance(leaf, Unnamed) else leaf


def _leaves(arguments: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    map_leaves(found.append, arguments)
    return found


def _kept(value: Any) -> Any:
    """An argument as it is now, whatever the caller changes later."""
    if isinstance(value, (int, str, Ops)):
        return value
    if type(value) is list or type(value) is tuple:
        return type(value)([_kept(part) for part in value])
    if type(value) is dict:
        return {key: _kept(part) for key, part in value.items()}
    return as_of_now(value)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, Iterator) else value
