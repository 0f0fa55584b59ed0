# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The arguments that all sources of columns have."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.base._arguments import sequence, text

NullRule = str | int | float
Nulls = NullRule | Mapping[str, NullRule]


def column_options(
    op: str, nulls: Nulls, stack: Mapping[str, Sequence[str]] | None, dtypes: Mapping[str, Any] | None = None
) -> _C.ColumnOptions:
    """Checks the arguments; TypeError and ValueError name `op`."""
    rules: Any = nulls
    if isinstance(nulls, Mapping):
        rules = {text(op, "nulls", column): _rule(op, f"nulls[{column!r}]", rule) for column, rule in nulls.items()}
    else:
        rules = _rule(op, "nulls", nulls)
    if stack is not None and not isinstance(stack, Mapping):
        raise TypeError(f"{op}: `stack` must be a dict from a leaf to its columns, but is {stack!r}.")
    stacks = {
        text(op, "stack", leaf): sequence(op, f"stack[{leaf!r}]", parts, text) for leaf, parts in (stack or {}).items()
    }
    return _C.ColumnOptions(rules, stacks, dict(dtypes or {}))


def _rule(op: str, name: str, rule: Any) -> NullRule:
    if not isinstance(rule, (str, int, float)):
        raise TypeError(f'{op}: `{name}` must be "error", "mask", or a number or str to fill in, but is {rule!r}.')
    return rule


def pyarrow_for(op: str) -> Any:
    """The package pyarrow; ImportError that says what to install."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"{op} needs pyarrow: pip install 'torch_distinput[columns]'.") from error
    return pyarrow


def arrow_type(op: str, name: str, kind: Any) -> Any:
    """The Arrow type for a torch dtype, `str`, `bytes`, or itself."""
    import pyarrow

    if isinstance(kind, pyarrow.DataType):
        return kind
    known = {str: pyarrow.string(), bytes: pyarrow.binary(), torch.bool: pyarrow.bool_()}
    for number in ("int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"):
        known[getattr(torch, number)] = getattr(pyarrow, number)()
    if kind not in known:
        raise TypeError(f"{op}: `types[{name!r}]` must be a torch dtype, str, bytes or an Arrow type, but is {kind!r}.")
    return known[kind]
