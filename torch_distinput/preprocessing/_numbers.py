# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`CategoryEncoding`, `Discretization` and `Normalization`: numbers as vectors, bins and scaled numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput._C import InvalidArgumentError
from torch_distinput.dataset import Dataset
from torch_distinput.preprocessing import _quantiles
from torch_distinput.preprocessing._adapt import Adaptation, OrderedLearner, adapt
from torch_distinput.preprocessing_layer import (
    PreprocessingLayer,
    call_native,
    check_choice,
    dtype_of,
    name_of,
    refuse_unknown,
)


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

    def __init__(
        self,
        num_tokens: int | None = None,
        output_mode: str = "multi_hot",
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

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "num_tokens": self.num_tokens,
            "output_mode": self.output_mode,
            "sparse": self.sparse,
            "dtype": name_of(self.dtype),
        }


class Discretization(PreprocessingLayer):
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

    def __init__(
        self,
        bin_boundaries: Sequence[float] | None = None,
        num_bins: int | None = None,
        epsilon: float = 0.01,
        output_mode: str = "int",
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
        self._check_adaptable()
        adapt(self, data, steps, strategy, progress)

    def start_adapt(self, data: Any, steps: int | None = None, *, strategy: Any = None) -> Adaptation:
        """An `Adaptation` of this layer to a `Dataset`: `adapt` in pieces that can be saved and resumed."""
        self._check_adaptable()
        return Adaptation(self, data, steps, strategy)

    def _check_adaptable(self) -> None:
        if self.num_bins is None:
            raise ValueError(
                "Cannot adapt a Discretization layer that has been initialized with `bin_boundaries`, use `num_bins` "
                "instead."
            )

    def _learner(self) -> OrderedLearner:
        return _QuantileLearner(self.epsilon)

    def _whole(self, data: Any) -> Any:
        return data

    def _finish_adapt(self, learner: Any) -> None:
        self.bin_boundaries = _quantiles.boundaries(learner.sketch, self.num_bins or 1)
        self._forget_native()

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.bin_boundaries is not None:
            destination[prefix + "bin_boundaries"] = torch.tensor(self.bin_boundaries, dtype=torch.float64)

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
        key = prefix + "bin_boundaries"
        if key in state_dict:
            self.bin_boundaries = state_dict[key].tolist()
            self._forget_native()
        if strict:
            unexpected_keys.extend(k for k in state_dict if k.startswith(prefix) and k != key)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments; after `adapt`, `bin_boundaries` are what it learned."""
        return {
            "bin_boundaries": self.bin_boundaries,
            "num_bins": self.num_bins,
            "epsilon": self.epsilon,
            "output_mode": self.output_mode,
            "sparse": self.sparse,
            "dtype": name_of(self.dtype),
        }

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


class Normalization(PreprocessingLayer):
    """Numbers shifted and scaled to mean 0 and variance 1: `(input - mean) / sqrt(variance)` in float32.

    Args:
        axis: the dims with a mean of each position, an int or several; the others are reduced. None: one mean for all.
        mean: given in place of learned; a number or an array of up to as many dims as `axis` has.
        variance: likewise, of the same shape.
        invert: whether the layer computes the inputs that normalized values came from.
        dtype: of the result; None: float32.
        name: of the layer, in messages; None: from the class.

    Runs on the device of its input and passes gradients on. Raises ValueError for arguments that contradict each other,
    as Keras does.

    >>> layer = tdi.preprocessing.Normalization()
    >>> layer.adapt(torch.tensor([[0.0], [2.0]]))
    >>> layer(torch.tensor([[3.0]]))
    tensor([[2.]])
    """

    def __init__(
        self,
        axis: int | Sequence[int] | None = -1,
        mean: Any = None,
        variance: Any = None,
        invert: bool = False,
        dtype: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(name)
        refuse_unknown(kwargs, "Unrecognized keyword arguments passed to Normalization")
        self.axis = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        self.invert = invert
        self.dtype = dtype_of(dtype, torch.float32)
        self.input_mean, self.input_variance = mean, variance
        if (mean is not None) != (variance is not None):
            raise ValueError(
                "When setting values directly, both `mean` and `variance` must be set. "
                f"Received: mean={mean} and variance={variance}"
            )
        if mean is not None:
            self._check_given(torch.as_tensor(mean), torch.as_tensor(variance))
        self._shape: tuple[int, ...] | None = None
        self._keep: tuple[int, ...] = ()
        self.adapt_mean: torch.Tensor | None
        self.adapt_variance: torch.Tensor | None
        for buffer in ("adapt_mean", "adapt_variance", "count"):
            self.register_buffer(buffer, None)

    def _check_given(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        if mean.shape != variance.shape:
            raise ValueError(
                "When setting values directly, `mean` and `variance` must have the same shape. "
                f"Received: mean shape {tuple(mean.shape)} and variance shape {tuple(variance.shape)}"
            )
        if mean.dim() > len(self.axis):
            raise ValueError(
                f"The rank of `mean` must be less than or equal to the number of axes ({len(self.axis)}). "
                f"Received: mean shape {tuple(mean.shape)} for axis {self.axis}"
            )

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Fixes which dims have means, for inputs of `input_shape`; None for a dim that varies and has none."""
        ndim = len(input_shape)
        if any(axis < -ndim or axis >= ndim for axis in self.axis):
            raise ValueError(
                "All `axis` values must be in the range [-ndim, ndim). "
                f"Received inputs with ndim={ndim}, while axis={self.axis}"
            )
        self._keep = tuple(sorted(axis % ndim for axis in self.axis))
        if len(set(self._keep)) < len(self._keep):
            raise InvalidArgumentError(f"Normalization: `axis` must name each dim once, but is {self.axis}.")
        if any(input_shape[dim] is None for dim in self._keep):
            raise ValueError(
                "All `axis` values to be kept must have a known shape. "
                f"Received axis={self.axis}, inputs.shape={tuple(input_shape)}"
            )
        self._shape = tuple(-1 if size is None else int(size) for size in input_shape)
        if self.input_mean is None and self.adapt_mean is None:
            sizes = [self._shape[dim] for dim in self._keep]
            self.adapt_mean, self.adapt_variance = torch.zeros(sizes), torch.ones(sizes)
            self.count = torch.zeros((), dtype=torch.int64)
        self._forget_native()

    def _broadcast(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the kept dims (or of the last of them, or one value) with the number of dims of the input."""
        assert self._shape is not None
        sizes = [1] * len(self._shape)
        for offset in range(1, values.dim() + 1):
            sizes[self._keep[-offset]] = values.shape[-offset]
        kept = [size if dim in self._keep else 1 for dim, size in enumerate(self._shape)]
        try:
            return values.reshape(sizes).broadcast_to(kept).to(self.dtype).contiguous()
        except RuntimeError:
            raise InvalidArgumentError(
                f"Normalization: `mean` and `variance` of shape {tuple(values.shape)} do not fit inputs of shape "
                f"{self._shape} with axis={self.axis}."
            ) from None

    @property
    def mean(self) -> torch.Tensor | None:
        """The means with as many dims as the input, given or learned; None before the number of dims is known."""
        values = self.adapt_mean if self.input_mean is None else torch.as_tensor(self.input_mean)
        return None if self._shape is None or values is None else self._broadcast(values.cpu())

    @property
    def variance(self) -> torch.Tensor | None:
        """The variances; otherwise as `mean`."""
        values = self.adapt_variance if self.input_mean is None else torch.as_tensor(self.input_variance)
        return None if self._shape is None or values is None else self._broadcast(values.cpu())

    def _make_native(self) -> _C.Layer:
        mean, variance = self.mean, self.variance
        if mean is None or variance is None:
            raise ValueError("You must call `.build(input_shape)` on the layer before using it.")
        return _C.normalization_layer(mean, variance, self.invert)

    def _runs_natively(self) -> bool:
        return self._shape is not None

    def forward(self, inputs: Any) -> Any:
        """The normalized `inputs`; the first call fixes the number of dims."""
        value = inputs if isinstance(inputs, torch.Tensor) else torch.as_tensor(inputs)
        if self._shape is None:
            self.build(tuple(value.shape))
        mean, variance = self.mean, self.variance
        if value.is_nested or mean is None or variance is None:
            return self._layer()((value,))
        # torch's own ops, because gradients do not pass through the native layer. The bits are the same.
        mean, deviation = mean.to(value.device), variance.sqrt().clamp_min(1e-7).to(value.device)
        value = value.to(self.dtype)
        return mean + value * deviation if self.invert else (value - mean) / deviation

    def adapt(self, data: Any, steps: int | None = None, *, strategy: Any = None, progress: bool | None = None) -> None:
        """Learns mean and variance in one pass, with sums in double precision.

        Arguments as in `StringLookup.adapt`; of elements that are tuples, such as (x, y), the first part is read, and
        elements with one dim are rows. The result does not depend on the number of processes.

        Raises ValueError for a layer that was made with `mean`, and for batches of another shape than the first one.
        """
        self._check_adaptable()
        adapt(self, _as_batches(data), steps, strategy, progress)

    def start_adapt(self, data: Any, steps: int | None = None, *, strategy: Any = None) -> Adaptation:
        """An `Adaptation` of this layer to a `Dataset`: `adapt` in pieces that can be saved and resumed."""
        self._check_adaptable()
        return Adaptation(self, _as_batches(data), steps, strategy)

    def _check_adaptable(self) -> None:
        if self.input_mean is not None:
            raise ValueError("Cannot adapt a Normalization layer that was made with `mean` and `variance`.")

    def _learner(self) -> OrderedLearner:
        return _MomentsLearner(self)

    def _whole(self, data: Any) -> Any:
        return data

    def _check_batch(self, batch: torch.Tensor) -> None:
        """Fixes the shape at the first batch and compares the others with it."""
        shape = tuple(batch.shape)
        if self._shape is None:
            self.build(shape)
        assert self._shape is not None
        if len(shape) != len(self._shape) or any(shape[dim] != self._shape[dim] for dim in self._keep):
            raise ValueError(
                f"The layer was built with input_shape={self._shape}, but adapt() is being called with data with an "
                f"incompatible shape, data.shape={shape}"
            )

    def _finish_adapt(self, learner: Any) -> None:
        if learner.total is None:
            raise ValueError("adapt() received no batches. Expected at least one batch.")
        count, mean, squares = learner.total[0], learner.total[1], learner.total[2]
        if self._shape is None:  # this process had no share of the data
            self.build(learner.shape)
        assert self._shape is not None
        sizes = [self._shape[dim] for dim in self._keep]
        self.adapt_mean = mean.reshape(sizes).float()
        self.adapt_variance = (squares / count).reshape(sizes).float()
        self.count = count[0].long().reshape(())
        self._forget_native()

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
        names = ("adapt_mean", "adapt_variance", "count", "input_shape")
        saved = {name: state_dict[prefix + name] for name in names if prefix + name in state_dict}
        if "input_shape" in saved:
            shape = saved.pop("input_shape").tolist()
            self.adapt_mean = None
            self.build([None if size < 0 else size for size in shape])
        for name, value in saved.items():
            setattr(self, name, value.clone())
        self._forget_native()
        if strict:
            known = {prefix + name for name in names}
            unexpected_keys.extend(k for k in state_dict if k.startswith(prefix) and k not in known)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self._shape is not None:
            destination[prefix + "input_shape"] = torch.tensor(self._shape, dtype=torch.int64)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "axis": self.axis,
            "invert": self.invert,
            "mean": _plain(self.input_mean),
            "variance": _plain(self.input_variance),
            "dtype": name_of(self.dtype),
        }


def _as_batches(data: Any) -> Any:
    """A dataset whose elements are rows, in batches; anything else as it is."""
    if not isinstance(data, Dataset):
        return data
    spec = data.element_spec
    shape = getattr(spec[0] if isinstance(spec, tuple) else spec, "shape", None)
    return data.batch(128) if shape is not None and len(shape) == 1 else data


def _plain(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values


class _MomentsLearner(OrderedLearner):
    """Count, mean and sum of squared differences of each position, as rows of one tensor [3, positions]."""

    def __init__(self, layer: Normalization):
        super().__init__()
        self._layer = layer
        self.total: torch.Tensor | None = None
        self.shape: list[int] = []

    def reset(self) -> None:
        super().reset()
        self.total = None

    def summary(self, batch: torch.Tensor) -> Any:
        self._layer._check_batch(batch)
        keep = self._layer._keep
        reduced = [dim for dim in range(batch.dim()) if dim not in keep]
        count = math.prod(batch.shape[dim] for dim in reduced)
        if count == 0:
            return None
        values = batch.to(self._layer.dtype).double().permute(*reduced, *keep).reshape(count, -1)
        mean = values.mean(0)
        squares = (values - mean).square().sum(0)
        return torch.stack([torch.full_like(mean, count), mean, squares]), list(self._layer._shape or ())

    def merge(self, summary: Any) -> None:
        """The parallel algorithm of Chan, Golub and LeVeque."""
        moments, self.shape = summary
        if self.total is None:
            self.total = moments
            return
        count, mean, squares = self.total
        other_count, other_mean, other_squares = moments
        total = count + other_count
        delta = other_mean - mean
        self.total = torch.stack(
            [
                total,
                mean + delta * (other_count / total),
                squares + other_squares + delta.square() * (count * other_count / total),
            ]
        )

    def state(self) -> Any:
        return self.total, self.shape

    def load(self, state: Any) -> None:
        self.total, self.shape = state
