# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`CategoryEncoding`: indices as vectors."""

from typing import Any, Literal

import torch

from torch_distinput import _C
from torch_distinput.ops._preprocessing_layer import PreprocessingLayer, call_native, dtype_of


class CategoryEncoding(PreprocessingLayer):
    """Indices as vectors.

    Args:
        num_tokens: the number of entries of a vector, at least 1. Other indices raise InvalidArgumentError.
        output_mode: `one_hot`: [..., num_tokens]; `multi_hot` and `count`: the last dim becomes one vector.
        sparse: COO tensors in place of dense ones.
        dtype: of the result; None: float32.
        name: of the layer, in messages; None: from the class.

    `layer(indices, count_weights)` adds weights, of the shape of the indices, in place of ones, in mode `count`.

    >>> tdi.preprocessing.CategoryEncoding(num_tokens=3)(torch.tensor([[0, 2, 2]]))
    tensor([[1., 0., 1.]])
    """

    _config_names = ("num_tokens", "output_mode", "sparse", "dtype")

    def __init__(
        self,
        num_tokens: int | None = None,
        output_mode: Literal["one_hot", "multi_hot", "count", "binary"] = "multi_hot",
        sparse: bool = False,
        dtype: Any = None,
        name: str | None = None,
    ):
        super().__init__(name)
        output_mode = "multi_hot" if output_mode == "binary" else output_mode
        if output_mode not in ("count", "one_hot", "multi_hot"):
            raise ValueError(f"Unknown arg for output_mode: {output_mode}")
        if num_tokens is None:
            raise ValueError(
                "num_tokens must be set to use this layer. If the number of tokens is not known beforehand, use the "
                "IntegerLookup layer instead."
            )
        if num_tokens < 1:
            raise ValueError(f"`num_tokens` must be >= 1. Received: num_tokens={num_tokens}.")
        self.num_tokens = num_tokens
        self.output_mode = output_mode
        self.sparse = sparse
        self.dtype = dtype_of(dtype, torch.float32)

    def _make_native(self) -> _C.Layer:
        return _C.encoding_layer(self.num_tokens, _C.OutputOptions(self.output_mode, self.sparse, self.dtype))

    def forward(self, inputs: Any, count_weights: Any = None) -> Any:
        """The vectors of `inputs`."""
        given = (inputs,) if count_weights is None else (inputs, count_weights)
        return call_native("CategoryEncoding", self._layer(), given)
