# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Hugging Face datasets whose rows native code can copy: columns of an Arrow table, perhaps at indices into it.

What a row becomes depends on the format that `set_format` chose, and on torch's `default_collate`. This module states
the conversion of each column, and compares a batch of two rows with torch's before native code is used.
"""

import sys
import weakref
from typing import Any

import torch
from torch.utils.data import default_collate

from torch_distinput import _C
from torch_distinput.recognize._collation import collated
from torch_distinput.recognize._hugging_face import table_of
from torch_distinput.recognize._image_columns import ImageColumn, image_column, is_image
from torch_distinput.recognize._native_source import NotNative, Source
from torch_distinput.tables._column_options import column_options

# The dtypes of a column's numbers, by the dataset's format; None stands for Python's objects.
_FLOATS = {"torch": torch.float32, "numpy": torch.float32, None: torch.float64}

# For each dataset its rows, or why they are not native, and the state they belong to: a loader asks in each epoch.
_known: weakref.WeakKeyDictionary[Any, tuple[tuple[Any, ...], Source | NotNative]] = weakref.WeakKeyDictionary()


def table_source(dataset: Any) -> Source:
    """The rows of a map-style dataset of the package `datasets`. Raises NotNative, which names a column if one column
    is the reason."""
    state = _state(dataset)
    known = _known.get(dataset)
    if known is not None and _same(known[0], state):
        found = known[1]
        if isinstance(found, NotNative):
            raise NotNative(*found.args)
        return found
    try:
        source = _source(dataset, state)
    except NotNative as reason:
        _known[dataset] = (state, NotNative(*reason.args))
        raise
    _known[dataset] = (state, source)
    return source


def _source(dataset: Any, state: tuple[Any, ...]) -> Source:
    rows, images = _natives(dataset)
    reference = weakref.ref(dataset)

    def is_current() -> bool:
        alive = reference()
        return alive is not None and _same(_state(alive), state)

    # The package never writes to a table or to indices: a change makes another dataset, or another state of this one.
    # Files may change, though.
    spec = rows.element_spec | {column.name: column.spec for column in images if column.spec is not None}
    source = Source(rows, spec, is_current, steady=not any(column.paths for column in images))
    _check_rows(dataset, source, {column.name for column in images})
    return source


def _state(dataset: Any) -> tuple[Any, ...]:
    """What the rows of a dataset depend on: objects, compared by identity, then values."""
    format_ = dataset.format
    return dataset.data, dataset._indices, repr(format_), dataset.__class__.__getitem__


def _same(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    return before[0] is now[0] and before[1] is now[1] and before[2:] == now[2:]


def _natives(dataset: Any) -> tuple[_C.Dataset, list[ImageColumn]]:
    table, indices = table_of(dataset, "DataLoader")
    format_ = dataset.format
    if format_["type"] not in _FLOATS:
        raise NotNative(f"the dataset's format is {format_['type']!r}, whose rows Python makes")
    if format_["format_kwargs"]:
        raise NotNative("the dataset's format has arguments of its own")
    if format_["output_all_columns"] and set(format_["columns"]) != set(table.column_names):
        raise NotNative("the dataset has columns without its format (`output_all_columns`)")
    table = table.select([name for name in table.column_names if name in format_["columns"]])
    if table.num_columns == 0 or len(dataset) == 0:
        raise NotNative("the dataset has no rows or no columns")
    decoded = getattr(dataset.features, "_column_requires_decoding", {})
    dtypes, columns, images = {}, {}, []
    for name in table.column_names:
        feature = dataset.features[name]
        if is_image(feature):
            images.append(image_column(name, table.column(name), feature, format_["type"], indices))
            columns[name] = images[-1].column
            continue
        if decoded.get(name, False):
            raise NotNative(f"column {name!r} is decoded by the package `datasets`")
        columns[name] = _column(name, table.column(name), format_["type"])
        dtype = _dtype(name, columns[name].type, format_["type"])
        if dtype is not None:
            dtypes[name] = dtype
    rows = _rows(columns, dtypes, {column.name: column.paths for column in images if column.paths})
    if indices is not None:
        rows = rows.select(indices)
    for column in images:
        rows = column.decoded(rows)
    return rows, images


def _rows(columns: dict[str, Any], dtypes: dict[str, torch.dtype], files: dict[str, list[bytes]]) -> _C.Dataset:
    """Dicts of the values of columns; a column in `files` has tuples of a file's content and a number."""
    if not files:
        table = sys.modules["pyarrow"].table(columns)
        return _C.arrow_table(table, column_options("DataLoader", "error", None, dtypes))
    parts = {}
    for name, column in columns.items():
        if name in files:
            parts[name] = _C.image_files(files[name], [0] * len(files[name]))  # the numbers are left out later
        else:
            dtype = {"": dtypes[name]} if name in dtypes else {}
            parts[name] = _C.arrow_table(column, column_options("DataLoader", "error", None, dtype))
    return _C.Dataset.zip(parts)


