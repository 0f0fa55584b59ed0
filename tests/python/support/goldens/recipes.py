# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Builds a Dataset of this library from a recorded recipe: a source, then ops applied from left to right."""

import functools
import os
from collections.abc import Callable
from typing import Any

import sample_files
import torch

import torch_distinput as tdi


class Missing(Exception):
    """A recipe needs something that the library does not have yet."""


def build(recipe: dict) -> tdi.Dataset:
    """The dataset of `recipe`; raises Missing(name) where it needs something that is not built yet."""
    dataset = _SOURCES[recipe["src"]](recipe)
    for op in recipe.get("ops", []):
        name, arguments = op[0], (op[1] if len(op) > 1 else {})
        dataset = _OPS[name](dataset, **arguments)
    return dataset


def dtype_of(recipe: dict, default: str = "int64") -> torch.dtype:
    return getattr(torch, recipe.get("dtype", default))


def _tensor(values: Any, dtype: str | None) -> torch.Tensor:
    return torch.tensor(values, dtype=getattr(torch, dtype or "int64"))


def _generator(recipe: dict) -> tdi.Dataset:
    rows, dtype = recipe["rows"], dtype_of(recipe)
    spec = tdi.TensorSpec(recipe["shape"], dtype)
    return tdi.Dataset.from_generator(lambda: (torch.tensor(row, dtype=dtype) for row in rows), spec)


def _slices_dict(recipe: dict) -> tdi.Dataset:
    dtypes = recipe.get("dtype", {})
    return tdi.Dataset.from_tensor_slices({k: _tensor(v, dtypes.get(k)) for k, v in recipe["values"].items()})


def _concat(recipe: dict) -> tdi.Dataset:
    return functools.reduce(lambda left, right: left.concatenate(right), [build(part) for part in recipe["of"]])


def _reader(fmt: str) -> Callable[[Any], tdi.Dataset]:
    return {
        "text": tdi.TextLineDataset,
        "tfrecord": tdi.TFRecordDataset,
        "fixed": lambda names: tdi.FixedLengthRecordDataset(names, sample_files.FIXED_BYTES),
    }[fmt]


def _parsed(records: tdi.Dataset) -> tdi.Dataset:
    parse = lambda record: torch.tensor(int(record))  # noqa: E731 - a name would say no more
    return records.map(parse, element_spec=tdi.TensorSpec([], torch.int64))


def _files(recipe: dict) -> tdi.Dataset:
    return _parsed(_reader(recipe["fmt"])(sample_files.number_files(recipe["files"], recipe["fmt"])))


def _file_names(recipe: dict) -> tdi.Dataset:
    names = tdi.Dataset.from_tensor_slices(sample_files.number_files(recipe["files"], recipe["fmt"]))
    read = _reader(recipe["fmt"])
    turns = {"cycle_length": recipe.get("cycle"), "block_length": recipe.get("block", 1)}
    if recipe["how"] == "flat_map":
        return _parsed(names.flat_map(read))
    if recipe["how"] == "interleave":
        return _parsed(names.interleave(read, **turns))
    return _parsed(names.map(read).interleave(lambda dataset: dataset, **turns))


def _list_files(recipe: dict) -> tdi.Dataset:
    folder = os.path.dirname(sample_files.number_files(recipe["files"], recipe["fmt"])[0])
    names = tdi.Dataset.list_files(os.path.join(folder, "*"), shuffle=False)
    return _parsed(names.flat_map(_reader(recipe["fmt"])))


_SOURCES: dict[str, Callable[[dict], tdi.Dataset]] = {
    "range": lambda recipe: tdi.Dataset.range(recipe["n"]),
    "slices": lambda recipe: tdi.Dataset.from_tensor_slices(_tensor(recipe["values"], recipe.get("dtype"))),
    "slices_dict": _slices_dict,
    "tensors": lambda recipe: tdi.Dataset.from_tensors(_tensor(recipe["value"], recipe.get("dtype"))),
    "generator": _generator,
    "files": _files,
    "file_names": _file_names,
    "list_files": _list_files,
    "zip": lambda recipe: tdi.Dataset.zip(tuple(build(part) for part in recipe["of"])),
    "concat": _concat,
}


def needs(owner: Any, name: str) -> Any:
    """The attribute `name` of `owner`, or Missing."""
    if not hasattr(owner, name):
        raise Missing(f"{getattr(owner, '__name__', type(owner).__name__)}.{name}")
    return getattr(owner, name)


