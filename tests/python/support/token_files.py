# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Token files for tests: an independent writer of Megatron-LM indexes, and documents of different tokens."""

import struct
from pathlib import Path

import numpy as np

MEGATRON_TYPES = {np.uint8: 1, np.int8: 2, np.int16: 3, np.int32: 4, np.int64: 5, np.uint16: 8}


def write_megatron(path: Path, documents: list[list[np.ndarray]], dtype: type = np.uint16) -> Path:
    """Writes documents of sequences as `path`.bin and `path`.idx and returns the path of the index."""
    sequences = [np.asarray(sequence, dtype) for document in documents for sequence in document]
    path.with_suffix(".bin").write_bytes(b"".join(sequence.tobytes() for sequence in sequences))
    sizes = [len(sequence) for sequence in sequences]
    pointers = [0, *np.cumsum([size * np.dtype(dtype).itemsize for size in sizes])][: len(sizes)]
    bounds = [0, *np.cumsum([len(document) for document in documents])]
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, MEGATRON_TYPES[dtype], len(sizes), len(bounds))
    index += np.array(sizes, "<i4").tobytes() + np.array(pointers, "<i8").tobytes() + np.array(bounds, "<i8").tobytes()
    path.with_suffix(".idx").write_bytes(index)
    return path.with_suffix(".idx")


def documents_of(sizes: list[int], first: int = 1) -> list[np.ndarray]:
    """Documents of these sizes; their tokens count from `first` on over all documents, so each occurs once."""
    bounds = np.cumsum([first, *sizes])
    return [np.arange(begin, end) for begin, end in zip(bounds, bounds[1:], strict=False)]
