# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of the rows of tables in files."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch_distinput import _C
from torch_distinput.base._arguments import Path, count, sequence, text
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.datasets._files import files_of, index_flag
from torch_distinput.ops._description import described
from torch_distinput.storage._options import CacheDir, Storage, StorageOptions
from torch_distinput.tables._block_files import BlockFiles
from torch_distinput.tables._column_options import Nulls, arrow_type, column_options, pyarrow_for
from torch_distinput.tables._csv import CsvFiles
from torch_distinput.tables._json_lines import JsonLinesFiles
from torch_distinput.tables._parquet import ParquetFiles
from torch_distinput.typing import Index

Files = Path | Iterable[Path] | Dataset
Stack = Mapping[str, Sequence[str]] | None


class ParquetDataset(Dataset):
    """The rows of Parquet files, as dicts with one leaf for each column.

    The lengths of all files come from their footers. Threads that read batches ahead read a row group when one of its
    rows is needed, and keep the groups read last (up to 256 MiB). So a dataset has random access, an exact length, O(1)
    resume and `shuffle`. A shuffle with a window (`buffer_size`) reads each row group once an epoch if the window's
    rows fit in 256 MiB; a full shuffle does so only if the whole dataset fits. To mix distant parts of large data,
    shuffle the files too: `ParquetDataset(Dataset.list_files(pattern)).shuffle(100_000)`.

    Args:
        files: a path, paths, or a dataset of paths (`Dataset.list_files`); they are read in that order. A URL that is
            given here may have the wildcards and braces of `Dataset.list_files`; what matches is listed now and sorted.
        columns: the names of the columns to read, in this order; None: all.
        filters: which rows to keep: an expression of `pyarrow.dataset`, or tuples `("a", ">", 0)` as in
            `pyarrow.parquet.read_table`. The rows are counted when the length is first needed, which reads the columns
            of the condition once.
        batch_rows: row groups of fewer rows are read several at a time, at least this many rows at once; None: one row
            group at a time.
        stack: leaves that are made of several columns, as in `Dataset.from_arrow`.
        nulls: what a null becomes, as in `Dataset.from_arrow`.
        index: False reads one file after the other, without a length; a footer is read when its file is.
        storage_options, filesystem, cache_dir, cache_bytes: how URLs are read, as in `TextLineDataset`.

    Types of columns become leaves as in `Dataset.from_arrow`. Raises ImportError without pyarrow; when rows are read,
    NotFoundError for a missing file, OSError for a pipe or one that cannot be read, and InvalidArgumentError naming
    file and column for damaged files, for nulls without a rule, and for files whose columns differ from those of the
    first one.
    With `on_error="skip"` a row with such a null is skipped and counted, and so are all rows of a row group that cannot
    be read.

    >>> import pyarrow, pyarrow.parquet  # doctest: +SKIP
    >>> pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2], "b": [0.5, 1.5]}), "t.parquet")  # doctest: +SKIP
    >>> list(tdi.ParquetDataset("t.parquet", columns=["b"]).batch(2))  # doctest: +SKIP
    [{'b': tensor([0.5000, 1.5000], dtype=torch.float64)}]
    """

    @described
    def __init__(
        self,
        files: Files,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        batch_rows: int | None = None,
        stack: Stack = None,
        nulls: Nulls = "error",
        index: Index = "auto",
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        op = "ParquetDataset"
        pyarrow_for(op)
        names = columns_of(op, columns, stack)
        least = 1 if batch_rows is None else count(op, "batch_rows", batch_rows, least=1)
        reader = ParquetFiles(op, names, _expression(filters), least)
        arguments = [f"columns={names}"] if names else []
        arguments += [] if filters is None else [f"filters={filters}"]
        sources = files_of(op, files, Storage(storage_options, filesystem, cache_dir, cache_bytes))
        super().__init__(_native(op, sources, reader, arguments, nulls, stack, index))


class CsvDataset(Dataset):
    """The rows of CSV files, as dicts with one leaf for each column; the first line of each file names its columns.

    An index of the files is made when it is first needed: one pass that finds line ends outside quotes, in threads. It
    gives random access, an exact length, a full shuffle and O(1) resume, and is stored beside files of 256 KiB or more,
    unless the environment has TORCH_DISTINPUT_WRITE_INDEX=0.
    pyarrow then parses blocks of about 1 MiB.

    Args:
        files: a path, paths, or a dataset of paths (`Dataset.list_files`); they are read in that order. A URL that is
            given here may have the wildcards and braces of `Dataset.list_files`; what matches is listed now and sorted.
        columns: the names of the columns to read, in this order; None: all.
        types: the types of columns: a torch dtype, `str`, `bytes` or an Arrow type each. Others are inferred from the
            first block of the first file and hold for all files.
        delimiter: one ASCII character.
        stack: leaves that are made of several columns, as in `Dataset.from_arrow`.
        nulls: what a null becomes, as in `Dataset.from_arrow`. An empty field of numbers is null, one of strings is "".
        index: False reads one file after the other, once, without a length; the ends of records are found meanwhile.
        storage_options, filesystem, cache_dir, cache_bytes: how URLs are read, as in `TextLineDataset`.

    Raises ImportError without pyarrow; when rows are read, NotFoundError for a missing file, OSError for one that
    cannot be read, and InvalidArgumentError naming file, column and row (from 0, after the line of names) for a field
    that is not of its column's type, and file, row and line for a quote that is never closed. With `on_error="skip"`
    exactly the rows that fail are skipped and counted.

    >>> import pathlib
    >>> _ = pathlib.Path("t.csv").write_text("a,b\\n1,x\\n2,y\\n")
    >>> list(tdi.CsvDataset("t.csv"))  # doctest: +SKIP
    [{'a': tensor(1), 'b': 'x'}, {'a': tensor(2), 'b': 'y'}]
    """

    @described
    def __init__(
        self,
        files: Files,
        columns: Sequence[str] | None = None,
        types: Mapping[str, Any] | None = None,
        delimiter: str = ",",
        stack: Stack = None,
        nulls: Nulls = "error",
        index: Index = "auto",
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        op = "CsvDataset"
        pyarrow_for(op)
        if len(text(op, "delimiter", delimiter)) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise ValueError(f"{op}: `delimiter` must be one ASCII character that ends no line, but is {delimiter!r}.")
        names = columns_of(op, columns, stack)
        reader = CsvFiles(op, names, _types(op, types), _is_indexed(op, index), delimiter)
        sources = files_of(op, files, Storage(storage_options, filesystem, cache_dir, cache_bytes))
        super().__init__(_native(op, sources, reader, _text_arguments(names, types), nulls, stack, index))


class JsonLinesDataset(Dataset):
    """The rows of files with one JSON object in each line, as dicts with one leaf for each key.

    Index, arguments and errors are those of `CsvDataset`. Keys that the first block does not have, and that `types`
    does not declare, are left out; a missing key is a null. Objects become dicts, arrays become lists, at most 100
    levels deep.

    >>> import pathlib
    >>> _ = pathlib.Path("t.jsonl").write_text('{"a": 1, "b": [1.5, 2]}\\n{"a": 2, "b": []}\\n')
    >>> [row["b"].tolist() for row in tdi.JsonLinesDataset("t.jsonl")]  # doctest: +SKIP
    [[1.5, 2.0], []]
    """

    @described
    def __init__(
        self,
        files: Files,
        columns: Sequence[str] | None = None,
        types: Mapping[str, Any] | None = None,
        stack: Stack = None,
        nulls: Nulls = "error",
        index: Index = "auto",
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        op = "JsonLinesDataset"
        pyarrow_for(op)
        names = columns_of(op, columns, stack)
        reader = JsonLinesFiles(op, names, _types(op, types), _is_indexed(op, index))
        sources = files_of(op, files, Storage(storage_options, filesystem, cache_dir, cache_bytes))
        super().__init__(_native(op, sources, reader, _text_arguments(names, types), nulls, stack, index))


def _native(
    op: str,
    files: Any,
    reader: BlockFiles[Any],
    arguments: list[str],
    nulls: Nulls,
    stack: Stack,
    index: Index,
) -> _C.Dataset:
    arguments += [f"stack={dict(stack)}"] if stack else []
    arguments += [] if nulls == "error" else [f"nulls={nulls!r}"]
    options = column_options(op, nulls, stack)
    return _C.blocks(files, reader, op, ", ".join(arguments), options, _is_indexed(op, index))


def _is_indexed(op: str, index: Index) -> bool:
    """Whether files are counted beforehand. "auto" is the same as True, because all of these files can be parsed in
    blocks."""
    return index_flag(index, op) is not False


def columns_of(op: str, columns: Sequence[str] | None, stack: Stack) -> list[str] | None:
    """The columns to read: those asked for, and those of stacks."""
    if columns is None:
        return None
    names = sequence(op, "columns", columns, text)
    stacked = [name for parts in (stack or {}).values() for name in parts]
    found = list(dict.fromkeys([*names, *stacked]))
    if not names:
        raise ValueError(f"{op}: `columns` must name a column at least, but is empty.")
    return found


def _types(op: str, types: Mapping[str, Any] | None) -> dict[str, Any]:
    if types is not None and not isinstance(types, Mapping):
        raise TypeError(f"{op}: `types` must be a dict from columns to types, but is {types!r}.")
    return {text(op, "types", name): arrow_type(op, name, kind) for name, kind in (types or {}).items()}


def _text_arguments(names: list[str] | None, types: Mapping[str, Any] | None) -> list[str]:
    return ([f"columns={names}"] if names else []) + ([f"types={dict(types)}"] if types else [])


def _expression(filters: Any) -> Any:
    if filters is None:
        return None
    import pyarrow.dataset as dataset
    import pyarrow.parquet as parquet

    return filters if isinstance(filters, dataset.Expression) else parquet.filters_to_expression(filters)
