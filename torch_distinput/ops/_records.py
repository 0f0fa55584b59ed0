# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ops that turn records into tensors, and the features of tf.train.Example."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.base._arguments import flag, instance, integer, sequence, text
from torch_distinput.ops._base import Dataset, Ops
from torch_distinput.ops._description import described

_TYPES = {torch.float32: "float32", torch.int64: "int64", bytes: "bytes", str: "str"}


@dataclasses.dataclass(frozen=True)
class FixedLenFeature:
    """A feature with the same number of values in each record: a dense leaf of `shape`, or strings.

    Args:
        shape: sizes of at least 0; () for one value.
        dtype: torch.float32, torch.int64, `bytes`, or `str` for UTF-8 text.
        default_value: the values of records without the feature, as many as `shape` has; None: every record must have
            the feature.

    >>> tdi.FixedLenFeature([2], torch.int64, default_value=[0, 0])
    FixedLenFeature(shape=[2], dtype=torch.int64, default_value=[0, 0])
    """

    shape: Sequence[int]
    dtype: Any
    default_value: Any = None

    def _parts(self, key: str) -> tuple[Any, ...]:
        kind = _type(key, self.dtype)
        shape = sequence("parse_example", f"shape of feature {key!r}", self.shape, integer)
        return "fixed", kind, shape, _default(key, self.default_value, self.dtype)


@dataclasses.dataclass(frozen=True)
class VarLenFeature:
    """A feature of any number of values: a sparse COO tensor [values], [records, most values] for a batch.

    `dtype` is torch.float32 or torch.int64. A record without the feature has no values.
    """

    dtype: Any

    def _parts(self, key: str) -> tuple[Any, ...]:
        return "varlen", _type(key, self.dtype)


@dataclasses.dataclass(frozen=True)
class RaggedFeature:
    """A feature of any number of values: a tensor [values], a jagged one [records, (values)] for a batch.

    `dtype` is torch.float32, torch.int64, `bytes` or `str`; strings need single records. A record without the feature
    has no values.
    """

    dtype: Any

    def _parts(self, key: str) -> tuple[Any, ...]:
        return "ragged", _type(key, self.dtype)


@dataclasses.dataclass(frozen=True)
class SparseFeature:
    """Values at the places that other features of the record hold: a sparse COO tensor of `size`.

    Args:
        index_key: the int64 feature that holds the places, or one for each dim.
        value_key: the feature that holds the values, as many as there are places.
        dtype: torch.float32 or torch.int64.
        size: the size of the dim, or of each dim; places are in [0, size).
        already_sorted: the records hold the values in the order of their places, so they need no sorting.
    """

    index_key: str | Sequence[str]
    value_key: str
    dtype: Any
    size: int | Sequence[int]
    already_sorted: bool = False

    def _parts(self, key: str) -> tuple[Any, ...]:
        op = "SparseFeature"
        keys = [self.index_key] if isinstance(self.index_key, str) else self.index_key
        sizes = [self.size] if hasattr(self.size, "__index__") else self.size
        return (
            "sparse",
            _type(key, self.dtype),
            sequence(op, "index_key", keys, text),
            text(op, "value_key", self.value_key),
            sequence(op, "size", sizes, integer),
            flag(op, "already_sorted", self.already_sorted),
        )


@dataclasses.dataclass(frozen=True)
class FixedLenSequenceFeature:
    """A list of features of a SequenceExample, each with the same number of values: a dense leaf [steps, *shape].

    Args:
        shape: of the values in one step.
        dtype: as in `FixedLenFeature`.
        allow_missing: a record without the list has no steps; otherwise that is an error.
    """

    shape: Sequence[int]
    dtype: Any
    allow_missing: bool = False

    def _parts(self, key: str) -> tuple[Any, ...]:
        shape = sequence("parse_sequence_example", f"shape of feature {key!r}", self.shape, integer)
        return (
            "steps",
            _type(key, self.dtype),
            shape,
            flag("parse_sequence_example", "allow_missing", self.allow_missing),
        )


