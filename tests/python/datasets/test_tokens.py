# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`TokenDataset`: values against slices of numpy, laws, indexes of Megatron-LM, and files that do not fit."""

import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from token_files import documents_of, write_megatron

import torch_distinput as tdi


def pairs(dataset: tdi.Dataset) -> list[tuple[list[int], list[int]]]:
    return [(inputs.tolist(), targets.tolist()) for inputs, targets in dataset]


def windows(documents: list[np.ndarray], length: int, stride: int) -> list[tuple[list[int], list[int]]]:
    """What a loop over slices finds."""
    found = []
    for document in documents:
        for begin in range(0, len(document) - length, stride):
            row = document[begin : begin + length + 1].tolist()
            found.append((row[:-1], row[1:]))
    return found


TYPES = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.int64]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=40), min_size=1, max_size=3),
    st.integers(1, 6),
    st.none() | st.integers(1, 7),
    st.none() | st.integers(0, 5),
    st.sampled_from(TYPES),
    st.sampled_from([torch.int64, torch.int32]),
)
def test_sequences_are_slices_of_the_files(files, length, stride, boundary, dtype, output):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        documents = []
        for number, tokens in enumerate(files):
            paths.append(Path(folder) / f"{number}.bin")
            array = np.array(tokens, dtype)
            array.tofile(paths[-1])
            ends = [] if boundary is None else np.flatnonzero(array == boundary) + 1
            documents += np.split(array, ends)
        dataset = tdi.TokenDataset(paths, dtype, length, stride, boundary, vocab_size=6, output_dtype=output)
        expected = windows(documents, length, stride or length)
        assert len(dataset) == len(expected)
        assert pairs(dataset) == expected
        assert all(leaf.dtype == output and leaf.shape == (length,) for element in dataset for leaf in element)
        batches = [list(zip(x.tolist(), y.tolist(), strict=True)) for x, y in dataset.batch(3)]
        assert [row for batch in batches for row in batch] == expected
        in_memory = tdi.TokenDataset.from_tokens(np.array(files[0], dtype), length, stride, boundary)
        assert pairs(in_memory) == pairs(tdi.TokenDataset(paths[0], dtype, length, stride, boundary))


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=6),
    st.integers(1, 6),
    st.sampled_from([np.uint16, np.int32]),
)
def test_an_index_tells_the_documents(sizes, length, dtype):
    flat = iter(documents_of([size for document in sizes for size in document]))
    sequences = [[next(flat) for _ in document] for document in sizes]
    documents = [np.concatenate([[], *document]) for document in sequences]
    with tempfile.TemporaryDirectory() as folder:
        index = write_megatron(Path(folder) / "corpus", sequences, dtype)
        whole = tdi.TokenDataset(index, None, None)
        assert [document.tolist() for document in whole] == [document.tolist() for document in documents]
        cut = tdi.TokenDataset(index, dtype, length, document_boundary="index")
        assert pairs(cut) == windows(documents, length, length)
        across = tdi.TokenDataset(index, None, length)
        assert pairs(across) == windows([np.concatenate([[], *documents])], length, length)


