# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Dataset`: where elements come from and what happens to them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from torch.utils.data import IterableDataset, get_worker_info

from torch_distinput import _C
from torch_distinput.base._arguments import count, file_names, flag, function, integer, optional_integer, sequence
from torch_distinput.datasets import _given_data as given_data
from torch_distinput.datasets._ray_blocks import RayBlocks
from torch_distinput.datasets._rebuild import reading_of
from torch_distinput.datasets._source_row import SourceRow, located
from torch_distinput.observe import _explanation as explanation
from torch_distinput.ops._base import Call, remember
from torch_distinput.ops._batching import BatchingOps
from torch_distinput.ops._buffering import BufferingOps
from torch_distinput.ops._columns import ColumnOps
from torch_distinput.ops._combining import CombiningOps
from torch_distinput.ops._description import VERSION, Whole, describe, described, make_again
from torch_distinput.ops._functional import FunctionalOps
from torch_distinput.ops._images import ImageOps
from torch_distinput.ops._ordering import OrderingOps
from torch_distinput.ops._records import RecordOps
from torch_distinput.ops._tokens import TokenOps
from torch_distinput.recognize import _torch_source as torch_source
from torch_distinput.storage._options import CacheDir, Storage, StorageOptions, stored_names


class Strategy(Protocol):
    """What assigns rows to replicas, as far as `explain` needs it."""

    def distribute_dataset(self, dataset: Dataset) -> Any: ...


