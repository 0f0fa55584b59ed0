# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of sequences of tokens, for language models."""

from collections.abc import Iterable
from typing import Any, Literal

import numpy
import torch

from torch_distinput import _C
from torch_distinput.base._arguments import Path, integer, optional_integer
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.datasets._files import files_of
from torch_distinput.ops._base import Call, remember
from torch_distinput.ops._description import Whole, described
from torch_distinput.recognize._token_columns import arrays_of, is_column
from torch_distinput.storage._options import CacheDir, Storage, StorageOptions

_NAME = "TokenDataset"


class TokenDataset(Dataset):
    """Sequences cut from files of tokens, as tuples of inputs and targets: the targets are one token further on.

    Args:
        files: a path, paths, or a dataset of paths (`Dataset.list_files`). A path that ends in `.idx` is an index as
            Megatron-LM writes it, whose tokens are in the `.bin` beside it. Any other file is tokens and nothing else,
            in little-endian order, as nanoGPT writes them. A URL that is given here may have the wildcards and braces
            of `Dataset.list_files`; what matches is listed now and sorted.
        dtype: the type of the stored tokens, of torch or numpy: an integer type of up to 64 bits other than uint64.
            None if all files have an index, which holds the type.
        sequence_length: L, the tokens of an input, at least 1. None: an element is a whole document [any length], for
            `pack` above all.
        stride: tokens from the start of a sequence to the start of the next one, at least 1. None: L, so that each
            token of a file except the first is a target once.
        document_boundary: the token that ends each document, or "index" for the documents of the index. Sequences then
            hold tokens of one document only; a rest of a document with fewer than L + 1 tokens is left out. None:
            sequences run across documents, but never across files; a rest of a file that is too short is left out.
        vocab_size: tokens must be in [0, vocab_size). None: not checked.
        output_dtype: torch.int64 or torch.int32. Tokens that int32 cannot hold are errors.

    An element is (inputs [L], targets [L]). In a batch both are [rows, L], two views of one block of rows of L + 1
    tokens: no token is copied twice, and a write to one shows in the other.

    Random access and an exact length: files may be shuffled fully, sharded and resumed in O(1). Rows are read with
    `pread`, not through a memory map, so a file that shrinks meanwhile causes an error, not a crash. With a token as
    `document_boundary` the files are read once before the first element, and 16 bytes are kept for each document.

    Raises, when elements are read or counted, NotFoundError for a missing file, OSError for one that cannot be read,
    and InvalidArgumentError, naming the file and the byte, for a size that is not a multiple of the type's, a damaged
    index, an index that does not fit its data, a token out of range, and a file that changes meanwhile.

    >>> import numpy as np
    >>> np.arange(10, dtype=np.uint16).tofile("train.bin")
    >>> dataset = tdi.TokenDataset("train.bin", np.uint16, sequence_length=4)
    >>> len(dataset)
    2
    >>> list(dataset.batch(2))
    [(tensor([[0, 1, 2, 3],
            [4, 5, 6, 7]]), tensor([[1, 2, 3, 4],
            [5, 6, 7, 8]]))]
    """

    @described
    def __init__(
        self,
        files: Path | Iterable[Path] | Dataset,
        dtype: Any,
        sequence_length: int | None,
        stride: int | None = None,
        document_boundary: int | Literal["index"] | None = None,
        vocab_size: int | None = None,
        output_dtype: torch.dtype = torch.int64,
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        cuts = _cuts(sequence_length, stride, document_boundary, vocab_size, output_dtype)
        names = files_of(_NAME, files, Storage(storage_options, filesystem, cache_dir, cache_bytes))
        super().__init__(_C.token_files(names, _stored_type(dtype), *cuts))

    @staticmethod
    @described
    def from_tokens(
        tokens: Any,
        sequence_length: int | None,
        stride: int | None = None,
        document_boundary: int | Literal["index"] | None = None,
        vocab_size: int | None = None,
        output_dtype: torch.dtype = torch.int64,
        offsets: Any = None,
    ) -> Dataset:
        """The same over tokens in memory, without a copy unless they are a list or a column in several chunks.

        Args:
            tokens: integers of shape [tokens], as a CPU tensor or a numpy array (a memory map too); or documents: a
                jagged tensor, a list of tensors or arrays, or a column of lists: `dataset["ids"]` of a Hugging Face
                dataset, an array of pyarrow, a series of polars.
            offsets: int64 [documents + 1]: where each document begins and, last, where the last one ends, as in a list
                column of Arrow; for tokens of shape [tokens] only.

        Other arguments: as for the class; `document_boundary="index"` means documents that are given as such. Raises
        TypeError and ValueError for other values, InvalidArgumentError, when it is read, for a token out of range.

        >>> documents = [torch.tensor([1, 2, 3]), torch.tensor([4, 5])]
        >>> list(tdi.TokenDataset.from_tokens(documents, sequence_length=1, document_boundary="index").batch(3))
        [(tensor([[1],
                [2],
                [4]]), tensor([[2],
                [3],
                [5]]))]
        """
        if is_column(tokens):
            tokens, bounds = arrays_of(_NAME, tokens)
            if bounds is not None and offsets is not None:
                raise ValueError(f"{_NAME}: `offsets` are for tokens without documents, but the column has lists.")
            offsets = bounds if offsets is None else offsets
        elif isinstance(tokens, (list, tuple)):
            documents = [torch.as_tensor(document) for document in tokens]
            sizes = torch.tensor([0, *(document.numel() for document in documents)])
            tokens, offsets = torch.cat(documents) if documents else torch.zeros(0, dtype=torch.int64), sizes.cumsum(0)
        cuts = _cuts(sequence_length, stride, document_boundary, vocab_size, output_dtype)
        dataset = Dataset(_C.token_column(tokens, offsets, *cuts))
        given = (sequence_length, stride, document_boundary, vocab_size, output_dtype)
        remember(dataset, Call("from_tokens", (Whole(lambda: tokens), *given, offsets), {}))
        return dataset


def _cuts(sequence_length: Any, stride: Any, document_boundary: Any, vocab_size: Any, output_dtype: Any) -> tuple:
    if not isinstance(output_dtype, torch.dtype):
        raise TypeError(f"{_NAME}: `output_dtype` must be a torch.dtype, but is {output_dtype!r}.")
    return (
        optional_integer(_NAME, "sequence_length", sequence_length),
        optional_integer(_NAME, "stride", stride),
        _boundary(document_boundary),
        optional_integer(_NAME, "vocab_size", vocab_size),
        output_dtype,
    )


def _boundary(boundary: Any) -> int | None:
    """The token as an int; -1 for "index", which is how the native library takes it."""
    if boundary is None:
        return None
    if isinstance(boundary, str):
        if boundary != "index":
            raise ValueError(f'{_NAME}: `document_boundary` must be a token, "index" or None, but is {boundary!r}.')
        return -1
    token = integer(_NAME, "document_boundary", boundary)
    if token < 0:
        raise ValueError(f"{_NAME}: `document_boundary` must be at least 0, but is {token}.")
    return token


def _stored_type(dtype: Any) -> torch.dtype | None:
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    try:
        return torch.from_numpy(numpy.empty(0, dtype)).dtype
    except (TypeError, ValueError):
        raise TypeError(f"{_NAME}: `dtype` must be an integer type of torch or numpy, but is {dtype!r}.") from None