SequenceFeature = FixedLenSequenceFeature | VarLenFeature | RaggedFeature
Feature = FixedLenFeature | VarLenFeature | RaggedFeature | SparseFeature


class RecordOps(Ops[Dataset]):
    """The ops on records, a base of `Dataset`. Each parses single records and whole batches, natively."""

    @described
    def decode_raw(self, dtype: torch.dtype, shape: Sequence[int | None] = (), key: str | int | None = None) -> Dataset:
        """Strings of bytes as numbers in the machine's byte order; each string becomes a row of `shape`.

        Args:
            dtype: of the numbers; torch.bool is True for bytes other than 0.
            shape: of a row; the first size may be None, which takes any number of items, the same in a whole batch.
            key: the leaf, by its key in a dict or its index in a tuple; None: the only leaf of strings.

        Before `batch`, records of files go straight into the memory of the batch, without a `bytes` object each.
        InvalidArgumentError, when elements are read, for a string of another length.

        >>> [row.tolist() for row in tdi.Dataset.from_tensor_slices([b"ab", b"cd"]).decode_raw(torch.uint8, (2,))]
        [[97, 98], [99, 100]]
        """
        op = "decode_raw"
        dtype = instance(op, "dtype", dtype, torch.dtype)
        return self._wrapped(_C.decode_raw(self._native, dtype, shape, _key(op, key)))

    @described
    def to_number(self, dtype: torch.dtype = torch.float32, key: str | int | None = None) -> Dataset:
        """Strings as the decimal numbers that they spell out, as tf.strings.to_number; space around them is ignored.

        Args:
            dtype: torch.float32, torch.float64, torch.int32 or torch.int64.
            key: as in `decode_raw`.

        InvalidArgumentError, when elements are read, for a string that is not a number or out of the range of `dtype`.

        >>> list(tdi.Dataset.from_tensor_slices(["1", " 20 "]).to_number(torch.int64))
        [tensor(1), tensor(20)]
        """
        op = "to_number"
        dtype = instance(op, "dtype", dtype, torch.dtype)
        return self._wrapped(_C.to_number(self._native, dtype, _key(op, key)))

    @described
    def parse_example(self, features: Mapping[str, Feature], key: str | int | None = None) -> Dataset:
        """Serialized tf.train.Example messages as a dict of `features`, as tf.io.parse_example.

        A feature that is missing in a record, or holds no list, takes its default; without a default it is an error. If
        a record has several features of one key, the last one counts. Features that are not listed are skipped.

        Args:
            features: for each key of the dict a FixedLenFeature, VarLenFeature, RaggedFeature or SparseFeature.
            key: as in `decode_raw`; that leaf becomes the dict.

        InvalidArgumentError, naming feature and record, when elements are read, for bytes that are not an Example, for
        values of another type and for another number of values.

        >>> records = tdi.Dataset.from_tensor_slices([tdi.example({"x": [1.0, 2.0], "y": 3})])
        >>> features = {"x": tdi.FixedLenFeature([2], torch.float32), "y": tdi.FixedLenFeature([], torch.int64)}
        >>> list(records.batch(1).parse_example(features))
        [{'x': tensor([[1., 2.]]), 'y': tensor([3])}]
        """
        op = "parse_example"
        return self._wrapped(
            _C.parse_example(self._native, _parts_of(op, "features", features, Feature), _key(op, key))
        )

    @described
    def parse_sequence_example(
        self,
        context_features: Mapping[str, Feature],
        sequence_features: Mapping[str, SequenceFeature],
        key: str | int | None = None,
    ) -> Dataset:
        """Serialized tf.train.SequenceExample messages as (context, sequences), as tf.io.parse_single_sequence_example.

        Args:
            context_features: as the features of `parse_example`.
            sequence_features: for each key of the second dict a FixedLenSequenceFeature; a VarLenFeature: a sparse COO
                tensor [steps, most values]; or a RaggedFeature: a jagged tensor [steps, (values)].
            key: as in `decode_raw`; that leaf becomes the pair of dicts.

        Works on single records, because sequences of a batch differ in length: call `padded_batch` after it. Errors are
        those of `parse_example`, raised when elements are read.

        >>> steps = {"x": tdi.FixedLenSequenceFeature([], torch.int64, allow_missing=True)}
        >>> list(tdi.Dataset.from_tensor_slices([b""]).parse_sequence_example({}, steps))
        [({}, {'x': tensor([], dtype=torch.int64)})]
        """
        op = "parse_sequence_example"
        context = _parts_of(op, "context_features", context_features, Feature)
        steps = _parts_of(op, "sequence_features", sequence_features, SequenceFeature)
        return self._wrapped(_C.parse_sequence_example(self._native, context, steps, _key(op, key)))

    @described
    def parse_tensor(
        self, dtype: torch.dtype, shape: Sequence[int | None] | None = None, key: str | int | None = None
    ) -> Dataset:
        """TensorProto messages, as tf.io.serialize_tensor writes them, as tensors.

        Args:
            dtype: of the tensors; a message of another one is an error, as in tf.io.parse_tensor.
            shape: of the tensors, with None for a size that varies; None: any shape.
            key: as in `decode_raw`.

        In a batch all tensors must have one shape. InvalidArgumentError, when elements are read, for malformed bytes
        and for another dtype or shape.

        >>> import struct
        >>> proto = bytes([8, 1, 18, 4, 18, 2, 8, 2, 34, 8]) + struct.pack("<2f", 1.0, 2.0)
        >>> list(tdi.Dataset.from_tensor_slices([proto]).parse_tensor(torch.float32))
        [tensor([1., 2.])]
        """
        op = "parse_tensor"
        dtype = instance(op, "dtype", dtype, torch.dtype)
        return self._wrapped(_C.parse_tensor(self._native, dtype, shape, _key(op, key)))

    @described
    def decode_members(self) -> Dataset:
        """The members of dicts by suffix, as `TarDataset` yields them, decoded by the last part of the suffix.

        `cls` becomes an int64 scalar, `txt` and `json` a `str`, `npy` a tensor of the dtype and the number of dims that
        the first element has. Other members stay `bytes`. In a batch the arrays must have one shape.

        InvalidArgumentError, naming member and row, when elements are read, for what cannot be decoded.

        >>> rows = tdi.Dataset.from_tensor_slices({"cls": [b"3"], "txt": [b"three"], "jpg": [b"..."]})
        >>> list(rows.decode_members())
        [{'cls': tensor(3), 'txt': 'three', 'jpg': b'...'}]
        """
        return self._wrapped(_C.decode_members(self._native))


