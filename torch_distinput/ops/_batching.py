# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ops that make batches and windows of elements, and take them apart."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import torch

from torch_distinput import _C
from torch_distinput.base._arguments import flag, integer, number, sequence
from torch_distinput.base._row_cost import RowCost, row_cost
from torch_distinput.base._structure import children, map_leaves, rebuild
from torch_distinput.ops._base import Dataset, Ops
from torch_distinput.ops._description import described


class BatchingOps(Ops[Dataset]):
    """What `Dataset` does to group elements."""

    @described
    def batch(self, batch_size: int | Sequence[tuple[int, int]], drop_remainder: bool = False) -> Dataset:
        """Stacks consecutive elements along a new dim 0: leaves [...] become [B, ...].

        Args:
            batch_size: B, at least 1; the **global** batch once the dataset is distributed. A list of pairs
                `(step, size)` is a schedule: from batch number `step` on, counted from 0 in each epoch and round of
                `repeat`, batches have `size` rows. It begins with step 0, and its steps increase.
            drop_remainder: whether a last batch of fewer than B elements is left out; else it is shorter.

        Raises ValueError, when elements are read, where their shapes differ; see `padded_batch` and `ragged_batch`.

        >>> list(tdi.Dataset.range(5).batch(2))
        [tensor([0, 1]), tensor([2, 3]), tensor([4])]
        >>> list(tdi.Dataset.range(6).batch([(0, 1), (2, 3)]))
        [tensor([0]), tensor([1]), tensor([2, 3, 4]), tensor([5])]
        """
        if isinstance(batch_size, (list, tuple)):
            schedule = sequence("batch", "batch_size", batch_size, _step_and_size)
            return self._wrapped(
                self._native.batch_by_schedule(schedule, flag("batch", "drop_remainder", drop_remainder))
            )
        return self._wrapped(self._native.batch(*_batches("batch", batch_size, drop_remainder)))

    @described
    def ragged_batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """As `batch`, for rows whose dim 0 varies: tensors [L_i, ...] become one jagged nested tensor [B, L_i, ...].

        Leaves whose shape is known statically are stacked, as are scalars, strings and sparse tensors. Only dim 0 of
        the others may vary.

        >>> spec = tdi.TensorSpec([None], torch.int64)
        >>> rows = tdi.Dataset.range(1, 3).map(lambda n: torch.arange(int(n)), element_spec=spec)
        >>> [[row.tolist() for row in batch.unbind()] for batch in rows.ragged_batch(2)]
        [[[0], [0, 1]]]
        """
        return self._wrapped(self._native.ragged_batch(*_batches("ragged_batch", batch_size, drop_remainder)))

    @described
    def unbatch(self) -> Dataset:
        """The rows along dim 0 as elements: leaves [B, ...] become B elements of leaves [...].

        >>> list(tdi.Dataset.range(3).batch(2).unbatch())
        [tensor(0), tensor(1), tensor(2)]
        """
        return self._wrapped(self._native.unbatch())

    @described
    def rebatch(self, batch_sizes: int | Sequence[int], drop_remainder: bool = False) -> Dataset:
        """Regroups the rows of batches, across their borders, into batches of other sizes.

        Args:
            batch_sizes: rows of a batch; of several sizes each is taken in turn.
            drop_remainder: whether a short last batch is left out.

        >>> list(tdi.Dataset.range(6).batch(4).rebatch([1, 2]))
        [tensor([0]), tensor([1, 2]), tensor([3]), tensor([4, 5])]
        """
        op = "rebatch"
        sizes = list(batch_sizes) if _has_entries(batch_sizes) else None
        if sizes and any(_has_entries(size) for size in sizes):
            raise ValueError(f"{op}: `batch_sizes` must have one dim at most, but is {batch_sizes!r}.")
        if sizes is None:
            sizes = [integer(op, "batch_sizes", batch_sizes)]
        else:
            sizes = sequence(op, "batch_sizes", sizes, integer)
        return self._wrapped(self._native.rebatch(sizes, flag(op, "drop_remainder", drop_remainder)))

    @described
    def window(self, size: int) -> Dataset:
        """Elements whose leaves are datasets of `size` consecutive values of that leaf; the last one may hold fewer.

        `ds.window(n).flat_map(lambda w: w.batch(n))` has the elements of `ds.batch(n)`.

        >>> [[int(number) for number in window] for window in tdi.Dataset.range(5).window(2)]
        [[0, 1], [2, 3], [4]]
        """
        return self._wrapped(self._native.window(integer("window", "size", size)))

    @described
    def padded_batch(
        self, batch_size: int, padded_shapes: Any = None, padding_values: Any = 0, drop_remainder: bool = False
    ) -> Dataset:
        """As `batch`, for elements whose shapes differ: rows are padded, at the end of each dim, to one shape.

        Args:
            batch_size: rows of a batch, at least 1; the **global** batch once the dataset is distributed.
            padded_shapes: the shape that rows are padded to, in the structure of the elements. A dim that is None (or
                -1) becomes as long as the longest row of the batch; None for the whole argument means so in every dim.
            padding_values: what to pad with: a scalar, or scalars in the structure of the elements. Strings take a
                string; 0 pads them with "".
            drop_remainder: whether a short last batch is left out.

        Raises ValueError, when elements are read, for a row that is longer than a dim of `padded_shapes`.

        >>> spec = tdi.TensorSpec([None], torch.int64)
        >>> rows = tdi.Dataset.range(1, 3).map(lambda n: n.repeat(int(n)), element_spec=spec)
        >>> [batch.tolist() for batch in rows.padded_batch(2)]
        [[[1, 0], [2, 2]]]
        """
        op = "padded_batch"
        size, drop = _batches(op, batch_size, drop_remainder)
        return self._wrapped(self._native.padded_batch(size, _shapes(op, padded_shapes), _values(padding_values), drop))

    @described
    def bucket_by_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = 0,
        pad_to_bucket_boundary: bool = False,
        drop_remainder: bool = False,
        no_padding: bool = False,
    ) -> Dataset:
        """Padded batches of elements of similar length. A bucket is yielded when it is full, the others at the end.

        Args:
            element_length_func: returns the length of an element, an int; called with the arguments that the function
                of `map` gets.
            bucket_boundaries: increasing lengths; bucket i takes lengths from boundary i - 1 to below boundary i.
            bucket_batch_sizes: rows of a batch, for each bucket: one entry more than `bucket_boundaries`.
            padded_shapes: as in `padded_batch`.
            padding_values: as in `padded_batch`.
            pad_to_bucket_boundary: pads dims that `padded_shapes` (without it: the element_spec) leaves open to the
                bucket's boundary - 1 instead of the longest row; lengths must then be below the last boundary.
            drop_remainder: whether buckets that are not full at the end are left out.
            no_padding: the elements of a bucket have one shape already and are stacked.

        >>> spec = tdi.TensorSpec([None], torch.int64)
        >>> rows = tdi.Dataset.range(1, 5).map(lambda n: n.repeat(int(n)), element_spec=spec)
        >>> [tuple(batch.shape) for batch in rows.bucket_by_length(len, [3], [2, 2])]
        [(2, 2), (2, 4)]
        """
        op = "bucket_by_length"
        return self._wrapped(
            self._native.bucket_by_length(
                element_length_func,
                sequence(op, "bucket_boundaries", bucket_boundaries, integer),
                sequence(op, "bucket_batch_sizes", bucket_batch_sizes, integer),
                _shapes(op, padded_shapes),
                _values(padding_values),
                flag(op, "pad_to_bucket_boundary", pad_to_bucket_boundary),
                flag(op, "drop_remainder", drop_remainder),
                flag(op, "no_padding", no_padding),
            )
        )

    @described
    def batch_by_cost(
        self,
        cost: RowCost,
        budget: float,
        window: int = 8192,
        padded_shapes: Any = None,
        padding_values: Any = 0,
    ) -> Dataset:
        """Padded batches of rows of similar cost, whose costs (tokens, pixels, ...) add up to at most `budget`.

        Within each window of `window` rows, the batches are about as few as the budget allows, of about equal cost, and
        no row is split or left out. Batches come in the order of their dearest rows, so in random order after
        `shuffle`. Their number is unknown before they are made.

        Args:
            cost: what each row costs, a finite number of at least 0. A tensor (or array, or list of numbers) has a cost
                for each row of the **source**: the costs follow their rows through `shuffle`, `take`, `select` and
                `map`. The dataset must then have random access, and the batches have it too, with states and shards in
                O(1). A str is the key of a column: a scalar is the cost, the cost of a sequence is its length. A
                function is called as that of `map` and returns the cost. With these two, batches are read in order.
            budget: the most that the rows of a batch cost together.
            window: rows among which batches are made; as many are held in memory where rows are read in order. Wider
                windows bring rows of more similar cost together, and leave less padding.
            padded_shapes: as in `padded_batch`.
            padding_values: as in `padded_batch`.

        Raises ValueError, when batches are made, for a row that costs more than `budget` by itself.

        >>> spec = tdi.TensorSpec([None], torch.int64)
        >>> rows = tdi.Dataset.range(1, 6).map(lambda n: n.repeat(int(n)), element_spec=spec)
        >>> [batch.tolist() for batch in rows.batch_by_cost([1, 2, 3, 4, 5], budget=6)]
        [[[1, 0, 0], [3, 3, 3]], [[2, 2, 0, 0], [4, 4, 4, 4]], [[5, 5, 5, 5, 5]]]
        """
        op = "batch_by_cost"
        return self._wrapped(
            self._native.batch_by_cost(
                row_cost(op, "cost", cost),
                number(op, "budget", budget),
                integer(op, "window", window),
                _shapes(op, padded_shapes),
                _values(padding_values),
            )
        )


