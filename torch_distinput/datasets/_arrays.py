# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of the rows of arrays in files."""

import importlib.util
from collections.abc import Iterable
from typing import Any

from torch_distinput import _C
from torch_distinput.base._arguments import Path
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.datasets._files import files_of
from torch_distinput.ops._description import described
from torch_distinput.storage._options import CacheDir, Storage, StorageOptions
from torch_distinput.tables._column_options import column_options, pyarrow_for
from torch_distinput.tables._zarr_arrays import ZarrArrays


class NumpyDataset(Dataset):
    """The rows along dim 0 of numpy's files: of `.npy` as tensors [...], of `.npz` as dicts by the arrays' names.

    Args:
        files: a path, paths, or a dataset of paths (`Dataset.list_files`); they are read in that order, and all must
            have rows of one type. The arrays of an `.npz` must have the same number of rows. A URL that is given here
            may have the wildcards and braces of `Dataset.list_files`; what matches is listed now and sorted.
        storage_options, filesystem, cache_dir, cache_bytes: how URLs are read, as in `TextLineDataset`.

    Random access and an exact length, reading only headers in advance. Rows are read where they lie, with `pread`
    instead of a memory map, so a file that shrinks meanwhile causes an error, not a crash. Compressed members of an
    `.npz` are unpacked into memory as a whole. The checksums of the other members are compared as in numpy, once for
    each dataset, before the first row of a file is read: that reads the whole file, at about 1.4 GB/s if it is cached.
    `.npy` and `.safetensors` have no checksums, so damaged values are not noticed there.

    Raises, when elements are read or counted, NotFoundError for a missing file, OSError for one that cannot be read,
    and InvalidArgumentError, naming the file and the byte, for a header that does not fit the file, for objects,
    structures, big-endian and column-major arrays, for types that torch does not have, for a wrong checksum, for
    members of an `.npz` that share bytes or that unpack to more than this machine's memory, for more than 2^24 rows
    that hold no bytes (shape [n, 0]), and for a file that changes meanwhile.

    >>> import numpy as np
    >>> np.save("rows.npy", np.arange(6).reshape(3, 2))
    >>> list(tdi.NumpyDataset("rows.npy").batch(2))
    [tensor([[0, 1],
            [2, 3]]), tensor([[4, 5]])]
    """

    @described
    def __init__(
        self,
        files: Path | Iterable[Path] | Dataset,
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        storage = Storage(storage_options, filesystem, cache_dir, cache_bytes)
        super().__init__(_C.numpy_files(files_of("NumpyDataset", files, storage)))


class SafetensorsDataset(Dataset):
    """The rows along dim 0 of the tensors in `.safetensors` files, as dicts by name.

    Args:
        files: as for `NumpyDataset`; the tensors of a file must have the same number of rows.
        storage_options, filesystem, cache_dir, cache_bytes: how URLs are read, as in `TextLineDataset`.

    Random access and errors: as for `NumpyDataset`.

    >>> import pathlib
    >>> header = b'{"x": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]}}'
    >>> data = torch.tensor([4, 5]).numpy().tobytes()
    >>> _ = pathlib.Path("rows.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    >>> list(tdi.SafetensorsDataset("rows.safetensors"))
    [{'x': tensor(4)}, {'x': tensor(5)}]
    """

    @described
    def __init__(
        self,
        files: Path | Iterable[Path] | Dataset,
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        storage = Storage(storage_options, filesystem, cache_dir, cache_bytes)
        super().__init__(_C.safetensors_files(files_of("SafetensorsDataset", files, storage)))


class ZarrDataset(Dataset):
    """The rows along axis 0 of Zarr arrays: of single ones as tensors [...], of groups as dicts by the arrays' names.

    Args:
        files: folders or URLs of arrays or groups, or a dataset of them, which zarr (`pip install zarr`) reads, in its
            formats 2 and 3. They are read in that order, and all must have rows of one type. The arrays of a group
            must have the same number of rows; groups in it are left out. A group at a URL needs consolidated metadata.
        storage_options, filesystem, cache_dir, cache_bytes: how URLs are read, as in `TextLineDataset`.

    Random access and an exact length, reading only metadata in advance. The rows of a chunk (of a group: of the longest
    one) are a block, which is read as a whole and kept as long as there is room, as in `ParquetDataset`; so shuffle
    with `shuffle(blocks=)`. Missing chunks have the fill value.

    Raises ImportError without zarr or pyarrow; when rows are read or counted, NotFoundError where there is neither
    array nor group, OSError for what cannot be read, and InvalidArgumentError, naming file and rows, for damaged
    chunks, for values that are not booleans, integers or floats, and for arrays without rows.

    >>> import numpy, zarr  # doctest: +SKIP
    >>> _ = zarr.save("rows.zarr", numpy.arange(6).reshape(3, 2))  # doctest: +SKIP
    >>> list(tdi.ZarrDataset("rows.zarr").batch(2))  # doctest: +SKIP
    [tensor([[0, 1],
            [2, 3]]), tensor([[4, 5]])]
    """

    @described
    def __init__(
        self,
        files: Path | Iterable[Path] | Dataset,
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        op = "ZarrDataset"
        pyarrow_for(op)
        if importlib.util.find_spec("zarr") is None:
            raise ImportError(f"{op} needs zarr: pip install zarr.")
        sources = files_of(op, files, Storage(storage_options, filesystem, cache_dir, cache_bytes))
        super().__init__(_C.blocks(sources, ZarrArrays(op), op, "", column_options(op, "error", None), True))
