# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the preprocessing layers have in common."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torch_distinput import _C

# Arguments of every Keras layer that have no meaning here.
_IGNORED = ("trainable", "dtype")
_SALT_RULE = "can only be a tuple of size 2 integers, or a single integer."


class PreprocessingLayer(torch.nn.Module):
    """A layer that turns raw features into numbers: called on a batch, or given to `Dataset.map`.

    `layer(batch)` takes tensors, numpy arrays, strings and nested lists of them, jagged tensors, and batches without
    rows. `dataset.map(layer)` runs the layer natively on whole batches, without the GIL; options and vocabulary are
    then part of the pipeline's identity, so that a position saved with another vocabulary is refused.
    """

    def __init__(self, name: str | None = None):
        super().__init__()
        self.name = name or re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        self._native: _C.Layer | None = None

    def _make_native(self) -> _C.Layer:
        """The native layer for the present options and values."""
        raise NotImplementedError

    def _runs_natively(self) -> bool:
        """Whether no Python function takes part."""
        return True

    def _layer(self) -> _C.Layer:
        """The native layer, made when it is first needed. Raises if values must be learned first."""
        if self._native is None:
            self._native = self._make_native()
        return self._native

    def _forget_native(self) -> None:
        self._native = None

    # The names of what a layer learns or was given; its tensors are part of the model's `state_dict`.
    _value_names: tuple[str, ...] = ()
    # The names that a saved state may lack.
    _optional_names: tuple[str, ...] = ()

    def _values(self) -> dict[str, torch.Tensor]:
        """What the layer knows now, by name."""
        return {}

    def _set_values(self, values: dict[str, torch.Tensor]) -> None:
        """Takes values that `_values` returned. Raises ValueError for other tensors."""

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination.update({prefix + name: value for name, value in self._values().items()})

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        # torch's own method requires the layer's present sizes, but learned values may have any size.
        known = {name: state_dict[prefix + name] for name in self._value_names if prefix + name in state_dict}
        if strict:
            needed = set(self._values()).difference(known, self._optional_names)
            missing_keys.extend(prefix + name for name in sorted(needed))
            unexpected_keys.extend(k for k in state_dict if k.startswith(prefix) and k[len(prefix) :] not in known)
        try:
            self._set_values(known)
        except ValueError as error:
            error_msgs.append(f"{prefix.removesuffix('.') or type(self).__name__}: {error}")
        self._forget_native()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_native": None}

    # The arguments of the constructor that attributes of the same names hold.
    _config_names: tuple[str, ...] = ()

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, with which `from_config` makes an equal layer, as plain values."""
        config = {name: getattr(self, name) for name in self._config_names}
        return {name: name_of(value) if isinstance(value, torch.dtype) else value for name, value in config.items()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> PreprocessingLayer:
        """A layer with the arguments that `get_config` returned."""
        return cls(**config)

    def extra_repr(self) -> str:
        """The arguments that were set, for `repr`."""
        shown = ("vocabulary", "idf_weights")
        return ", ".join(f"{k}={v!r}" for k, v in self.get_config().items() if v is not None and k not in shown)


def native_function(function: Any) -> Any:
    """What `Dataset.map` gives the native library: the layer of a preprocessing layer, else `function` itself.

    A layer with hooks and a user's subclass, which may have its own `forward`, are called as any function.
    """
    if not isinstance(function, PreprocessingLayer) or not type(function).__module__.startswith("torch_distinput."):
        return function
    if function._forward_hooks or function._forward_pre_hooks or not function._runs_natively():
        return function
    return function._layer()


def as_of_now(value: Any) -> Any:
    """A preprocessing layer that runs natively as a copy, which shares what the layer has learned and keeps that when
    the layer learns anew, as its native layer does; anything else as it is."""
    runs_natively = isinstance(value, PreprocessingLayer) and native_function(value) is not value
    return _twin(value) if runs_natively else value


def _twin(module: torch.nn.Module) -> torch.nn.Module:
    twin = copy.copy(module)  # has the same dicts of tensors and modules
    vars(twin).update({name: copy.copy(held) for name, held in vars(module).items() if isinstance(held, dict)})
    for name, child in module.named_children():
        setattr(twin, name, _twin(child))
    return twin


def refuse_unknown(kwargs: Mapping[str, Any], text: str) -> None:
    """ValueError for arguments that no Keras layer has."""
    unknown = {key: value for key, value in kwargs.items() if key not in _IGNORED}
    if unknown:
        raise ValueError(f"{text}: {unknown}")


def check_choice(layer: str, name: str, value: Any, allowed: Sequence[str], none: bool = False) -> None:
    """ValueError unless `value` is one of the allowed names, or None or a callable where these may be."""
    if value is None and none or value in allowed:
        return
    raise ValueError(
        f"Unknown value for `{name}` argument of {layer}. Allowed values are: {tuple(allowed)}. "
        f"Received: {name}={value}"
    )


def check_sparse(sparse: bool, output_mode: str) -> None:
    """ValueError for sparse indices."""
    if sparse and output_mode == "int":
        raise ValueError(
            "`sparse` may only be true if `output_mode` is 'one_hot', 'multi_hot', 'count' or 'tf_idf'. "
            f"Received: sparse={sparse} and output_mode={output_mode}"
        )


def read_salt(layer: str, salt: Any) -> list[int] | None:
    """The two halves of a hash key."""
    if salt is None:
        return None
    if isinstance(salt, (tuple, list)) and len(salt) == 2:
        return [int(half) for half in salt]
    if isinstance(salt, int):
        return [salt, salt]
    raise ValueError(f"The `salt` argument for `{layer}` {_SALT_RULE} Received: salt={salt}.")


def native_salt(salt: Sequence[int] | None) -> tuple[int, int] | None:
    """A salt as unsigned 64-bit numbers."""
    return None if salt is None else (salt[0] % 2**64, salt[1] % 2**64)


def dtype_of(dtype: Any, default: torch.dtype) -> torch.dtype:
    """A dtype, its name, or None for the default."""
    if dtype is None:
        return default
    found = dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(dtype), None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"`dtype` must be a torch.dtype or the name of one. Received: dtype={dtype}")
    return found


def name_of(dtype: torch.dtype) -> str:
    """`float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def is_ragged(value: Any) -> bool:
    """Whether `value` is a list of rows of different length."""
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(row, (list, tuple)) for row in value):
        return False
    return any(len(row) != len(value[0]) for row in value)


def flatten_rows(layer: str, rows: Sequence[Sequence[Any]]) -> tuple[list[Any], torch.Tensor]:
    """The items of ragged rows, and the offsets of the rows. ValueError for rows with a second ragged dim."""
    items = [item for row in rows for item in row]
    if is_ragged(items) or any(
        isinstance(item, (list, tuple)) != isinstance(items[0], (list, tuple)) for item in items
    ):
        raise ValueError(f"{layer}: the input must have at most one ragged dim.")
    lengths = torch.tensor([len(row) for row in rows])
    return items, torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])


def call_native(kind: str, layer: _C.Layer, inputs: tuple[Any, ...]) -> Any:
    """Calls a native layer; the first input may be a list of rows of different length."""
    if is_ragged(inputs[0]):
        items, offsets = flatten_rows(kind, inputs[0])
        return layer((items, *inputs[1:]), offsets)
    return layer(inputs)
