# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a DataLoader must know about Hugging Face datasets that torch's interfaces do not tell.

Nothing here imports the package `datasets`: before the program imports it, no dataset can be of its classes.
"""

import hashlib
import sys
from typing import Any

import torch

from torch_distinput.tables._arrow_checks import validated


def is_stream(dataset: Any) -> bool:
    """Whether `dataset` is an IterableDataset of the package."""
    return _is("IterableDataset", dataset)


def has_shuffle_buffer(dataset: Any) -> bool:
    """Whether rows of a stream pass through a shuffle buffer. The stream's states leave out the buffer, so its rows
    would be lost; the stream must be read again from its start instead."""
    return is_stream(dataset) and _has_buffer(getattr(dataset, "_ex_iterable", None))


def rewind(dataset: Any) -> None:
    """Makes the next iteration begin at the first row. A stream of the package would begin each iteration at the loaded
    state until its own epoch changes; other streams do so only once."""
    if is_stream(dataset):
        dataset.load_state_dict({})


def check_split(dataset: Any, world: int, rank: int) -> None:
    """Raises ValueError for a stream that is not split as the ranks that read it are."""
    if not is_stream(dataset):
        return
    split = getattr(dataset, "_distributed", None)
    found = (1, 0) if split is None else (split.world_size, split.rank)
    if found != (world, rank):
        raise ValueError(
            "DataLoader: with `distributed`, a streaming dataset is what this rank alone reads, but it is "
            f"{'not split' if split is None else f'split as that of rank {found[1]} of {found[0]}'}; pass "
            f"datasets.distributed.split_dataset_by_node(dataset, rank={rank}, world_size={world})."
        )


def content_of(dataset: Any) -> str:
    """A text that is equal for equal rows of a map-style dataset of the package, "" for other datasets. The ranks
    compare it, because shares made by `split_dataset_by_node` have the same type and often the same length."""
    if not _is("Dataset", dataset) or len(dataset) == 0:
        return ""
    size = len(dataset)
    rows = dataset.with_format("arrow")[sorted({0, size // 2, size - 1})].to_pylist()
    return hashlib.sha1(repr(rows).encode()).hexdigest()[:16]


def _is(name: str, dataset: Any) -> bool:
    package = sys.modules.get("datasets")
    kind = getattr(package, name, None)
    return isinstance(kind, type) and isinstance(dataset, kind)


def _has_buffer(examples: Any) -> bool:
    """Walks through a chain of the package's iterables, each of which reads one or several others."""
    if type(examples).__name__ == "BufferShuffledExamplesIterable":
        return True
    below = [getattr(examples, "ex_iterable", None), *(getattr(examples, "ex_iterables", None) or ())]
    return any(_has_buffer(part) for part in below if part is not None)


def is_table(dataset: Any) -> bool:
    """Whether `dataset` is a map-style dataset of the package: an Arrow table, perhaps with indices into it."""
    return _is("Dataset", dataset)


def is_plain_table(dataset: Any) -> bool:
    """Whether `dataset` is one whose class is the package's own, not a subclass that may override anything."""
    return _is("Dataset", dataset) and type(dataset).__module__.partition(".")[0] == "datasets"


def table_of(dataset: Any, op: str) -> tuple[Any, torch.Tensor | None]:
    """The table of a map-style dataset, and the rows of it that the dataset has; None: all, in order. Raises
    InvalidArgumentError naming `op` for files whose arrays reach beyond their memory."""
    table, indices = validated(op, dataset.data.table), dataset._indices
    if indices is None:
        return table, None
    rows = validated(op, indices.column(0))
    return table, torch.from_numpy(rows.to_numpy().astype("int64"))


def is_column(values: Any) -> bool:
    """Whether `values` is a column that the package reads on access."""
    package = sys.modules.get("datasets")
    kind = getattr(getattr(package, "arrow_dataset", None), "Column", None)
    return kind is not None and isinstance(values, kind) and is_table(values.source)


def arrow_column(values: Any) -> Any:
    """The rows of such a column, in the order of its dataset, as Arrow has them."""
    name, source = values.column_name, values.source
    return source.select_columns([name]).with_format("arrow")[:][name]