def _has_entries(value: Any) -> TypeGuard[Iterable[Any]]:
    """Whether `value` can be iterated. An array without dims has `__iter__`, but no entries."""
    return hasattr(value, "__iter__") and getattr(value, "ndim", 1) > 0


def _step_and_size(op: str, name: str, entry: Any) -> tuple[int, int]:
    """An entry of a schedule."""
    if not isinstance(entry, (list, tuple)) or len(entry) != 2:
        raise TypeError(f"{op}: `{name}` must be a pair (step, size), but is {entry!r}.")
    return integer(op, f"{name}[0]", entry[0]), integer(op, f"{name}[1]", entry[1])


def _batches(op: str, batch_size: Any, drop_remainder: Any) -> tuple[int, bool]:
    return integer(op, "batch_size", batch_size), flag(op, "drop_remainder", drop_remainder)


def _shapes(op: str, shapes: Any) -> Any:
    """`shapes` as specs, which is how the native module takes them; None stays None."""
    return None if shapes is None else _shape_specs(op, shapes)


def _shape_specs(op: str, shapes: Any) -> Any:
    parts = children(shapes)
    if shapes is None or parts is None or _is_shape(shapes):
        return _C.TensorSpec(None if shapes is None else _dims(op, shapes))
    return rebuild(shapes, [_shape_specs(op, part) for part in parts])


def _is_shape(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(dim is None or hasattr(dim, "__index__") for dim in value)


def _dims(op: str, shape: Any) -> list[int | None]:
    try:
        if isinstance(shape, str):
            raise TypeError
        return [None if dim is None else _dim(op, dim) for dim in shape]
    except TypeError:
        raise TypeError(f"{op}: `padded_shapes` must hold sequences of ints and None, but has {shape!r}.") from None


def _dim(op: str, dim: Any) -> int | None:
    size = integer(op, "padded_shapes", dim)
    if size < -1:
        raise ValueError(f"{op}: `padded_shapes` must have dims of at least 0, -1 or None, but has {size}.")
    return None if size == -1 else size


def _values(values: Any) -> Any:
    """Padding values for the native module: floats in double precision, 0 for None, bytes in UTF-8 as `str`.

    A `str` pads strings and bytes alike.
    """
    return _value(values) if children(values) is None else map_leaves(_value, values)


def _value(value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value
