# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Renders values of this library in the format of the recordings, and compares them."""

import json
import math
from collections.abc import Mapping
from typing import Any

import torch

import torch_distinput as tdi
from goldens import Mismatch


def render(value: Any) -> Any:
    """A value of one replica as plain data."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, torch.Tensor):
        return _KINDS.get(value.layout, render_tensor)(value)
    if isinstance(value, Mapping):
        return {"map": {key: render(part) for key, part in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [render(part) for part in value]}
    if isinstance(value, list):  # a column of strings
        return [render(part) for part in value] or {"shape": [0]}
    raise TypeError(f"there is no format for a {type(value).__name__}")


def _render_ragged(value: torch.Tensor) -> Any:
    rows = [row.tolist() for row in value.unbind()] if value.shape[0] else []
    return {"ragged": rows, "splits": [value.offsets().tolist()], "flat_shape": list(value.values().shape)}


def _render_sparse(value: torch.Tensor) -> Any:
    assert value.is_coalesced()
    indices = value.indices().t().tolist()
    return {"sparse": {"indices": indices, "values": value.values().tolist(), "dense_shape": list(value.shape)}}


_KINDS = {torch.jagged: _render_ragged, torch.sparse_coo: _render_sparse}


def render_tensor(tensor: torch.Tensor) -> Any:
    if tensor.numel() == 0:
        return {"shape": list(tensor.shape)}
    return _render_numbers(tensor.tolist())


def _render_numbers(numbers: Any) -> Any:
    return [_render_numbers(one) for one in numbers] if isinstance(numbers, list) else render(numbers)


def render_spec(spec: Any) -> Any:
    """An element spec as plain data."""
    if spec is None:
        return None
    if isinstance(spec, tdi.PerReplicaSpec):
        first, *others = [render_spec(one) for one in spec.specs]
        assert all(one == first for one in others), spec
        return {"replicas": 1 + len(others), "spec": first}
    if isinstance(spec, _SPECS):
        return _render_leaf_spec(spec)
    if isinstance(spec, Mapping):
        return {"map": {key: render_spec(part) for key, part in spec.items()}}
    if isinstance(spec, tuple):
        return {"tuple": [render_spec(part) for part in spec]}
    raise TypeError(f"there is no format for a {type(spec).__name__}")


_SPECS = (tdi.TensorSpec, tdi.StringSpec, tdi.RaggedTensorSpec, tdi.SparseTensorSpec)


def _render_leaf_spec(spec: Any) -> dict:
    shape = None if spec.shape is None else list(spec.shape)
    if isinstance(spec, tdi.StringSpec):
        return {"shape": shape, "dtype": "string"}
    plain = {"shape": shape, "dtype": str(spec.dtype).removeprefix("torch.")}
    if isinstance(spec, tdi.RaggedTensorSpec):
        return {"kind": "ragged", **plain, "ragged_rank": spec.ragged_rank, "splits_dtype": "int64"}
    return {"kind": "sparse", **plain} if isinstance(spec, tdi.SparseTensorSpec) else plain


# Our error class for a recorded one. Texts are never compared.
_ERRORS: dict[str, type[BaseException]] = {
    "AttributeError": TypeError,
    "FailedPreconditionError": tdi.FailedPreconditionError,
    "IndexError": ValueError,
    "InvalidArgumentError": ValueError,
    "NotFoundError": tdi.NotFoundError,
    "NotImplementedError": NotImplementedError,
    "OutOfRangeError": tdi.OutOfRangeError,
    "RuntimeError": RuntimeError,
    "TypeError": TypeError,
    "ValueError": ValueError,
}


def expect_error(recorded: dict, call) -> None:
    """`call` must raise the error of this library that stands for the recorded one."""
    wanted = _ERRORS[recorded["error"]]
    try:
        value = call()
    except wanted as error:
        if not str(error):
            raise Mismatch(f"{type(error).__name__} without a text") from None
        return
    except Exception as error:  # noqa: BLE001
        raise Mismatch(f"wanted {wanted.__name__}, got {type(error).__name__}: {error}") from None
    raise Mismatch(f"wanted {wanted.__name__}, got the value {value!r}")


def expect_equal(what: str, got: Any, wanted: Any) -> None:
    """Equal values of equal types: 1, 1.0 and True differ."""
    if json.dumps(got, sort_keys=True) != json.dumps(wanted, sort_keys=True):
        raise Mismatch(f"{what}: got {json.dumps(got)}, wanted {json.dumps(wanted)}")