def _column(name: str, column: Any, kind: str | None) -> Any:
    """The column in a form whose rows all have one shape."""
    types = sys.modules["pyarrow"].types
    if column.null_count > 0:
        raise NotNative(f"column {name!r} has nulls")
    is_list = types.is_list(column.type) or types.is_large_list(column.type)
    if is_list or types.is_fixed_size_list(column.type):
        if kind is None:
            raise NotNative(f"column {name!r} has lists, of which torch makes one tensor for each item")
        return _one_length(name, column) if is_list else column
    return column


def _one_length(name: str, column: Any) -> Any:
    """Lists of equal length as lists of a fixed size, without a copy of their items."""
    pyarrow = sys.modules["pyarrow"]
    import pyarrow.compute as compute

    found = compute.min_max(compute.list_value_length(column)).as_py()
    if found["min"] != found["max"] or not found["min"]:
        raise NotNative(f"column {name!r} has lists of {found['min']} to {found['max']} items")
    chunks = [pyarrow.FixedSizeListArray.from_arrays(chunk.flatten(), found["min"]) for chunk in column.chunks]
    return pyarrow.chunked_array(chunks)


def _dtype(name: str, kind: Any, format_: str | None) -> torch.dtype | None:
    """The dtype that the numbers of a column become; None for strings."""
    types = sys.modules["pyarrow"].types
    while types.is_fixed_size_list(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return torch.bool
    if types.is_integer(kind) and not types.is_uint64(kind):
        return torch.int64
    if types.is_floating(kind):
        return _FLOATS[format_]
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return None
    raise NotNative(f"column {name!r} is of type {kind}")


def _check_rows(dataset: Any, source: Source, images: set[str]) -> None:
    """Compares the first and the last row with torch's. A JPEG may differ by a grey level, because Pillow may have
    another version of the decoder."""
    wanted = [0, len(dataset) - 1]
    try:
        theirs = default_collate(dataset.__getitems__(wanted))
        ours = next(source.at(torch.tensor(wanted)).batch(2).iterate())
    except Exception as error:  # noqa: BLE001 - whatever it is, torch will raise it
        raise NotNative(f"torch cannot collate the rows: {error}") from None
    convert = collated(source.spec)
    ours = ours if convert is None else convert(ours)
    if list(ours) != list(theirs):
        raise NotNative("the columns come in another order")
    for name, value in ours.items():
        if not (_near if name in images else _alike)(value, theirs[name]):
            raise NotNative(f"column {name!r} becomes something else in the package `datasets`")


def _near(ours: Any, theirs: Any) -> bool:
    same_type = isinstance(theirs, torch.Tensor) and ours.dtype == theirs.dtype and ours.shape == theirs.shape
    return same_type and int((ours.int() - theirs.int()).abs().max()) <= 1


def _alike(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, torch.Tensor):
        same_type = isinstance(theirs, torch.Tensor) and ours.dtype == theirs.dtype and ours.shape == theirs.shape
        return same_type and torch.equal(ours.nan_to_num(), theirs.nan_to_num())
    return type(ours) is type(theirs) and ours == theirs and list(map(type, ours)) == list(map(type, theirs))