# parallel: TensorFlow's num_parallel_calls, which here changes nothing (limit L17).
def _batch(dataset, n, drop=False, parallel=None):
    return dataset.batch(n, drop_remainder=drop)


def _map(dataset, fn, parallel=None):
    return dataset.map(FUNCTIONS[fn], element_spec=declared_spec(fn, dataset))


_OPS: dict[str, Callable[..., tdi.Dataset]] = {
    "batch": _batch,
    "padded_batch": lambda ds, n, drop=False: needs(ds, "padded_batch")(n, drop_remainder=drop),
    "ragged_batch": lambda ds, n, drop=False: ds.ragged_batch(n, drop_remainder=drop),
    "map": _map,
    "map_and_batch": lambda ds, fn, n: _batch(_map(ds, fn), n),
    "filter": lambda ds, fn: ds.filter(PREDICATES[fn]),
    "repeat": lambda ds, count=None: ds.repeat(count),
    "take": lambda ds, count: ds.take(count),
    "skip": lambda ds, count: ds.skip(count),
    "prefetch": lambda ds, n: ds.prefetch(n),
    "cache": lambda ds: ds.cache(),
    "unbatch": lambda ds: ds.unbatch(),
    "enumerate": lambda ds: ds.enumerate(),
    "unique": lambda ds: needs(ds, "unique")(),
    "shard": lambda ds, n, i: ds.shard(n, i),
    "shard_hint": lambda ds: ds.shard(tdi.SHARD_HINT, 0),
    "assert_cardinality": lambda ds, n: needs(ds, "assert_cardinality")(n),
    "shuffle_buffer_1": lambda ds: ds.shuffle(1),
    "window_batch": lambda dataset, n: needs(dataset, "window")(n).flat_map(lambda window: window.batch(n)),
    "rebatch": lambda ds, n: ds.rebatch(n),
}

FUNCTIONS: dict[str, Callable] = {
    "identity": lambda x: x,
    "forget_rank": lambda x: x,
    "forget_dims": lambda x: x,
    "add1": lambda x: x + 1,
    "square": lambda x: x * x,
    "pair": lambda x: (x, x),
    "dict": lambda x: {"a": x, "b": {"c": x + 1}},
    "vec3": lambda x: torch.stack([x, x, x]),
    "mat23": lambda x: (10 * x + torch.arange(6)).reshape(2, 3),
    "vec_mod4": lambda x: x.repeat(int(x) % 4),
    "xy": lambda x: (x.float().reshape(1), (2 * x).int().reshape(1)),
    "with_none": lambda x: (x, None),
    "bool_even": lambda x: x % 2 == 0,
    "uint8": lambda x: x.to(torch.uint8),
    "string": lambda x: str(int(x)),
    "ragged": lambda x: torch.nested.nested_tensor([x.repeat(int(x) % 4)], layout=torch.jagged),
    "sparse": lambda x: ((torch.arange(4) < x % 4) * (x + 1)).to_sparse(),
}

PREDICATES: dict[str, Callable] = {
    "even": lambda x: x % 2 == 0,
    "never": lambda x: torch.tensor(False),
    "sum_even": lambda x: x.sum() % 2 == 0,
}


def declared_spec(fn: str, dataset: tdi.Dataset) -> Any:
    """The spec that TensorFlow gets by tracing `fn`; None where our probe of the first element finds the same."""
    if fn in ("pair", "dict", "string", "sparse"):
        return None
    x = dataset.element_spec
    if fn == "forget_dims" and x.shape[0] is None:
        return None  # dim 0 is unknown already, and the probe does not show inner dims
    return {
        "identity": x,
        "add1": x,
        "square": x,
        "forget_rank": tdi.TensorSpec(None, x.dtype),
        "forget_dims": tdi.TensorSpec([None] * len(x.shape), x.dtype),
        "vec3": tdi.TensorSpec([3], x.dtype),
        "mat23": tdi.TensorSpec([2, 3], x.dtype),
        "vec_mod4": tdi.TensorSpec([None], x.dtype),
        "xy": (tdi.TensorSpec([1], torch.float32), tdi.TensorSpec([1], torch.int32)),
        "with_none": (x, None),
        "bool_even": tdi.TensorSpec(x.shape, torch.bool),
        "ragged": tdi.RaggedTensorSpec([1, None], x.dtype),
        "uint8": tdi.TensorSpec(x.shape, torch.uint8),
    }[fn]