class Dataset(
    FunctionalOps["Dataset"],
    BatchingOps["Dataset"],
    OrderingOps["Dataset"],
    CombiningOps["Dataset"],
    BufferingOps["Dataset"],
    ColumnOps["Dataset"],
    TokenOps["Dataset"],
    ImageOps["Dataset"],
    RecordOps["Dataset"],
    IterableDataset,
):
    """An immutable description of a sequence of elements; every method returns a new one.

    An element is a leaf or a nested structure of leaves: dicts with str keys, tuples, named tuples, lists, None. A leaf
    is a dense, jagged or sparse COO tensor, or strings (lists of `str` or `bytes` in a batch). Functions and generators
    may also yield any other Python objects; these are passed on unchanged, and a batch of them is a list.

    Make a dataset with one of the static methods, such as `from_tensor_slices`, or with a class for files, such as
    `TFRecordDataset`. A method checks its arguments at the call: TypeError for a value of the wrong type, ValueError
    for one out of range; both name method, argument and value. Elements are made when the dataset is iterated.

    Each `iter(dataset)` is one epoch: it reshuffles. The epoch number goes up by one if the iterator before returned
    at least one element. In a worker process of `torch.utils.data.DataLoader` an iterator yields the share of that
    worker. A dataset may be used from any thread, an iterator by one thread at a time.

    A pickle holds the calls that made the dataset, whose functions follow pickle's rules. TypeError for what can be
    read only once and for elements of `window`.

    >>> ds = tdi.Dataset.range(10).shuffle(seed=7).batch(4)
    >>> [len(batch) for batch in ds]
    [4, 4, 2]
    """

    def __init__(self, native: _C.Dataset):
        if not isinstance(native, _C.Dataset):
            raise TypeError("Dataset: make one with a constructor such as Dataset.from_tensor_slices(...).")
        self._native = native
        self._call: Call | None = None
        self._share: _C.Dataset | None = None
        self._pinned_epoch: int | None = None

    @classmethod
    def _wrapped(cls, native: _C.Dataset) -> Dataset:
        return Dataset(native)

    # Sources; `ColumnOps` has one more.

    @staticmethod
    @described
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
    @described
    def from_tensors(x: Any) -> Dataset:
        """One element: `x`, a structure of CPU tensors, numpy arrays, numbers, strings or lists of them.

        Tensors and arrays are not copied.

        >>> list(tdi.Dataset.from_tensors({"x": torch.tensor([1, 2])}))
        [{'x': tensor([1, 2])}]
        """
        dataset = Dataset(_C.Dataset.from_tensors(x))
        remember(dataset, Call("from_tensors", (given_data.of_tensors(x, dataset._native),), {}))
        return dataset

    @staticmethod
    @described
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
        dataset = Dataset(_C.Dataset.from_tensor_slices(x))
        remember(dataset, Call("from_tensor_slices", (given_data.of_slices(x, dataset._native),), {}))
        return dataset

    @staticmethod
    @described
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
        dataset = Dataset(_C.Dataset.from_generator(open, element_spec, name, lists_are_structure=False))
        remember(dataset, Call("from_generator", (fn, element_spec, Whole(lambda: args)), {}))
        return dataset

    @staticmethod
    @described
    def from_torch(dataset: Any) -> Dataset:
        """The samples of a torch dataset, before any collating; lists in a sample are structure.

        Args:
            dataset: map-style, which gives random access (through `__getitems__` where the dataset has that method), or
                an `IterableDataset`, which is iterated anew for each iterator.

        Raises TypeError where `dataset` is neither.

        >>> list(tdi.Dataset.from_torch(torch.utils.data.TensorDataset(torch.tensor([1, 2]))))
        [(tensor(1),), (tensor(2),)]
        """
        made = Dataset(torch_source.native_dataset(dataset))
        remember(made, Call("from_torch", (Whole(lambda: dataset),), {}))
        return made

    @staticmethod
    def from_ray(ray_dataset: Any) -> Dataset:
        """The rows of a dataset of Ray Data: dicts of its columns.

        This call executes the dataset, in the order of its rows, unless it was materialized. Several ranks need the
        blocks of one execution: pass `ray_dataset.materialize()` to all of them. The blocks become streams (policy
        STREAMS): each rank reads blocks of its own, as they are, and all ranks take the same steps, without a row too
        many or too few. A state resumes at a row of a block, on any number of ranks.

        Args:
            ray_dataset: a `ray.data.Dataset`. Columns of numbers, of tensors of one shape, and of texts.

        Raises TypeError for another object, such as a rank's shard of a dataset, and what the execution raises. Ranks
        with blocks of executions of their own raise DistributedDatasetError at their first step.
        """
        blocks = RayBlocks(ray_dataset)
        numbers = Dataset.from_tensor_slices(blocks.numbers())  # which ranks compare before the first step
        rows = numbers.flat_map(functools.partial(_rows_of_block, blocks))
        return rows.with_options(_C.Options(auto_shard_policy=_C.AutoShardPolicy.STREAMS))

    @staticmethod
    @described
    def list_files(
        patterns: Any,
        shuffle: bool = True,
        seed: int | None = None,
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ) -> Dataset:
        """The names of the files that match `patterns`, as `str`; all as `bytes` where one of them is not UTF-8.

        Args:
            patterns: one pattern or several, with `*`, `?` and `[...]`. In a URL, `**` also stands for folders, and
                `{000..012}` and `{a,b}` for names, as in `TarDataset`. The call looks for the files.
            shuffle: whether the names are shuffled anew in each epoch; they are sorted first, so that the order does
                not depend on the file system.
            seed: makes the order reproducible; None uses the seed of the options, else one that is drawn once.
            storage_options, filesystem, cache_dir, cache_bytes: how URLs are listed and read, as in `TextLineDataset`.

        Raises NotFoundError that names a pattern which no file matches, and RemoteError where a store cannot be listed;
        web servers (`https://`) cannot.
        """
        storage = Storage(storage_options, filesystem, cache_dir, cache_bytes)
        names = stored_names("list_files", file_names(patterns, "list_files: `patterns`"), storage)
        shuffle = flag("list_files", "shuffle", shuffle)
        return Dataset(_C.list_files(names, shuffle, optional_integer("list_files", "seed", seed)))

    # Ops; all others are in the base classes.

    def apply(self, transformation: Callable[[Dataset], Dataset]) -> Dataset:
        """`transformation(self)`, for a function that adds several ops. TypeError unless it returns a Dataset.

        >>> list(tdi.Dataset.range(6).apply(lambda ds: ds.skip(2).batch(4)))
        [tensor([2, 3, 4, 5])]
        """
        result = function("apply", "transformation", transformation)(self)
        if not isinstance(result, Dataset):
            name = getattr(transformation, "__name__", type(transformation).__name__)
            raise TypeError(f"apply: {name} must return a Dataset, but returned a {type(result).__name__}.")
        return result

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
        """A tree of the ops, the last one on top, each with its arguments, cardinality, path, threads at most, and
        spec. Where elements are tiny, the caller does the work of the arena's threads.

        With a strategy: how that would assign the rows, and why. TypeError unless `strategy` is a Strategy. Objects of
        stores are not read for it: without an index of them, their rows are not counted, and facts say so.

        >>> print(tdi.Dataset.range(4).skip(1).explain())
        skip(count=1)                      3 elements, plan, threads: ..., int64[]
        └─ range(start=0, stop=4, step=1)  4 elements, plan, threads: ..., int64[]
        """
        if strategy is None:
            return explanation.of_pipeline(self._native)
        if not callable(getattr(strategy, "distribute_dataset", None)):
            raise TypeError(f"explain: `strategy` must be a Strategy, but is a {type(strategy).__name__}.")
        if self._native.lacks_index():
            explained = explanation.of_pipeline(self._native)
            facts = [explanation.UNCOUNTED, *explained.facts]
            return explanation.Explanation("distributed dataset", facts, explained.ops)
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
        epoch = pop_pinned_epoch(self)
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

    def rebuild(self, epoch: int, row: int, loader: Any = None) -> Any:
        """The element that has a source row, exactly as it was in an epoch, random transforms included.

        Looks for the row in the order of the epoch, 10 to 50 ns a row, and makes this one element only. If several
        elements have the row, the first one.

        Args:
            epoch: at least 0.
            row: a number as `DataLoader.rows_of` has it; IndexError if the epoch does not have it.
            loader: the DataLoader of this dataset that reads it: its seed counts, and what it excluded. None: the
                dataset is iterated by itself.

        Raises ValueError, naming the op, where the pipeline has no random access, and what making the element raises.

        >>> ds = tdi.Dataset.range(5).map(lambda x: x * 10).shuffle(seed=1)
        >>> ds.rebuild(0, 3)
        tensor(30)
        """
        epoch, row = count("rebuild", "epoch", epoch), count("rebuild", "row", row)
        if loader is None:
            return self._native.ledger(epoch).rebuild(row)
        ledger, batches = reading_of(loader, "rebuild", self, epoch)
        return ledger.rebuild(row, unbatched=batches)

    def locate(self, epoch: int, rows: Iterable[int], loader: Any = None) -> list[SourceRow]:
        """Where rows lie, by source, file and record: arithmetic on the indexes of the files, which reads no rows.

        Rows in memory have no file. An image of `ImageFolder` is record 0 of its file.

        Args:
            epoch: at least 0. It matters where the order of the files is drawn in each epoch, as by `list_files`.
            rows: numbers as `DataLoader.rows_of` has them; IndexError for one that no row has.
            loader: the DataLoader of this dataset that reads it, whose seed counts; None: the dataset is iterated by
                itself.

        Raises ValueError, naming the op, where the pipeline has no random access, and after a `repeat` each of whose
        rounds reads the files in another order.

        >>> ds = tdi.Dataset.range(3).concatenate(tdi.Dataset.range(5)).shuffle()
        >>> ds.locate(0, [2, 4])
        [SourceRow(source=0, file=None, record=2), SourceRow(source=1, file=None, record=1)]
        """
        epoch, rows = count("locate", "epoch", epoch), [count("locate", "rows", row) for row in rows]
        if loader is None:
            return located(self._native.ledger(epoch), rows)
        return located(reading_of(loader, "locate", self, epoch)[0], rows)

    def __reduce__(self) -> tuple[Any, ...]:
        """The calls that made the dataset, and what else it has: the epoch of `set_epoch`, a subclass's attributes."""
        own = {name: value for name, value in vars(self).items() if name not in _NOT_PICKLED}
        return make_again, (VERSION, describe(self)), own

    def __setstate__(self, own: dict[str, Any]) -> None:
        vars(self).update(own)
        if self._pinned_epoch is not None:
            self._native.set_epoch(self._pinned_epoch)


def _rows_of_block(blocks: RayBlocks, block: Any) -> Dataset:
    return Dataset.from_tensor_slices(blocks.columns(int(block["block"])))


_NOT_PICKLED = ("_native", "_call", "_share")


def asks_for_streams(dataset: Any) -> bool:
    """Whether ranks read streams of `dataset`, if it can be cut into some, so that each has a state of its own."""
    return isinstance(dataset, Dataset) and dataset.options().auto_shard_policy == _C.AutoShardPolicy.STREAMS


def pop_pinned_epoch(dataset: Dataset) -> int | None:
    """The epoch that was pinned since the last call, or None. For a DataLoader, which counts epochs itself."""
    epoch, dataset._pinned_epoch = dataset._pinned_epoch, None
    return epoch
