# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Dataset`: where elements come from and what happens to them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

import torch
from torch.utils.data import IterableDataset, get_worker_info

from torch_distinput import _C, explanation, torch_source
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
from torch_distinput.ops.columns import ColumnOps
from torch_distinput.ops.images import ImageOps
from torch_distinput.ops.records import RecordOps
from torch_distinput.ops.tokens import TokenOps
from torch_distinput.preprocessing_layer import native_function

if TYPE_CHECKING:
    from torch_distinput.strategy import Strategy


class Dataset(ColumnOps, TokenOps, ImageOps, RecordOps, IterableDataset):
    """An immutable description of a sequence of elements; every method returns a new one.

    An element is a leaf or a nested structure of leaves: dicts with str keys, tuples, named tuples, lists, None. A leaf
    is a dense, jagged or sparse COO tensor, or strings (lists of `str` or `bytes` in a batch). Functions and generators
    may also yield any other Python objects; these are carried as they are, and a batch of them is a list.

    Make a dataset with one of the static methods, such as `from_tensor_slices`, or with a class for files, such as
    `TFRecordDataset`. A method checks its arguments at the call: TypeError for a value of the wrong type, ValueError
    for one out of range; both name method, argument and value. Elements are made when the dataset is iterated.

    Each `iter(dataset)` is one epoch: it reshuffles. The epoch number goes up by one if the iterator before returned
    at least one element. In a worker process of `torch.utils.data.DataLoader` an iterator yields the share of that
    worker. A dataset may be used from any thread, an iterator by one thread at a time.

    >>> ds = tdi.Dataset.range(10).shuffle(seed=7).batch(4)
    >>> [len(batch) for batch in ds]
    [4, 4, 2]
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
        """The integers of Python's `range` as int64 scalars: `range(stop)` or `range(start, stop, step=1)`.

        Random access. ValueError where `step` is 0.

        >>> [int(number) for number in tdi.Dataset.range(2, 10, 3)]
        [2, 5, 8]
        """
        first, end = integer("range", "start", start), optional_integer("range", "stop", stop)
        bounds = (0, first) if end is None else (first, end)
        return Dataset(_C.Dataset.range(*bounds, integer("range", "step", step)))

    @staticmethod
    def from_tensors(x: Any) -> Dataset:
        """One element: `x`, a structure of CPU tensors, numpy arrays, numbers, strings or lists of them.

        Tensors and arrays are not copied.

        >>> list(tdi.Dataset.from_tensors({"x": torch.tensor([1, 2])}))
        [{'x': tensor([1, 2])}]
        """
        return Dataset(_C.Dataset.from_tensors(x))

    @staticmethod
    def from_tensor_slices(x: Any) -> Dataset:
        """One element for each index along dim 0 of the leaves of `x`. Random access.

        Args:
            x: leaves [N, ...] of equal N: CPU tensors, numpy arrays (both used without a copy), or lists of numbers or
                strings; tuples, dicts and named tuples are structure. An element has leaves [...]. Rows of a jagged
                tensor are dense, rows of a sparse COO tensor are sparse.

        Raises ValueError for leaves of different length, TypeError for a leaf of another kind.

        >>> list(tdi.Dataset.from_tensor_slices({"x": torch.tensor([1, 2]), "name": ["a", "b"]}))
        [{'x': tensor(1), 'name': 'a'}, {'x': tensor(2), 'name': 'b'}]
        """
        return Dataset(_C.Dataset.from_tensor_slices(x))

    @staticmethod
    def from_generator(fn: Callable[..., Any], element_spec: Any, args: Sequence[Any] = ()) -> Dataset:
        """The elements of the iterable that `fn(*args)` returns; `fn` is called anew for each iterator.

        The elements come in sequence, without random access. Resuming calls `fn` again and skips what was read.

        Args:
            fn: a generator function, or any function that returns an iterable.
            element_spec: a structure of specs that every element must fit; None takes the type of the first element.
            args: arguments for `fn`.

        >>> list(tdi.Dataset.from_generator(lambda: iter([1.0, 2.0]), tdi.TensorSpec((), torch.float32)))
        [tensor(1.), tensor(2.)]
        """
        name = getattr(fn, "__name__", type(fn).__name__)
        args = sequence("from_generator", "args", args, lambda op, name, value: value)
        open = functools.partial(fn, *args) if args else fn
        return Dataset(_C.Dataset.from_generator(open, element_spec, name, lists_are_structure=False))

    @staticmethod
    def from_torch(dataset: Any) -> Dataset:
        """The samples of a torch dataset, before any collating; lists in a sample are structure.

        Args:
            dataset: map-style, which gives random access (through `__getitems__` where the dataset has that method), or
                an `IterableDataset`, which is iterated anew for each iterator.

        Raises TypeError where `dataset` is neither.

        >>> list(tdi.Dataset.from_torch(torch.utils.data.TensorDataset(torch.tensor([1, 2]))))
        [(tensor(1),), (tensor(2),)]
        """
        return Dataset(torch_source.native_dataset(dataset))

    @staticmethod
    def list_files(patterns: Any, shuffle: bool = True, seed: int | None = None) -> Dataset:
        """The names of the files that match `patterns`, as `str`; all as `bytes` where one of them is not UTF-8.

        Args:
            patterns: one pattern or several, with `*`, `?` and `[...]`. The call looks for the files.
            shuffle: whether the names are shuffled anew in each epoch; they are sorted first, so that the order does
                not depend on the file system.
            seed: makes the order reproducible; None uses the seed of the options, else one that is drawn once.

        Raises NotFoundError that names a pattern which no file matches.
        """
        names = file_names(patterns, "list_files: `patterns`")
        shuffle = flag("list_files", "shuffle", shuffle)
        return Dataset(_C.list_files(names, shuffle, optional_integer("list_files", "seed", seed)))

    @staticmethod
    def zip(structure: Any) -> Dataset:
        """Elements of several datasets side by side; ends with the shortest dataset.

        Args:
            structure: tuples and dicts with a Dataset at each leaf; an element of the result has the element of that
                dataset in its place.

        >>> [(int(a), int(b)) for a, b in tdi.Dataset.zip((tdi.Dataset.range(3), tdi.Dataset.range(5, 7)))]
        [(0, 5), (1, 6)]
        """
        return Dataset(_C.Dataset.zip(map_leaves(_unwrapped, structure)))

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Dataset], weights: Sequence[float] | None = None, seed: int | None = None
    ) -> Dataset:
        """Each element comes from a dataset drawn at random; a dataset that has ended is not drawn again.

        Args:
            datasets: datasets with elements of one type.
            weights: the share of each dataset, at least 0; None: equal shares. They need not add up to 1.
            seed: makes the draws reproducible; None uses the seed of the options, else one that is drawn once.

        >>> mixed = tdi.Dataset.sample_from_datasets([tdi.Dataset.range(3), tdi.Dataset.range(10, 12)], seed=1)
        >>> sorted(int(number) for number in mixed)
        [0, 1, 2, 10, 11]
        """
        op = "sample_from_datasets"
        shares = [] if weights is None else sequence(op, "weights", weights, number)
        if weights is not None and not shares:
            raise ValueError(f"{op}: `weights` must have one entry for each dataset, but is empty.")
        seed = optional_integer(op, "seed", seed)
        return Dataset(_C.Dataset.sample_from_datasets(sequence(op, "datasets", datasets, _native), shares, seed))

    @staticmethod
    def choose_from_datasets(datasets: Sequence[Dataset], choice: Dataset) -> Dataset:
        """Element k comes from dataset number `choice[k]`.

        Args:
            datasets: datasets with elements of one type.
            choice: a dataset of int64 scalars from 0 to below `len(datasets)`; the iterator raises ValueError for
                another index.

        Ends with `choice`, or when the chosen dataset has ended.

        >>> odd, even = tdi.Dataset.range(1, 9, 2), tdi.Dataset.range(0, 9, 2)
        >>> chosen = tdi.Dataset.choose_from_datasets([even, odd], tdi.Dataset.from_tensor_slices([0, 0, 1]))
        >>> [int(number) for number in chosen]
        [0, 2, 1]
        """
        op = "choose_from_datasets"
        natives = sequence(op, "datasets", datasets, _native)
        return Dataset(_C.Dataset.choose_from_datasets(natives, _native(op, "choice", choice)))

    # Ops.

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Stacks consecutive elements along a new dim 0: leaves [...] become [B, ...].

        Args:
            batch_size: B, at least 1; the **global** batch once the dataset is distributed.
            drop_remainder: whether a last batch of fewer than B elements is left out; else it is shorter.

        Raises ValueError, when elements are read, where their shapes differ; see `padded_batch` and `ragged_batch`.

        >>> list(tdi.Dataset.range(5).batch(2))
        [tensor([0, 1]), tensor([2, 3]), tensor([4])]
        """
        return Dataset(self._native.batch(*_batches("batch", batch_size, drop_remainder)))

    def ragged_batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """As `batch`, for rows whose dim 0 varies: tensors [L_i, ...] become one jagged nested tensor [B, L_i, ...].

        Leaves whose shape is known statically are stacked, as are scalars, strings and sparse tensors. Only dim 0 of
        the others may vary.

        >>> spec = tdi.TensorSpec([None], torch.int64)
        >>> rows = tdi.Dataset.range(1, 3).map(lambda n: torch.arange(int(n)), element_spec=spec)
        >>> [[row.tolist() for row in batch.unbind()] for batch in rows.ragged_batch(2)]
        [[[0], [0, 1]]]
        """
        return Dataset(self._native.ragged_batch(*_batches("ragged_batch", batch_size, drop_remainder)))

    def unbatch(self) -> Dataset:
        """The rows along dim 0 as elements: leaves [B, ...] become B elements of leaves [...].

        >>> list(tdi.Dataset.range(3).batch(2).unbatch())
        [tensor(0), tensor(1), tensor(2)]
        """
        return Dataset(self._native.unbatch())

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
        return Dataset(self._native.rebatch(sizes, flag(op, "drop_remainder", drop_remainder)))

    def shuffle(
        self, buffer_size: int | None = None, seed: int | None = None, reshuffle_each_iteration: bool = True
    ) -> Dataset:
        """Elements in random order: a pure function of seed, epoch and position, whatever the number of threads.

        Args:
            buffer_size: how far an element may move, in elements, at least 1. None shuffles all elements, in constant
                memory, and needs a known length (else ValueError).
            seed: makes the order reproducible; None uses the seed of the options, else one that is drawn once.
            reshuffle_each_iteration: whether each epoch and each round of `repeat` has another order.

        >>> sorted(int(number) for number in tdi.Dataset.range(5).shuffle(seed=7))
        [0, 1, 2, 3, 4]
        """
        op = "shuffle"
        buffer_size, seed = optional_integer(op, "buffer_size", buffer_size), optional_integer(op, "seed", seed)
        reshuffle = flag(op, "reshuffle_each_iteration", reshuffle_each_iteration)
        return Dataset(self._native.shuffle(buffer_size, seed, reshuffle))

    def repeat(self, count: int | None = None) -> Dataset:
        """The dataset `count` times; None or -1: without end.

        >>> [int(number) for number in tdi.Dataset.range(2).repeat(2)]
        [0, 1, 0, 1]
        """
        return Dataset(self._native.repeat(optional_integer("repeat", "count", count)))

    def take(self, count: int) -> Dataset:
        """The first `count` elements; -1: all.

        >>> [int(number) for number in tdi.Dataset.range(5).take(2)]
        [0, 1]
        """
        return Dataset(self._native.take(integer("take", "count", count)))

    def skip(self, count: int) -> Dataset:
        """All but the first `count` elements; -1: no element.

        >>> [int(number) for number in tdi.Dataset.range(5).skip(3)]
        [3, 4]
        """
        return Dataset(self._native.skip(integer("skip", "count", count)))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Every `num_shards`-th element, beginning with element `index`; 0 <= index < num_shards.

        `shard(SHARD_HINT, 0)` marks the place where `AutoShardPolicy.HINT` puts the number of workers and the index of
        each worker.

        >>> [int(number) for number in tdi.Dataset.range(7).shard(3, 1)]
        [1, 4]
        """
        num_shards, index = integer("shard", "num_shards", num_shards), integer("shard", "index", index)
        return Dataset(self._native.shard(num_shards, index))

    def enumerate(self, start: int = 0) -> Dataset:
        """Pairs `(number, element)`; numbers are int64 scalars, counted from `start`.

        >>> list(tdi.Dataset.from_tensor_slices(["a", "b"]).enumerate())
        [(tensor(0), 'a'), (tensor(1), 'b')]
        """
        return Dataset(self._native.enumerate(integer("enumerate", "start", start)))

    def concatenate(self, other: Dataset) -> Dataset:
        """The elements of this dataset, then those of `other`, which must have elements of the same type.

        >>> [int(number) for number in tdi.Dataset.range(2).concatenate(tdi.Dataset.range(7, 9))]
        [0, 1, 7, 8]
        """
        return Dataset(self._native.concatenate(_native("concatenate", "other", other)))

    def cache(self) -> Dataset:
        """Keeps elements in memory once they were read; later epochs take them from there.

        What comes before `cache` always runs as in epoch 0, so put `shuffle` after it.

        >>> list(tdi.Dataset.range(2).map(lambda n: n * 10).cache())
        [tensor(0), tensor(10)]
        """
        return Dataset(self._native.cache())

    def prefetch(self, buffer_size: int) -> Dataset:
        """Reads up to `buffer_size` elements ahead on another thread; -1: the library chooses the number."""
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
            fn: returns a structure of tensors, numpy arrays, numbers, strings or other objects, with the same structure
                and dtypes each time. `torch_distinput.random()` inside it returns a generator for the current row. A
                layer of `torch_distinput.preprocessing` runs natively.
            num_parallel_calls: how many calls run at a time, each on a thread of its own; None calls `fn` in the
                consumer's thread.
            deterministic: False lets a result that is ready overtake one that is not.
            element_spec: a structure of specs that the results fit; None takes the type of the first result.
            row_wise: promises that the rows of a batch are independent of each other, so that each replica may run `fn`
                on its own rows only.

        An exception of `fn` is raised by the iterator, with its own type; `Options.on_error` can skip such elements.

        >>> list(tdi.Dataset.range(3).map(lambda number: number + 1))
        [tensor(1), tensor(2), tensor(3)]
        """
        calls = optional_integer("map", "num_parallel_calls", num_parallel_calls)
        deterministic = flag("map", "deterministic", deterministic)
        fn = native_function(fn)
        return Dataset(self._native.map(fn, calls, deterministic, element_spec, flag("map", "row_wise", row_wise)))

    def filter(self, fn: Callable[..., Any]) -> Dataset:
        """The elements for which `fn` returns True; the parts of a tuple are passed as several arguments.

        `fn` returns a bool or a scalar tensor of bool; the iterator raises TypeError for anything else. The number of
        elements is unknown before reading.

        >>> list(tdi.Dataset.range(5).filter(lambda number: number % 2 == 1))
        [tensor(1), tensor(3)]
        """
        return Dataset(self._native.filter(fn))

    def flat_map(self, fn: Callable[..., Dataset]) -> Dataset:
        """The elements of the datasets that `fn` returns for the elements, one dataset after the other.

        The parts of a tuple are passed to `fn` as several arguments. All datasets must have elements of one type.

        >>> [int(number) for number in tdi.Dataset.range(4).flat_map(lambda n: tdi.Dataset.range(int(n)))]
        [0, 0, 1, 0, 1, 2]
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

        >>> rounds = tdi.Dataset.range(2).interleave(lambda n: tdi.Dataset.from_tensors(n).repeat(2))
        >>> [int(number) for number in rounds]
        [0, 1, 0, 1]
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
        """Elements whose leaves are datasets of `size` consecutive values of that leaf; the last one may hold fewer.

        `ds.window(n).flat_map(lambda w: w.batch(n))` has the elements of `ds.batch(n)`.

        >>> [[int(number) for number in window] for window in tdi.Dataset.range(5).window(2)]
        [[0, 1], [2, 3], [4]]
        """
        return Dataset(self._native.window(integer("window", "size", size)))

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
        """Each distinct element once, where it comes first. Keeps the elements in memory; resuming reads them again.

        >>> list(tdi.Dataset.from_tensor_slices(["a", "b", "a"]).unique())
        ['a', 'b']
        """
        return Dataset(self._native.unique())

    def assert_cardinality(self, expected_cardinality: int) -> Dataset:
        """Declares how many elements there are, or `INFINITE`, so that `len` and `cardinality` know it.

        Reading raises FailedPreconditionError where the data turns out to be longer or shorter.

        >>> len(tdi.Dataset.range(5).filter(lambda n: n < 3).assert_cardinality(3))
        3
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
        """Images of uint8 as floating-point numbers: `(byte / 255 - mean) / std`, on the device that gets the batch.

        Changes every uint8 leaf with at least 3 dims a row, [..., H, W, C] or [..., C, H, W]. The last dim is the
        channels if it is as long as `mean`, else the third last one.

        Args:
            mean: an entry for each channel, for values after the division by 255.
            std: likewise.
            dtype: torch.float32, torch.float16 or torch.bfloat16. A value is one fused multiply-add in float32 with
                factors that were rounded once, then rounded to `dtype`.
            layout: of the result: "NCHW" puts the channels before height and width, "NHWC" after them.

        >>> images = tdi.Dataset.from_tensor_slices(torch.zeros(2, 4, 4, 3, dtype=torch.uint8)).batch(2)
        >>> [batch.shape for batch in images.normalize_images([0.5] * 3, [0.25] * 3)]
        [torch.Size([2, 3, 4, 4])]
        """
        op = "normalize_images"
        means, stds = sequence(op, "mean", mean, number), sequence(op, "std", std, number)
        dtype = instance(op, "dtype", dtype, torch.dtype)
        return Dataset(self._native.normalize_images(means, stds, dtype, text(op, "layout", layout)))

    def apply(self, transformation: Callable[[Dataset], Dataset]) -> Dataset:
        """`transformation(self)`, for a function that adds several ops. TypeError where it returns no Dataset.

        >>> list(tdi.Dataset.range(6).apply(lambda ds: ds.skip(2).batch(4)))
        [tensor([2, 3, 4, 5])]
        """
        result = function("apply", "transformation", transformation)(self)
        if not isinstance(result, Dataset):
            name = getattr(transformation, "__name__", type(transformation).__name__)
            raise TypeError(f"apply: {name} must return a Dataset, but returned a {type(result).__name__}.")
        return result

    def with_options(self, options: _C.Options) -> Dataset:
        """The dataset with `options`; of several calls, the later one wins field by field.

        >>> tdi.Dataset.range(3).with_options(tdi.Options(seed=1)).options().seed
        1
        """
        return Dataset(self._native.with_options(instance("with_options", "options", options, _C.Options)))

    # Questions.

    def options(self) -> _C.Options:
        """The options set with `with_options`; a field that was not set is None."""
        return self._native.options()

    def cardinality(self) -> int:
        """The number of elements, `INFINITE` (-1) or `UNKNOWN` (-2).

        >>> tdi.Dataset.range(5).batch(2).cardinality(), tdi.Dataset.range(5).repeat().cardinality()
        (3, -1)
        """
        return self._native.cardinality()

    @property
    def element_spec(self) -> Any:
        """The type of the elements: their structure with a spec at each leaf.

        May read one element, to call the functions of `map` on it.

        >>> tdi.Dataset.range(5).batch(2).element_spec
        TensorSpec(shape=(None,), dtype=torch.int64)
        """
        return self._native.element_spec

    def explain(self, strategy: Strategy | None = None) -> explanation.Explanation:
        """A report with a line for each op: its arguments, cardinality, path, threads at most, and spec; consoles and
        notebooks show a tree. Where elements are tiny, the caller does the work of the arena's threads.

        With a strategy: how that would assign the rows, and why. TypeError where `strategy` is no Strategy.

        >>> print(tdi.Dataset.range(4).explain())
        op                              elements  path  threads...  element_spec
        range(start=0, stop=4, step=1)  4         plan  arena (...)  TensorSpec(shape=(), dtype=torch.int64)
        """
        if strategy is None:
            return explanation.of_pipeline(self._native)
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
        # All workers of a DataLoader must draw the same order to share it. torch seeds worker i with base + i.
        seed = worker.seed - worker.id if self._native.options().seed is None else None
        return self._share.iterate(seed=seed)

    def set_epoch(self, epoch: int) -> None:
        """Pins the epoch of the next iterator, at least 0; the iterators after it count on from there."""
        epoch = count("set_epoch", "epoch", epoch)
        self._native.set_epoch(epoch)
        self._pinned_epoch = epoch

    def _pop_pinned_epoch(self) -> int | None:
        """The epoch that was pinned since the last call, or None. For a DataLoader, which counts epochs itself."""
        epoch, self._pinned_epoch = self._pinned_epoch, None
        return epoch

    def _batch_size(self) -> int | None:
        """Rows of an element, where the ops that make batches tell; else None."""
        return self._native.batch_size()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "pickle: a torch_distinput Dataset cannot be pickled, because it refers to this process's memory and "
            "functions. Make it in the process that uses it, or start worker processes by fork."
        )


def _native(op: str, name: str, value: Any) -> _C.Dataset:
    return instance(op, name, value, Dataset)._native


def _has_entries(value: Any) -> TypeGuard[Iterable[Any]]:
    """Whether `value` can be iterated. An array without dims has `__iter__`, but no entries."""
    return hasattr(value, "__iter__") and getattr(value, "ndim", 1) > 0


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


def _unwrapped(value: Any) -> Any:
    return value._native if isinstance(value, Dataset) else value
