# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Hashing` and `HashedCrossing`: values as bins by their hash."""

from typing import Any, Literal

import torch

from torch_distinput import _C
from torch_distinput.ops._preprocessing_layer import (
    PreprocessingLayer,
    call_native,
    check_choice,
    dtype_of,
    native_salt,
    read_salt,
)


class Hashing(PreprocessingLayer):
    """Strings or numbers as bins by the hash of their text: the bins of Keras and TensorFlow.

    Numbers are hashed as decimal text; floating-point ones are cut to integers first.

    Args:
        num_bins: the number of bins, at least 1.
        mask_value: the value that goes to bin 0, while others go to the bins from 1 on; None: no value does.
        salt: two ints or one, the key of SipHash; None: FarmHash.
        output_mode: `int`: bins of the input's shape; `one_hot`, `multi_hot`, `count`: as in `StringLookup`.
        sparse: COO tensors in place of dense ones; not in mode `int`.
        dtype: of the result; None: int64 in mode `int`, else float32.
        name: of the layer, in messages; None: from the class.

    Raises ValueError for arguments that contradict each other, as Keras does.

    >>> tdi.preprocessing.Hashing(num_bins=5)(["A", "B", "C"])
    tensor([4, 3, 2])
    """

    _config_names = ("num_bins", "mask_value", "salt", "output_mode", "sparse", "dtype")

    def __init__(
        self,
        num_bins: int,
        mask_value: Any = None,
        salt: Any = None,
        output_mode: Literal["int", "one_hot", "multi_hot", "count"] = "int",
        sparse: bool = False,
        dtype: Any = None,
        name: str | None = None,
    ):
        super().__init__(name)
        if num_bins is None or num_bins <= 0:
            raise ValueError(
                f"The `num_bins` for `Hashing` cannot be `None` or non-positive values. Received: num_bins={num_bins}."
            )
        self.dtype = dtype_of(dtype, torch.int64 if output_mode == "int" else torch.float32)
        if output_mode == "int" and self.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                "When `output_mode=\"int\"`, `dtype` should be an integer type, 'int32' or 'int64'. "
                f"Received: dtype={dtype}"
            )
        modes = ("int", "one_hot", "multi_hot", "count")
        if output_mode not in modes:
            raise ValueError(
                "Invalid value for argument `output_mode`. "
                f"Expected one of {modes}. Received: output_mode={output_mode}"
            )
        if sparse and output_mode == "int":
            raise ValueError(
                '`sparse` may only be true if `output_mode` is `"one_hot"`, `"multi_hot"`, or `"count"`. '
                f"Received: sparse={sparse} and output_mode={output_mode}"
            )
        self.num_bins = num_bins
        self.mask_value = mask_value
        self.output_mode = output_mode
        self.sparse = sparse
        self.salt = read_salt("Hashing", salt)

    def _make_native(self) -> _C.Layer:
        output = _C.OutputOptions(self.output_mode, self.sparse, self.dtype)
        return _C.hashing_layer(self.num_bins, self.mask_value, native_salt(self.salt), output)

    def forward(self, inputs: Any) -> Any:
        """The bins of `inputs`, or vectors, as `output_mode` says."""
        return call_native("Hashing", self._layer(), (inputs,))


class HashedCrossing(PreprocessingLayer):
    """Combinations of two or more features as bins by their hash: the bins of Keras.

    Called on a tuple or list of features of one shape, (), [N] or [N, 1], each of strings or integers.

    Args:
        num_bins: the number of bins, at least 1.
        output_mode: `int`: bins of the input's shape; `one_hot`: [..., num_bins].
        sparse: in mode `one_hot`, a COO tensor in place of a dense one.
        name: of the layer, in messages; None: from the class.
        dtype: of the result; None: int64 in mode `int`, else float32.

    Raises ValueError for arguments out of range and inputs of other shapes or types.

    >>> tdi.preprocessing.HashedCrossing(num_bins=5)((["A", "B"], torch.tensor([101, 101])))
    tensor([1, 4])
    """

    _config_names = ("num_bins", "output_mode", "sparse", "dtype")

    def __init__(
        self,
        num_bins: int,
        output_mode: Literal["int", "one_hot"] = "int",
        sparse: bool = False,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(name)
        check_choice("HashedCrossing", "output_mode", output_mode, ("int", "one_hot"))
        if num_bins is None or num_bins <= 0:
            raise ValueError(f"HashedCrossing: `num_bins` must be at least 1. Received: num_bins={num_bins}.")
        self.num_bins = num_bins
        self.output_mode = output_mode
        self.sparse = sparse
        self.dtype = dtype_of(dtype, torch.int64 if output_mode == "int" else torch.float32)

    def _make_native(self) -> _C.Layer:
        return _C.crossing_layer(self.num_bins, _C.OutputOptions(self.output_mode, self.sparse, self.dtype))

    def forward(self, inputs: Any) -> Any:
        """The bins of the combinations of `inputs`, a tuple or list of features."""
        if not isinstance(inputs, (list, tuple)):
            raise ValueError(
                f"`HashedCrossing` should be called on a list or tuple of inputs. Received: inputs={inputs}"
            )
        return self._layer()(tuple(inputs))
