# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Batches that Python made: how many rows they have, and how to cut or pad their rows."""

import functools
import operator
from typing import Any

import torch

from torch_distinput.base._structure import children, rebuild


def rows_of(batch: Any) -> int:
    """Rows of `batch`: the size of the first tensor's dim 0, else the length of the first list of values, else 1."""
    rows = _rows_of(batch)
    return 1 if rows is None else rows


def _rows_of(value: Any) -> int | None:
    if isinstance(value, torch.Tensor):
        return value.size(0) if value.dim() else None
    parts = children(value)
    found = filter(lambda rows: rows is not None, map(_rows_of, parts or ()))
    return next(found, len(value) if _is_rows(value) else None)


def without_rows(batch: Any) -> Any:
    """`batch` cut to zero rows: a part for a replica without data. Raises ValueError if it cannot be cut."""
    return _map_rows(batch, lambda tensor: tensor[:0], lambda rows: rows[:0])


def padded(batch: Any, rows: int) -> Any:
    """`batch` with its last row repeated until it has `rows` rows; rows of zeros if it has none."""

    def tensor(value: torch.Tensor) -> torch.Tensor:
        if len(value) == 0:
            return value.new_zeros(rows, *value.shape[1:])
        return torch.cat([value, value[-1:].expand(rows - len(value), *value.shape[1:])])

    return _map_rows(batch, tensor, lambda values: values + values[-1:] * (rows - len(values)))


def repeated(batch: Any, rows: int) -> Any:
    """A batch of `rows` rows, each of them the last row of `batch`."""
    last = _map_rows(batch, lambda tensor: tensor[-1:], lambda values: values[-1:])
    return padded(last, rows)


def joined(batches: list[Any]) -> Any:
    """The rows of `batches` one after the other. Raises ValueError if they cannot be joined."""
    try:
        return batches[0] if len(batches) == 1 else _join(batches)
    except (RuntimeError, TypeError) as error:  # tensors of other inner sizes; lists beside tuples
        raise ValueError(f'DataLoader: tail="merge" cannot join the last two batches of this rank: {error}') from error


def _join(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, torch.Tensor) and first.dim():
        return torch.cat(values)
    if _is_rows(first):
        return functools.reduce(operator.add, values)
    parts: list[Any] = [children(value) for value in values]  # a None raises TypeError, too
    if parts[0] is None or len({len(part) for part in parts}) > 1:
        raise TypeError(f"a {type(first).__name__} in them is not a tensor, list or structure of these.")
    return rebuild(first, [_join(list(column)) for column in zip(*parts, strict=True)])


def _is_rows(value: Any) -> bool:
    """Whether a list or tuple holds one value for each row, such as strings, instead of being a structure."""
    if not isinstance(value, (list, tuple)) or hasattr(value, "_fields"):
        return False
    return not any(isinstance(part, torch.Tensor) or children(part) is not None for part in value)


def _map_rows(value: Any, tensor: Any, rows: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dim():
        return tensor(value)
    if _is_rows(value):
        return rows(value)
    parts = children(value)
    if parts is None:
        raise ValueError(
            f"DataLoader: a replica without rows needs a zero-row batch, but a {type(value).__name__} in the batches "
            'cannot be cut to 0 rows; use tail="padded", or a collate_fn that makes tensors and lists.'
        )
    return rebuild(value, [_map_rows(part, tensor, rows) for part in parts])
