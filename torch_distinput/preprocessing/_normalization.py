# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Normalization`: numbers shifted and scaled."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput._C import InvalidArgumentError
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.ops._preprocessing_layer import dtype_of, name_of, refuse_unknown
from torch_distinput.preprocessing._adapt import AdaptedLayer, OrderedLearner, adapt


class Normalization(AdaptedLayer):
    """Numbers shifted and scaled to mean 0 and variance 1: `(input - mean) / sqrt(variance)` in float32.

    Args:
        axis: the dims that keep a mean for each position, an int or several; the others are reduced. None: one mean for
            all.
        mean: used instead of learning it; a number or an array with at most as many dims as `axis` names.
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
        self._scales: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}
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
        """Fixes which dims have means, for inputs of `input_shape`; None in it stands for a dim that varies and has no
        means."""
        ndim = len(input_shape)
        if any(axis < -ndim or axis >= ndim for axis in self.axis):
            raise ValueError(
                "All `axis` values must be in the range [-ndim, ndim). "
                f"Received inputs with ndim={ndim}, while axis={self.axis}"
            )
        self._keep = tuple(sorted(axis % ndim for axis in self.axis))
        if self.input_mean is None and len(set(self._keep)) < len(self._keep):
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
        """Values of the kept dims (or of the last of them, or one value), shaped to the number of dims of the input."""
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
        if value.is_nested:
            return self._layer()((value,))
        # torch's own ops, because gradients do not pass through the native layer. The bits are the same.
        mean, deviation = self._scale(value.device)
        value = value.to(self.dtype)
        try:
            return mean + value * deviation if self.invert else (value - mean) / deviation
        except RuntimeError:
            _check_fits(value.shape, mean.shape)
            raise

    def _scale(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and standard deviation on a device, kept there until other values are learned."""
        if device not in self._scales:
            mean, variance = self.mean, self.variance
            assert mean is not None and variance is not None
            self._scales[device] = mean.to(device), variance.sqrt().clamp_min(1e-7).to(device)
        return self._scales[device]

    def _forget_native(self) -> None:
        super()._forget_native()
        self._scales = {}

    def adapt(self, data: Any, steps: int | None = None, *, strategy: Any = None, progress: bool | None = None) -> None:
        """Learns mean and variance in one pass, with sums in double precision.

        Arguments as in `StringLookup.adapt`; of elements that are tuples, such as (x, y), the first part is read, and
        elements with one dim are rows. The result does not depend on the number of processes.

        Raises ValueError for a layer that was made with `mean`, and for batches of another shape than the first one.
        """
        adapt(self, data, steps, strategy, progress)

    def _adapted_to(self, data: Any) -> Any:
        """A dataset whose elements are rows, in batches; anything else as it is."""
        if self.input_mean is not None:
            raise ValueError("Cannot adapt a Normalization layer that was made with `mean` and `variance`.")
        if not isinstance(data, Dataset):
            return data
        spec = data.element_spec
        shape = getattr(spec[0] if isinstance(spec, tuple) else spec, "shape", None)
        if shape is None or len(shape) != 1:
            return data
        if any(axis in (0, -2) for axis in self.axis):
            raise ValueError(
                "All `axis` values to be kept must have a known shape, but the elements are rows, of which batches are "
                f"made. Received axis={self.axis}"
            )
        return data.batch(128)

    def _learner(self) -> OrderedLearner:
        return _MomentsLearner(self)

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
        if self._shape is None:  # this process got no data
            self.build(learner.shape)
        assert self._shape is not None
        sizes = [self._shape[dim] for dim in self._keep]
        self.adapt_mean = mean.reshape(sizes).float()
        self.adapt_variance = (squares / count).reshape(sizes).float()
        self.count = count[0].long().reshape(())
        self._forget_native()

    _value_names = ("adapt_mean", "adapt_variance", "count", "input_shape")
    _optional_names = ("input_shape",)  # a layer with given values has none before the first call

    def _values(self) -> dict[str, torch.Tensor]:
        values = {name: getattr(self, name) for name in self._value_names[:3]}
        if self._shape is not None:
            values["input_shape"] = torch.tensor(self._shape, dtype=torch.int64)
        return {name: value for name, value in values.items() if value is not None}

    def _set_values(self, values: dict[str, torch.Tensor]) -> None:
        if "input_shape" in values:
            self.adapt_mean = None
            self.build([None if size < 0 else size for size in values["input_shape"].tolist()])
        for name in self._value_names[:3]:
            if name in values:
                setattr(self, name, values[name].clone())

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "axis": self.axis,
            "invert": self.invert,
            "mean": _plain(self.input_mean),
            "variance": _plain(self.input_variance),
            "dtype": name_of(self.dtype),
        }


def _check_fits(shape: torch.Size, means: torch.Size) -> None:
    try:
        torch.broadcast_shapes(shape, means)
    except RuntimeError:
        raise InvalidArgumentError(
            f"Normalization: an input of shape {tuple(shape)} does not fit means of shape {tuple(means)}."
        ) from None


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
