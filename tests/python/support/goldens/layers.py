# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Replays the recordings of Keras' preprocessing layers; tests/goldens/preprocessing.json's note tells the format."""

import math
import re
from pathlib import Path
from typing import Any

import numpy
import torch

import torch_distinput as tdi

FUNCTIONS = {
    "upper": lambda texts: [re.sub("[a-z]+", lambda part: part[0].upper(), text) for text in texts],
    "identity": lambda texts: texts,
    "strip_digits": lambda texts: [re.sub("[0-9]", "", text) for text in texts],
    "split_comma": lambda texts: [text.split(",") for text in texts],
    "split_chars": lambda texts: [list(text) for text in texts],
    "add_bang": lambda texts: [f"{text}!" for text in texts],
}


def plain(value: Any) -> Any:
    """A recorded number or string as Python's: bytes for {"hex"}, floats for "NaN" in `numbers`."""
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, dict) and set(value) == {"hex"}:
        return bytes.fromhex(value["hex"])
    return value


def numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [numbers(part) for part in value]
    return float(value.replace("Infinity", "inf")) if isinstance(value, str) else value


def holds_bytes(value: Any) -> bool:
    return any(map(holds_bytes, value)) if isinstance(value, list) else isinstance(value, bytes)


def as_bytes(value: Any) -> Any:
    return (
        [as_bytes(part) for part in value]
        if isinstance(value, list)
        else value.encode()
        if isinstance(value, str)
        else value
    )


def tensor_or_strings(given: dict) -> Any:
    """A dense value: a tensor, or nested lists of strings (an array where there are none)."""
    if given["dtype"] == "string":
        values = plain(given["values"])
        values = as_bytes(values) if holds_bytes(values) else values
        if 0 in given["shape"]:
            return numpy.empty(given["shape"], dtype="U1")
        return values
    dtype = getattr(torch, given["dtype"])
    return torch.tensor(numbers(given["values"]), dtype=dtype).reshape(given["shape"])


def value_of(given: Any) -> Any:
    if "list" in given:
        return [value_of(part) for part in given["list"]]
    if "ragged" in given:
        return ragged_of(given)
    if "sparse" in given:
        sparse = given["sparse"]
        places = torch.tensor(sparse["indices"]).t().reshape(len(sparse["dense_shape"]), -1)
        return torch.sparse_coo_tensor(places, torch.tensor(sparse["values"]), sparse["dense_shape"]).coalesce()
    value = tensor_or_strings(given)
    if given.get("as") == "list" and isinstance(value, torch.Tensor):
        return value.tolist()
    if given.get("as") == "ndarray":
        return numpy.array(value) if not isinstance(value, torch.Tensor) else value.numpy()
    return value


def ragged_of(given: dict) -> Any:
    rows = given["ragged"]
    if given["dtype"] == "string":
        return plain(rows)
    if any(isinstance(item, list) for row in rows for item in row) and given.get("ragged_rank") != 1:
        return rows
    dtype = getattr(torch, given["dtype"])
    inner = next((torch.tensor(row).shape[1:] for row in rows if row), ())
    parts = [torch.tensor(row, dtype=dtype).reshape(len(row), *inner) for row in rows]
    return torch.nested.nested_tensor(parts, layout=torch.jagged)


def argument(name: str, value: Any, folder: Path) -> Any:
    if name in ("mean", "variance"):
        value = numbers(value)
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(value["tuple"])
    if "fn" in value:
        return FUNCTIONS[value["fn"]]
    if "file" in value:
        path = folder / f"{name}.txt"
        path.write_bytes(value["file"].encode())
        return str(path)
    kind, given = next(iter(value.items()))
    values = given["values"] if isinstance(given, dict) else given
    return numpy.array(values) if kind == "ndarray" or isinstance(values[0], str) else torch.tensor(values)


def dataset_of(batches: list[Any]) -> tdi.Dataset:
    return tdi.Dataset.from_generator(lambda: iter(batches), None)


class Stage(Exception):
    """An error of the library, with the stage in which it was raised."""

    def __init__(self, stage: str, error: Exception):
        super().__init__(f"{stage}: {type(error).__name__}: {error}")
        self.stage, self.error = stage, error