def test_laws_of_files_and_documents(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, count in zip(paths, (43, 30), strict=True):
        np.arange(count, dtype=np.uint16).tofile(path)
    dataset = tdi.TokenDataset(paths, "uint16", 4, stride=3)
    documents = tdi.TokenDataset(paths, "uint16", None, document_boundary=12)
    names = tdi.Dataset.list_files(str(tmp_path / "*"), seed=3)
    skipping = tdi.TokenDataset(paths, "uint16", 4, vocab_size=20).with_options(tdi.Options(on_error="skip"))
    for pipeline in (dataset, dataset.shuffle(seed=1).batch(4), documents, tdi.TokenDataset(names, "uint16", 4)):
        tdi.testing.assert_resumable(pipeline)
        tdi.testing.assert_paths_agree(pipeline)
    tdi.testing.assert_resumable(skipping)
    assert max(max(targets) for _, targets in pairs(skipping)) < 20


def test_a_list_column_gives_its_documents_without_a_copy():
    documents = documents_of([4, 0, 7, 2])
    values, offsets = np.concatenate([[-7], *documents, [-7]]).astype(np.int32), np.array([1, 5, 5, 12, 14])
    column = tdi.TokenDataset.from_tokens(values, None, offsets=offsets)
    expected = [document.tolist() for document in documents]
    assert [document.tolist() for document in column] == expected
    assert [document.tolist() for document in tdi.TokenDataset.from_tokens(documents, None)] == expected
    jagged = torch.nested.nested_tensor([torch.tensor(d, dtype=torch.int64) for d in expected], layout=torch.jagged)
    assert [document.tolist() for document in tdi.TokenDataset.from_tokens(jagged, None)] == expected
    values[1] = 50
    assert next(iter(column)).tolist() == [50, 2, 3, 4]
    tdi.testing.assert_resumable(column)
    tdi.testing.assert_paths_agree(column)


@pytest.mark.parametrize(
    ("stored", "arguments", "message"),
    [
        (b"abc", {"dtype": "uint16"}, r"tokens: its size, 3 bytes, is not a multiple of the 2 bytes .* uint16"),
        (
            np.array([3, 9, 4], "<i4"),
            {"dtype": "int32", "vocab_size": 9},
            r"tokens: at byte 4: token 1 is 9, .* \[0, 9\)",
        ),
        (np.array([3, -1], "<i4"), {"dtype": "int32", "vocab_size": 9}, r"at byte 4: token 1 is -1, .* \[0, 9\)"),
        (np.array([2**31, 1], "<u4"), {"dtype": "uint32", "output_dtype": torch.int32}, r"token 0 is 2147483648"),
        (b"ab", {"dtype": "uint8", "document_boundary": "index"}, "tokens: it has no index of documents"),
        (b"ab", {"dtype": None}, "tokens: the type of its tokens is not known; pass `dtype`"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, stored, arguments, message):
    path = tmp_path / "tokens"
    path.write_bytes(stored if isinstance(stored, bytes) else stored.tobytes())
    with pytest.raises(tdi.InvalidArgumentError, match=message):
        list(tdi.TokenDataset(path, sequence_length=1, **arguments))


@pytest.mark.parametrize(
    ("at", "packed", "message"),
    [
        (0, b"X", "at byte 0: this is not an index of tokens"),
        (9, struct.pack("<Q", 2), "at byte 9: version 2 of the index is unknown"),
        (17, b"\6", "at byte 17: type code 6 is not one of tokens"),
        (18, struct.pack("<q", -1), "at byte 18: the index cannot have -1 entries"),
        (18, struct.pack("<q", 99), "at byte 18: the index needs .* bytes for 99 sequences"),
        (38, struct.pack("<i", -5), "at byte 38: sequence 1 has -5 tokens"),
        (54, struct.pack("<q", 4), "at byte 54: sequence 1 begins at byte 4, but those before it end at byte 6"),
        (78, struct.pack("<q", 9), r"at byte 78: document bound 1 is 9, but must be in \[0, 3\]"),
        (86, struct.pack("<q", 1), "at byte 86: the documents end at sequence 1, but there are 3"),
        (42, struct.pack("<i", 3), "corpus.bin: it has 8 tokens, but its index .*corpus.idx counts 9"),
    ],
)
def test_an_index_that_lies_is_an_error(tmp_path, at, packed, message):
    index = write_megatron(tmp_path / "corpus", [[[1, 2, 3]], [[4, 5, 6], [7, 8]]])
    assert len(tdi.TokenDataset(index, None, None)) == 2
    damaged = bytearray(index.read_bytes())
    damaged[at : at + len(packed)] = packed
    index.write_bytes(bytes(damaged))
    with pytest.raises(tdi.InvalidArgumentError, match=message):
        list(tdi.TokenDataset(index, None, None))


def test_a_file_that_changes_while_it_is_read_is_an_error_and_no_crash(tmp_path):
    path = tmp_path / "tokens"
    np.zeros(100_000, np.uint16).tofile(path)
    iterator = iter(tdi.TokenDataset(path, "uint16", 10).shuffle(seed=1).batch(4))
    next(iterator)
    with path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(tdi.InvalidArgumentError, match="tokens: the file (changed since|became shorter)"):
        list(iterator)


def test_arguments_out_of_range_are_refused_at_the_call(tmp_path):
    path = tmp_path / "tokens"
    for arguments, message in [
        ({"sequence_length": 0}, "`sequence_length` must be at least 1"),
        ({"sequence_length": 2, "stride": 0}, "`stride` must be at least 1"),
        ({"sequence_length": None, "stride": 2}, "`stride` needs a `sequence_length`"),
        ({"sequence_length": 2, "vocab_size": 0}, "`vocab_size` must be at least 1"),
        ({"sequence_length": 2, "output_dtype": torch.int16}, "`output_dtype` must be int64 or int32"),
        ({"sequence_length": 2, "document_boundary": "eos"}, "`document_boundary` must be"),
        ({"sequence_length": 2, "dtype": torch.float32}, "`dtype` must be an integer type"),
    ]:
        with pytest.raises(ValueError, match=message):
            tdi.TokenDataset(path, **({"dtype": np.uint16} | arguments))
    with pytest.raises(TypeError, match="`dtype` must be an integer type"):
        tdi.TokenDataset(path, "tokens", 2)
    with pytest.raises(ValueError, match="documents need `offsets`"):
        tdi.TokenDataset.from_tokens(torch.arange(3), None)
    with pytest.raises(ValueError, match="`offsets` must not decrease"):
        tdi.TokenDataset.from_tokens(torch.arange(3), None, offsets=torch.tensor([0, 2, 1]))


def test_list_columns_are_documents():
    pa = pytest.importorskip("pyarrow")
    lists = [[1, 2, 3], [], [4], [5, 6]]
    whole = pa.array([[9], *lists, [8]], pa.list_(pa.uint16())).slice(1, 4)
    parts = pa.chunked_array([whole.slice(0, 1), whole.slice(1)])
    wide = pa.array([[9], *lists, [8]], pa.large_list(pa.int64())).slice(1, 4)
    for column in (whole, parts, wide, pa.table({"t": parts})["t"]):
        assert [row.tolist() for row in tdi.TokenDataset.from_tokens(column, None)] == lists
        assert pairs(tdi.TokenDataset.from_tokens(column, 2, document_boundary="index")) == [([1, 2], [2, 3])]
        assert pairs(tdi.TokenDataset.from_tokens(column, 5)) == [([1, 2, 3, 4, 5], [2, 3, 4, 5, 6])]
    fixed = pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))
    assert [row.tolist() for row in tdi.TokenDataset.from_tokens(fixed.slice(1), None)] == [[3, 4]]
    assert pairs(tdi.TokenDataset.from_tokens(pa.array(range(4)), 2)) == [([0, 1], [1, 2])]
    numbers = np.arange(1000)
    column = pa.LargeListArray.from_arrays([0, 400, 1000], numbers)
    dataset = tdi.TokenDataset.from_tokens(column, None)
    numbers[400] = -7  # the column is not copied, as it is one chunk
    assert list(dataset)[1][0] == -7
    with pytest.raises(TypeError, match="must be integers, or lists of them, but is list<item: string>"):
        tdi.TokenDataset.from_tokens(pa.array([["a"]]), None)
    with pytest.raises(ValueError, match="must have no nulls"):
        tdi.TokenDataset.from_tokens(pa.array([[1], None]), None)
    with pytest.raises(ValueError, match="`offsets` are for tokens without documents"):
        tdi.TokenDataset.from_tokens(whole, None, offsets=[0, 1])


def test_columns_of_polars_are_documents():
    polars = pytest.importorskip("polars")
    series = polars.Series([[1, 2, 3], [4]])
    assert [row.tolist() for row in tdi.TokenDataset.from_tokens(series, None)] == [[1, 2, 3], [4]]
