# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Discretization`: numbers as the bins between boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from torch_distinput import _C
from torch_distinput.ops._preprocessing_layer import call_native, check_choice, dtype_of
from torch_distinput.preprocessing import _quantiles
from torch_distinput.preprocessing._adapt import AdaptedLayer, OrderedLearner, adapt


class Discretization(AdaptedLayer):
    """Numbers as the bins between boundaries: bin k holds numbers from boundary k - 1 to below boundary k.

    Args:
        bin_boundaries: increasing numbers; None: `adapt` learns them.
        num_bins: how many bins `adapt` makes; in place of `bin_boundaries`.
        epsilon: the error of `adapt`, as a share of the numbers.
        output_mode: `int`: bins of the input's shape, int32; `one_hot`, `multi_hot`, `count`: as in `StringLookup`.
        sparse: COO tensors in place of dense ones; not in mode `int`.
        dtype: of vectors; None: float32.
        name: of the layer, in messages; None: from the class.

    Numbers are compared in float32; NaN goes to the last bin. Raises ValueError for arguments that contradict each
    other, as Keras does, and for boundaries that are not sorted.

    >>> tdi.preprocessing.Discretization(bin_boundaries=[0.0, 1.0])(torch.tensor([-1.0, 0.0, 5.0]))
    tensor([0, 1, 2], dtype=torch.int32)
    """

    _config_names = ("bin_boundaries", "num_bins", "epsilon", "output_mode", "sparse", "dtype")

    def __init__(
        self,
        bin_boundaries: Sequence[float] | None = None,
        num_bins: int | None = None,
        epsilon: float = 0.01,
        output_mode: Literal["int", "one_hot", "multi_hot", "count"] = "int",
        sparse: bool = False,
        dtype: Any = None,
        name: str | None = None,
    ):
        super().__init__(name)
        if sparse and output_mode == "int":
            raise ValueError(
                "`sparse=True` may only be used if `output_mode` is `'one_hot'`, `'multi_hot'`, or `'count'`. "
                f"Received: sparse={sparse} and output_mode={output_mode}"
            )
        check_choice("Discretization", "output_mode", output_mode, ("int", "one_hot", "multi_hot", "count"))
        if num_bins is not None and num_bins < 0:
            raise ValueError(f"`num_bins` must be greater than or equal to 0. Received: `num_bins={num_bins}`")
        if num_bins is not None and bin_boundaries is not None:
            raise ValueError(
                "Both `num_bins` and `bin_boundaries` should not be set. "
                f"Received: `num_bins={num_bins}` and `bin_boundaries={bin_boundaries}`"
            )
        if num_bins is None and bin_boundaries is None:
            raise ValueError("You need to set either `num_bins` or `bin_boundaries`.")
        self.bin_boundaries = None if bin_boundaries is None else [float(b) for b in bin_boundaries]
        self.num_bins = num_bins
        self.epsilon = epsilon
        self.output_mode = output_mode
        self.sparse = sparse
        self.dtype = dtype_of(dtype, torch.float32)
        if self.bin_boundaries is not None:
            self._layer()

    def _make_native(self) -> _C.Layer:
        if self.bin_boundaries is None:
            raise ValueError(
                "You need to either pass the `bin_boundaries` argument at construction time or call `adapt(dataset)` "
                "before you can start using the `Discretization` layer."
            )
        dtype = torch.int32 if self.output_mode == "int" else self.dtype
        return _C.discretization_layer(self.bin_boundaries, _C.OutputOptions(self.output_mode, self.sparse, dtype))

    def forward(self, inputs: Any) -> Any:
        """The bins of `inputs`, or vectors, as `output_mode` says."""
        return call_native("Discretization", self._layer(), (inputs,))

    def adapt(self, data: Any, steps: int | None = None, *, strategy: Any = None, progress: bool | None = None) -> None:
        """Learns boundaries that put about equally many numbers of `data` in each bin, by Keras' sketch.

        A sketch keeps about 1 / epsilon values, so that memory does not grow with the data. Arguments as in
        `StringLookup.adapt`; the result depends on how the data is batched, but not on the number of processes.

        Raises ValueError for a layer that was made with `bin_boundaries`.
        """
        adapt(self, data, steps, strategy, progress)

    def _adapted_to(self, data: Any) -> Any:
        if self.num_bins is None:
            raise ValueError(
                "Cannot adapt a Discretization layer that has been initialized with `bin_boundaries`, use `num_bins` "
                "instead."
            )
        if self.num_bins < 1:
            raise ValueError(
                f"Discretization: `num_bins` must be at least 1 to adapt. Received: num_bins={self.num_bins}"
            )
        return data

    def _learner(self) -> OrderedLearner:
        return _QuantileLearner(self.epsilon)

    def _finish_adapt(self, learner: Any) -> None:
        self.bin_boundaries = _quantiles.boundaries(learner.sketch, self.num_bins or 1)
        self._forget_native()

    _value_names = ("bin_boundaries",)

    def _values(self) -> dict[str, torch.Tensor]:
        if self.bin_boundaries is None:
            return {}
        return {"bin_boundaries": torch.tensor(self.bin_boundaries, dtype=torch.float64)}

    def _set_values(self, values: dict[str, torch.Tensor]) -> None:
        if "bin_boundaries" in values:
            self.bin_boundaries = values["bin_boundaries"].tolist()

    @classmethod
    def from_config(cls, config: Any) -> Discretization:
        """A layer with the arguments that `get_config` returned."""
        given = dict(config)
        learned = given.pop("bin_boundaries") if given.get("num_bins") is not None else None
        layer = cls(**given)
        if learned is not None:
            layer.bin_boundaries = learned
        return layer


class _QuantileLearner(OrderedLearner):
    """Keras' summary of quantiles."""

    def __init__(self, epsilon: float):
        super().__init__()
        self._epsilon = epsilon
        self.sketch = _quantiles.empty()

    def reset(self) -> None:
        super().reset()
        self.sketch = _quantiles.empty()

    def summary(self, batch: torch.Tensor) -> torch.Tensor:
        return _quantiles.summarize(batch, self._epsilon)

    def merge(self, summary: torch.Tensor) -> None:
        self.sketch = _quantiles.merge(summary, self.sketch, self._epsilon)

    def state(self) -> torch.Tensor:
        return self.sketch.clone()

    def load(self, state: torch.Tensor) -> None:
        self.sketch = state.float()
