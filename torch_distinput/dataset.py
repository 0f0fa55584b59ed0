# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Dataset`: where elements come from and what happens to them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.utils.data import IterableDataset, get_worker_info

from torch_distinput import _C, torch_source
from torch_distinput._arguments import (
    count,
    flag,
    function,
    instance,
    integer,
    number,
    optional_integer,
    sequence,
    text,
)
from torch_distinput._file_names import file_names
from torch_distinput._structure import children, map_leaves, rebuild

if TYPE_CHECKING:
    from torch_distinput.strategy import Strategy


class Dataset(IterableDataset):
    """An immutable description of a sequence of elements; every method returns a new one.

    An element is a leaf or a nested structure of leaves: dicts with str keys, tuples, named tuples, lists, None. A leaf
    is a dense, jagged or sparse COO tensor or strings, in batches as lists of `str` or `bytes`; functions and generators
    may also yield any other objects, which are carried as they are and batched to lists. Make
    datasets with the constructors `range`, `from_tensors`, `from_tensor_slices`, `from_generator`, `from_torch` and
    `zip`. Arguments are checked when a method is called; elements are made when the dataset is iterated.

    Each `iter` of a dataset is one epoch: it reshuffles, and counts up if the iterator before handed anything out.
    In a worker process of `torch.utils.data.DataLoader` an iterator yields that worker's share of the elements.
    """

    def __init__(self, native: _C.Dataset):
        if not isinstance(native, _C.Dataset):
            raise TypeError("Dataset: make one with a constructor such as Dataset.from_tensor_slices(...).")
        self._native = native
        self._share: _C.Dataset | None = None
        self._pinned_epoch: int | None = None

    # Sources.

    @staticmethod
    def range(start: int, stop: int | None = None, step: int = 1) -> Dataset:
        """The integers of Python's `range` as int64 scalars: `range(stop)` or `range(start, stop, step=1)`."""
        first, end = integer("range", "start", start), optional_integer("range", "stop", stop)
        bounds = (0, first) if end is None else (first, end)
        return Dataset(_C.Dataset.range(*bounds, integer("range", "step", step)))

    @staticmethod
    def from_tensors(x: Any) -> Dataset:
        """One element: `x`, a structure of CPU tensors, numpy arrays, numbers, strings or lists of them."""
        return Dataset(_C.Dataset.from_tensors(x))

    @staticmethod
    def from_tensor_slices(x: Any) -> Dataset:
        """One element for each index along dim 0 of the leaves of `x`, which must have equally many.

        Leaves are CPU tensors, numpy arrays (used without a copy) or lists of numbers or strings; tuples, dicts and
        named tuples are structure. Rows of a jagged tensor are dense, those of a sparse COO tensor are sparse.
        """
        return Dataset(_C.Dataset.from_tensor_slices(x))

    @staticmethod
    def from_generator(fn: Callable[..., Any], element_spec: Any, args: Sequence[Any] = ()) -> Dataset:
        """The elements of the iterable that `fn(*args)` returns; it is called anew for each iterator.

        Args:
            fn: a generator function, or any function that returns an iterable.
            element_spec: a structure of specs that every element must fit; None takes the first element's type.
            args: arguments for `fn`.
        """
        name = getattr(fn, "__name__", type(fn).__name__)
        args = sequence("from_generator", "args", args, lambda op, name, value: value)
        open = functools.partial(fn, *args) if args else fn
        return Dataset(_C.Dataset.from_generator(open, element_spec, name, lists_are_structure=False))

    @staticmethod
    def from_torch(dataset: Any) -> Dataset:
        """The samples of a dataset of torch, before any collating; lists in a sample are structure.

        A map-style dataset has random access (through `__getitems__` where it has that); an `IterableDataset` is
        iterated anew for each iterator.
        """
        return Dataset(torch_source.native_dataset(dataset))

    @staticmethod
    def list_files(patterns: Any, shuffle: bool = True, seed: int | None = None) -> Dataset:
        """The names of the files that match `patterns`, as `str`; all as `bytes` where one is not UTF-8.

        Args:
            patterns: a pattern with `*`, `?` and `[...]`, or several. NotFoundError names one that no file matches.
            shuffle: whether the names, which are sorted first, are shuffled anew in each epoch.
            seed: makes the order reproducible; None follows the seed of the options, else one that is drawn.
        """
        names = file_names(patterns, "list_files: `patterns`")
        shuffle = flag("list_files", "shuffle", shuffle)
        return Dataset(_C.list_files(names, shuffle, optional_integer("list_files", "seed", seed)))

    @staticmethod
    def zip(structure: Any) -> Dataset:
        """Elements of several datasets side by side, in tuples and dicts that hold the datasets.

        Ends with the shortest dataset.
        """
        return Dataset(_C.Dataset.zip(map_leaves(_unwrapped, structure)))

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Dataset], weights: Sequence[float] | None = None, seed: int | None = None
    ) -> Dataset:
        """Each element comes from a dataset drawn at random; one that has ended is drawn no more.

        Args:
            datasets: datasets with elements of one type.
            weights: the share of each dataset, at least 0; None: equal shares. They need not add up to 1.
            seed: makes the draws reproducible; None follows the seed of the options, else one that is drawn.
        """
        op = "sample_from_datasets"
        shares = [] if weights is None else sequence(op, "weights", weights, number)
        if weights is not None and not shares:
            raise ValueError(f"{op}: `weights` must have one entry for each dataset, but is empty.")
        seed = optional_integer(op, "seed", seed)
        return Dataset(_C.Dataset.sample_from_datasets(sequence(op, "datasets", datasets, _native), shares, seed))

    @staticmethod
    def choose_from_datasets(datasets: Sequence[Dataset], choice: Dataset) -> Dataset:
        """Element k comes from the dataset whose index element k of `choice`, an int64 scalar, is.

        Ends with `choice`, or when the dataset that is chosen has ended.
        """
        op = "choose_from_datasets"
        natives = sequence(op, "datasets", datasets, _native)
        return Dataset(_C.Dataset.choose_from_datasets(natives, _native(op, "choice", choice)))

    # Ops.

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Consecutive elements stacked along a new dim 0; `batch_size` is the global batch once distributed.

        The last batch is shorter where elements do not come out even, or left out with `drop_remainder`.
        """
        return Dataset(self._native.batch(*_batches("batch", batch_size, drop_remainder)))

    def ragged_batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """As `batch`, for rows of varying length: they become jagged nested tensors.

        Tensors whose shape is known statically are stacked, as are scalars, strings and sparse tensors; only dim 0
        of the others may vary.
        """
        return Dataset(self._native.ragged_batch(*_batches("ragged_batch", batch_size, drop_remainder)))

    def unbatch(self) -> Dataset:
        """The rows along dim 0 as elements."""
        return Dataset(self._native.unbatch())

    def rebatch(self, batch_sizes: int | Sequence[int], drop_remainder: bool = False) -> Dataset:
        """The rows of batches regrouped, across the borders of batches, into sizes that are taken in turn."""
        op = "rebatch"
        sizes = list(batch_sizes) if _has_entries(batch_sizes) else None
        if sizes and any(_has_entries(size) for size in sizes):
            raise ValueError(f"{op}: `batch_sizes` must have one dim at most, but is {batch_sizes!r}.")
        if sizes is None:
            sizes = [integer(op, "batch_sizes", batch_sizes)]
        else:
            sizes = sequence(op, "batch_sizes", sizes, integer)
        return Dataset(self._native.rebatch(sizes, flag(op, "drop_remainder", drop_remainder)))

    def shuffle(
        self, buffer_size: int | None = None, seed: int | None = None, reshuffle_each_iteration: bool = True
    ) -> Dataset:
        """Elements in random order.

        Args:
            buffer_size: how far an element may move, in elements; None shuffles everything and needs a known length.
            seed: makes the order reproducible; None follows the seed of the options, else one that is drawn.
            reshuffle_each_iteration: whether each epoch and each round of `repeat` has another order.
        """
        op = "shuffle"
        buffer_size, seed = optional_integer(op, "buffer_size", buffer_size), optional_integer(op, "seed", seed)
        reshuffle = flag(op, "reshuffle_each_iteration", reshuffle_each_iteration)
        return Dataset(self._native.shuffle(buffer_size, seed, reshuffle))

    def repeat(self, count: int | None = None) -> Dataset:
        """The dataset `count` times; None or -1: for ever."""
        return Dataset(self._native.repeat(optional_integer("repeat", "count", count)))

    def take(self, count: int) -> Dataset:
        """The first `count` elements; -1: all."""
        return Dataset(self._native.take(integer("take", "count", count)))

    def skip(self, count: int) -> Dataset:
        """All but the first `count` elements; -1: none."""
        return Dataset(self._native.skip(integer("skip", "count", count)))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Every `num_shards`-th element from element `index` on. `shard(SHARD_HINT, 0)` marks the place for HINT."""
        num_shards, index = integer("shard", "num_shards", num_shards), integer("shard", "index", index)
        return Dataset(self._native.shard(num_shards, index))

    def enumerate(self, start: int = 0) -> Dataset:
        """Pairs of a number, counted from `start`, and an element."""
        return Dataset(self._native.enumerate(integer("enumerate", "start", start)))

    def concatenate(self, other: Dataset) -> Dataset:
        """The elements of this dataset, then those of `other`."""
        return Dataset(self._native.concatenate(_native("concatenate", "other", other)))

    def cache(self) -> Dataset:
        """Keeps elements in memory once they were read. What stands before it runs as in epoch 0, always."""
        return Dataset(self._native.cache())

    def prefetch(self, buffer_size: int) -> Dataset:
        """Reads up to `buffer_size` elements ahead on another thread; -1: as many as the library sees fit."""
        return Dataset(self._native.prefetch(integer("prefetch", "buffer_size", buffer_size)))

    def map(
        self,
        fn: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool = True,
        element_spec: Any = None,
        row_wise: bool = False,
    ) -> Dataset:
        """`fn` of each element; the parts of a tuple are passed as several arguments.

        Args:
            fn: returns a structure of tensors, numpy arrays and numbers, the same structure and dtypes each time.
            num_parallel_calls: calls at a time, each on a thread of its own; None calls in the consumer's thread.
            deterministic: False lets parallel results overtake each other.
            element_spec: a structure of specs that the results fit; None takes the first result's type.
            row_wise: promises that rows of a batch are independent of each other, so that each replica may run `fn`
                on just its rows.
        """
        calls = optional_integer("map", "num_parallel_calls", num_parallel_calls)
        deterministic = flag("map", "deterministic", deterministic)
        return Dataset(self._native.map(fn, calls, deterministic, element_spec, flag("map", "row_wise", row_wise)))

    def filter(self, fn: Callable[..., Any]) -> Dataset:
        """The elements for which `fn` returns a true bool; the parts of a tuple are passed as several arguments."""
        return Dataset(self._native.filter(fn))

    def flat_map(self, fn: Callable[..., Dataset]) -> Dataset:
        """The elements of the datasets that `fn` returns for the elements, one dataset after the other.

        The parts of a tuple are passed to `fn` as several arguments. All datasets must have elements of one type.
        """
        return Dataset(self._native.flat_map(fn))

    def interleave(
        self,
        fn: Callable[..., Dataset],
        cycle_length: int | None = None,
        block_length: int = 1,
        num_parallel_calls: int | None = None,
        deterministic: bool = True,
    ) -> Dataset:
        """The elements of the datasets that `fn` returns for the elements; several datasets take turns.

        Args:
            fn: as in `flat_map`.
            cycle_length: how many datasets take turns; None means 4, on every machine. When one ends, the next one
                takes its place at its turn.
            block_length: how many elements of a dataset come in a row.
            num_parallel_calls: threads that call `fn` and read the datasets ahead, at most `cycle_length`; -1: one for
                each CPU; None reads in the consumer's thread.
            deterministic: False lets a dataset that is ready overtake one that is not.
        """
        op = "interleave"
        return Dataset(
            self._native.interleave(
                fn,
                optional_integer(op, "cycle_length", cycle_length),
                integer(op, "block_length", block_length),
                optional_integer(op, "num_parallel_calls", num_parallel_calls),
                flag(op, "deterministic", deterministic),
            )
        )

    def window(self, size: int) -> Dataset:
        """Elements whose leaves are datasets of `size` consecutive values of that leaf; the last may hold fewer.

        `ds.window(n).flat_map(lambda w: w.batch(n))` has the elements of `ds.batch(n)`.
        """
        return Dataset(self._native.window(integer("window", "size", size)))

    def padded_batch(
        self, batch_size: int, padded_shapes: Any = None, padding_values: Any = 0, drop_remainder: bool = False
    ) -> Dataset:
        """A batch whose rows are padded, at the end of each dim, to one shape.

        Args:
            batch_size: rows of a batch; the global batch once distributed.
            padded_shapes: the shape that rows are padded to, in the structure of the elements; a dim that is None (or
                -1) becomes as long as the longest row of the batch. None: that in every dim. A row that is longer than
                a dim that is given is an error.
            padding_values: what to pad with: a scalar, or scalars in the structure of the elements; a string for
                strings, which 0 pads with "".
            drop_remainder: whether a short last batch is left out.
        """
        op = "padded_batch"
        size, drop = _batches(op, batch_size, drop_remainder)
        return Dataset(self._native.padded_batch(size, _shapes(op, padded_shapes), _values(padding_values), drop))

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
        """Padded batches of elements of similar length. A bucket is handed out when it is full, the rest at the end.

        Args:
            element_length_func: returns the length of an element, an int; called as the function of `map`.
            bucket_boundaries: increasing lengths; bucket i takes lengths from boundary i - 1 to below boundary i.
            bucket_batch_sizes: rows of a batch of each bucket: one more than boundaries.
            padded_shapes: as in `padded_batch`.
            padding_values: as in `padded_batch`.
            pad_to_bucket_boundary: pads dims that `padded_shapes` (without it: the element_spec) leaves open to the
                bucket's boundary - 1 instead of the longest row; lengths must be below the last boundary.
            drop_remainder: whether buckets that are not full at the end are left out.
            no_padding: the elements of a bucket have one shape already.
        """
        op = "bucket_by_length"
        return Dataset(
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

    def unique(self) -> Dataset:
        """Each distinct element once, where it comes first. Keeps the elements in memory; resuming reads them again."""
        return Dataset(self._native.unique())

    def assert_cardinality(self, expected_cardinality: int) -> Dataset:
        """Says how many elements there are, or `INFINITE`: `len` then knows it.

        Reading raises FailedPreconditionError where the data turns out to be longer or shorter.
        """
        size = integer("assert_cardinality", "expected_cardinality", expected_cardinality)
        return Dataset(self._native.assert_cardinality(size))

    def normalize_images(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        dtype: torch.dtype = torch.float32,
        layout: str = "NCHW",
    ) -> Dataset:
        """Images of uint8 as numbers: `(byte / 255 - mean) / std`, where the data ends up.

        Changes every uint8 leaf with at least 3 dims a row. Its last dim is the channels if it is as long as `mean`,
        else its third last one.

        Args:
            mean: an entry for each channel, as after a division by 255.
            std: likewise.
            dtype: torch.float32, torch.float16 or torch.bfloat16. A value is one fused multiply-add in float32 with
                factors that were rounded once, then rounded to `dtype`.
            layout: "NCHW" puts the channels before height and width, "NHWC" behind.
        """
        op = "normalize_images"
        means, stds = sequence(op, "mean", mean, number), sequence(op, "std", std, number)
        dtype = instance(op, "dtype", dtype, torch.dtype)
        return Dataset(self._native.normalize_images(means, stds, dtype, text(op, "layout", layout)))

    def apply(self, transformation: Callable[[Dataset], Dataset]) -> Dataset:
        """`transformation(self)`: a chain of ops with a name."""
        result = function("apply", "transformation", transformation)(self)
        if not isinstance(result, Dataset):
            name = getattr(transformation, "__name__", type(transformation).__name__)
            raise TypeError(f"apply: {name} must return a Dataset, but returned a {type(result).__name__}.")
        return result

    def with_options(self, options: _C.Options) -> Dataset:
        """The dataset with `options`; of several, the later one wins field by field."""
        return Dataset(self._native.with_options(instance("with_options", "options", options, _C.Options)))

    # Questions.

    def options(self) -> _C.Options:
        """The options set on the dataset."""
        return self._native.options()

    def cardinality(self) -> int:
        """The number of elements, `INFINITE` (-1) or `UNKNOWN` (-2)."""
        return self._native.cardinality()

    @property
    def element_spec(self) -> Any:
        """The type of the elements: their structure with a spec at each leaf. May call functions on one element."""
        return self._native.element_spec

    def explain(self, strategy: Strategy | None = None) -> str:
        """A line for each op: its arguments, path, cardinality and spec.

        With a strategy: how it would assign the rows, and why.
        """
        if strategy is None:
            return self._native.explain()
        if not callable(getattr(strategy, "distribute_dataset", None)):
            raise TypeError(f"explain: `strategy` must be a Strategy, but is a {type(strategy).__name__}.")
        return strategy.distribute_dataset(self).explain()

    def __len__(self) -> int:
        cardinality = self._native.cardinality()
        if cardinality < 0:
            kind = "infinite" if cardinality == _C.INFINITE else "unknown before iterating"
            raise TypeError(f"len: the number of elements of this Dataset is {kind}.")
        return cardinality

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Dataset({self._native!r})"

    # Iterators.

    def __iter__(self) -> _C.DatasetIterator:
        worker = get_worker_info()
        if worker is None:
            return self._native.iterate()
        if self._share is None:
            self._share = self._native.shard(worker.num_workers, worker.id)
        epoch = self._pop_pinned_epoch()
        if epoch is not None:
            self._share.set_epoch(epoch)
        # All workers of a DataLoader must draw the same order to share it: torch gives them seeds in a row.
        seed = worker.seed - worker.id if self._native.options().seed is None else None
        return self._share.iterate(seed=seed)

    def set_epoch(self, epoch: int) -> None:
        """Pins the epoch of the next iterator."""
        epoch = count("set_epoch", "epoch", epoch)
        self._native.set_epoch(epoch)
        self._pinned_epoch = epoch

    def _pop_pinned_epoch(self) -> int | None:
        """The epoch that was pinned since the last call, for a DataLoader, which counts epochs itself."""
        epoch, self._pinned_epoch = self._pinned_epoch, None
        return epoch

    def _batch_size(self) -> int | None:
        """Rows of an element, where ops that make batches tell."""
        return self._native.batch_size()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "pickle: a torch_distinput Dataset cannot be pickled, because it refers to this process's memory and "
            "functions. Make it in the process that uses it, or start worker processes by fork."
        )


def _native(op: str, name: str, value: Any) -> _C.Dataset:
    return instance(op, name, value, Dataset)._native


def _has_entries(value: Any) -> bool:
    """Also of an array, which has no entries without dims."""
    return hasattr(value, "__iter__") and getattr(value, "ndim", 1) > 0


def _batches(op: str, batch_size: Any, drop_remainder: Any) -> tuple[int, bool]:
    return integer(op, "batch_size", batch_size), flag(op, "drop_remainder", drop_remainder)


def _shapes(op: str, shapes: Any) -> Any:
    """Shapes as the specs that carry them to the native module; None stays None."""
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
    """Padding values: floats in double precision, 0 for None, and `str`, which pads bytes too, for bytes in UTF-8."""
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


def _unwrapped(value: Any) -> Any:
    return value._native if isinstance(value, Dataset) else value