def run(case: dict, folder: Path, out: dict) -> dict:
    """What the library does in the situation of a case, in the format of `out`, which tells what else is asked."""
    given = case["in"]
    stage = "init"
    try:
        arguments = {name: argument(name, value, folder) for name, value in given["args"].items()}
        layer = getattr(tdi.preprocessing, given["layer"])(**arguments)
        stage = "adapt"
        for key in ("adapt", "then_adapt"):
            if given.get(key) is not None:
                adapt(layer, given, given[key])
        stage = "set_vocabulary"
        for before in given.get("calls_before", []):
            layer(value_of(before))
        if "set_vocabulary" in given:
            layer.set_vocabulary(**given["set_vocabulary"])
        stage = "call"
        result = {} if given.get("input") is None else shown(call(layer, given))
    except Exception as error:
        raise Stage(stage, error) from error
    return {**result, **asked(layer, out)}


def adapt(layer: Any, given: dict, batches: list[dict]) -> None:
    values = [value_of(batch) for batch in batches]
    steps = {"steps": given["adapt_steps"]} if "adapt_steps" in given else {}
    kind = given.get("adapt_as", "dataset")
    if kind == "iterable" or (kind == "dataset" and any("ragged" in b and b["dtype"] == "string" for b in batches)):
        return layer.adapt(iter(values), **steps)
    if kind == "dataset":
        return layer.adapt(dataset_of(values), **steps)
    whole = values[0]
    if kind == "array":
        whole = whole.numpy() if isinstance(whole, torch.Tensor) else numpy.array(whole)
    if kind == "list" and isinstance(whole, torch.Tensor):
        whole = whole.tolist()
    return layer.adapt(whole, **steps)


def call(layer: Any, given: dict) -> Any:
    value = value_of(given["input"])
    if given["layer"] == "HashedCrossing" and "list" not in given["input"]:
        value = numpy.array(value)  # a list would be several features
    if given.get("via") == "map":
        if isinstance(value, list) and given["layer"] == "HashedCrossing":
            value = tuple(value)
        mapped = tdi.Dataset.from_tensors(value).map(layer)
        return next(iter(mapped))
    if "count_weights" in given:
        return layer(value, count_weights=value_of(given["count_weights"]))
    return layer(value)


def shown(value: Any) -> dict:
    """A result in the format of the recordings, without names of errors."""
    if not isinstance(value, torch.Tensor):
        array = numpy.array(value)
        return {"shape": list(array.shape), "dtype": "string", "values": value}
    dtype = str(value.dtype).removeprefix("torch.")
    if value.layout == torch.jagged:
        rows = [row.tolist() for row in value.unbind()] if value.shape[0] else []
        return {"ragged": rows, "dtype": dtype}
    if value.layout == torch.sparse_coo:
        places, values = value.indices().t().tolist(), value.values().tolist()
        return {"sparse": {"indices": places, "values": values, "dense_shape": list(value.shape)}, "dtype": dtype}
    return {"shape": list(value.shape), "dtype": dtype, "values": value.tolist()}


def asked(layer: Any, out: dict) -> dict:
    """The other entries of `out`."""
    entries = {
        "vocabulary": lambda: layer.get_vocabulary(),
        "vocabulary_no_special": lambda: layer.get_vocabulary(include_special_tokens=False),
        "vocabulary_size": lambda: layer.vocabulary_size(),
        "idf_weights": lambda: layer.idf_weights.tolist(),
        "mean": lambda: layer.mean.tolist(),
        "variance": lambda: layer.variance.tolist(),
        "bin_boundaries": lambda: layer.bin_boundaries,
        "config": lambda: layer.get_config(),
    }
    return {name: read() for name, read in entries.items() if name in out}


def same(got: Any, wanted: Any) -> bool:
    """Equality of nested values; floats up to a few units in the last place of float32."""
    if isinstance(wanted, str) and wanted in ("NaN", "Infinity", "-Infinity") and isinstance(got, float):
        wanted = numbers(wanted)
    if isinstance(wanted, dict):
        return isinstance(got, dict) and all(key in got and same(got[key], part) for key, part in wanted.items())
    if isinstance(wanted, list):
        return isinstance(got, (list, tuple)) and len(got) == len(wanted) and all(map(same, got, wanted))
    if isinstance(wanted, float) and isinstance(got, (int, float)):
        return math.isclose(got, wanted, rel_tol=2e-6, abs_tol=1e-6) or (math.isnan(got) and math.isnan(wanted))
    if isinstance(wanted, str) and isinstance(got, bytes):
        return got == wanted.encode()
    return got == wanted