def _key(op: str, key: Any) -> str | int | None:
    return key if key is None else text(op, "key", key) if isinstance(key, str) else integer(op, "key", key)


def _parts_of(op: str, name: str, features: Any, kinds: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """The features as the native module takes them."""
    entries = []
    for key, feature in instance(op, name, features, Mapping).items():  # type: ignore[type-abstract]
        if not isinstance(feature, kinds):
            allowed = ", ".join(kind.__name__ for kind in kinds.__args__)
            raise TypeError(f"{op}: feature {key!r} must be one of {allowed}, but is {feature!r}.")
        entries.append((text(op, name, key), feature._parts(key)))
    return entries


def _type(key: str, dtype: Any) -> str:
    try:
        return _TYPES[dtype]
    except (KeyError, TypeError):
        raise TypeError(
            f"parse_example: the dtype of feature {key!r} must be torch.float32, torch.int64, bytes or str, but is "
            f"{dtype!r}."
        ) from None


def _default(key: str, value: Any, dtype: Any) -> Any:
    """The default as the native module takes it: a flat tensor, or a flat list of strings."""
    if value is None:
        return None
    if isinstance(dtype, torch.dtype):
        return torch.as_tensor(value).detach().to("cpu", dtype, copy=True).reshape(-1)
    strings = [value] if isinstance(value, str | bytes) else list(value)
    for string in strings:
        if not isinstance(string, dtype):
            raise TypeError(
                f"parse_example: the default_value of feature {key!r} must be of type {dtype.__name__}, but holds "
                f"{string!r}."
            )
    return strings
