# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Describes a map-style dataset so that ranks can compare theirs before the first step: if one rank had other rows, or
only a share, rows would be lost.

A user's dataset may do anything when a row is read (draw random numbers, take long, count), so its rows are not read:
the ranks compare its class, its length and the datasets that it holds.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset

from torch_distinput.recognize import _hugging_face as hugging_face
from torch_distinput.recognize._sources import tensor_of

_ARRAYS = (torch.Tensor, np.ndarray)


def content_of(dataset: Any) -> str:
    """A text in the user's words, such as `Subset of 10 rows (indices 5f0c3b1a) of Digits of 60000 rows`, equal for
    equal datasets in all processes."""
    return _content_of(dataset, ())


def rows_of(dataset: Any) -> str:
    """What a position in the rows of `dataset` means, in the user's words: the number, types and indices of the rows.
    Names of classes are left out, because classes may move."""
    if isinstance(dataset, Subset):
        return f"{_length(dataset)} rows (indices {_digest([_numbers(dataset.indices)])}) of {rows_of(dataset.dataset)}"
    if isinstance(dataset, StackDataset) and isinstance(dataset.datasets, dict):
        return f"{ {name: rows_of(part) for name, part in dataset.datasets.items()} }"
    if isinstance(dataset, (ConcatDataset, StackDataset)):
        return f"[{', '.join(map(rows_of, dataset.datasets))}]"
    columns = dataset.tensors if isinstance(dataset, TensorDataset) else (dataset,)
    types = [f"{column.dtype} {tuple(column.shape[1:])}" for column in columns if isinstance(column, _ARRAYS)]
    return f"{_length(dataset)} rows of {', '.join(types)}" if types else f"{_length(dataset)} rows"


def _content_of(dataset: Any, outer: tuple[int, ...]) -> str:
    if id(dataset) in outer:  # datasets may hold each other
        return type(dataset).__qualname__
    outer = (*outer, id(dataset))
    text = f"{type(dataset).__qualname__} of {_length(dataset)} rows"
    if isinstance(dataset, Subset):
        return f"{text} (indices {_digest([_numbers(dataset.indices)])}) of {_content_of(dataset.dataset, outer)}"
    probe = _probe(dataset)
    if probe:
        return f"{text} (content {_digest(probe)})"
    inner = [_content_of(part, outer) for part in _parts(dataset)]
    return f"{text} of [{', '.join(inner)}]" if inner else text


def _length(dataset: Any) -> str:
    try:
        return str(len(dataset))
    except Exception:  # noqa: BLE001 - `__len__` of the user's; whoever needs it raises
        return "unknown"


def _parts(dataset: Any) -> Iterable[Any]:
    """The datasets that `dataset` reads."""
    if isinstance(dataset, ConcatDataset):
        return dataset.datasets
    if isinstance(dataset, StackDataset):
        return dataset.datasets.values() if isinstance(dataset.datasets, dict) else dataset.datasets
    held = getattr(dataset, "__dict__", {}).values()  # such as the one that a class of the user's transforms
    indexed = (value for value in held if not isinstance(value, IterableDataset))
    return [value for value in indexed if isinstance(value, Dataset) or hugging_face.is_table(value)]


def _probe(dataset: Any) -> list[Any]:
    """The first, the middle and the last row of data that reading does not change; [] for other datasets."""
    if isinstance(dataset, TensorDataset):
        return [tensor[row] for tensor in dataset.tensors for row in _probed_rows(len(tensor))]
    if isinstance(dataset, _ARRAYS) and dataset.ndim > 0:
        return [dataset[row] for row in _probed_rows(len(dataset))]
    if type(dataset) in (list, tuple):
        return [dataset[row] for row in _probed_rows(len(dataset))]
    return [hugging_face.content_of(dataset)] if hugging_face.is_table(dataset) else []


def _probed_rows(size: int) -> Sequence[int]:
    return sorted({0, size // 2, size - 1}) if size else []


def _numbers(indices: Any) -> Any:
    try:
        return tensor_of(indices)
    except (TypeError, ValueError, RuntimeError):
        return repr(indices)


def _digest(values: Iterable[Any]) -> str:
    digest = hashlib.sha1()
    for value in values:
        _add(digest, value)
    return digest.hexdigest()[:8]


def _add(digest: Any, value: Any) -> None:
    """Adds what is equal in all processes for equal values; for an object of another kind, only its type."""
    digest.update(type(value).__name__.encode())
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_nested or value.is_quantized or value.is_meta:
            return
        digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
        if value.numel() == 0:
            return
        plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
        value = plain.view(-1).view(torch.uint8).numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.ascontiguousarray(value)
        digest.update(str(array.shape).encode() + (array.tobytes() if array.dtype.kind != "O" else b""))
    elif isinstance(value, str):
        # Files may lie in another folder on each machine.
        digest.update(os.path.basename(value).encode(errors="surrogatepass"))
    elif isinstance(value, (bytes, int, float, complex)):
        digest.update(repr(value).encode())
    elif isinstance(value, (list, tuple)):
        for item in value:
            _add(digest, item)
    elif isinstance(value, dict):
        for key in value:
            _add(digest, key)
            _add(digest, value[key])
