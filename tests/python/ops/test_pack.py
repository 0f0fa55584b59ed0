# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`pack`: rows against a plain model, every token once, laws, and wrong documents."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from token_files import documents_of

import torch_distinput as tdi

PAD = -5


def pieces(row: dict) -> list[list[int]]:
    """The documents of a row, after all of its leaves were compared with each other."""
    tokens, bounds = row["tokens"].tolist(), row["cu_seqlens"].tolist()
    assert bounds[0] == 0
    assert bounds[-1] == len(tokens)
    assert bounds == sorted(bounds)
    found = [tokens[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False) if begin < end]
    if PAD in tokens:
        assert set(found.pop()) == {PAD}
    positions = [position for piece in found for position in range(len(piece))]
    positions += [0] * (len(tokens) - len(positions))
    assert row["position_ids"].tolist() == positions
    assert row["loss_mask"].tolist() == [position > 0 for position in positions]
    return found


def greedy(documents: list[list[int]], length: int, most: int) -> list[list[list[int]]]:
    rows: list[list[list[int]]] = [[]]
    for document in documents:
        while document:
            space = length - sum(map(len, rows[-1]))
            if space == 0 or len(rows[-1]) == most:
                rows.append([])
                space = length
            rows[-1].append(document[:space])
            document = document[space:]
    return [row for row in rows if row]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=25),
    st.integers(1, 9),
    st.none() | st.integers(1, 4),
    st.integers(1, 7),
    st.sampled_from([torch.int64, torch.int32]),
)
def test_rows_hold_every_token_once(sizes, length, most, window, dtype):
    documents = documents_of(sizes)
    source = tdi.TokenDataset.from_tokens(documents, None, output_dtype=dtype)
    rows = list(source.pack(length, pad_id=PAD, max_documents=most))
    assert [pieces(row) for row in rows] == greedy([d.tolist() for d in documents], length, most or length)
    assert all(row["tokens"].dtype == row["position_ids"].dtype == dtype for row in rows)

    fitted = source.pack(length, strategy="best_fit", window=window, pad_id=PAD, max_documents=most)
    packed = [piece for row in fitted for piece in pieces(row)]
    whole = [d[i : i + length].tolist() for d in documents for i in range(0, len(d), length)]
    assert sorted(packed) == sorted(whole)  # cut only where a document is longer than a row
    for row in fitted:
        assert len(pieces(row)) <= (most or length)
    for pipeline in (source.pack(length, max_documents=most), fitted, fitted.batch(2)):
        tdi.testing.assert_resumable(pipeline)
        tdi.testing.assert_paths_agree(pipeline)


def test_best_fit_pads_less_than_greedy_without_cuts_would():
    documents = documents_of([6, 7, 4, 3, 9, 1])
    rows = list(tdi.TokenDataset.from_tokens(documents, None).pack(10, strategy="best_fit", pad_id=PAD))
    assert [[len(piece) for piece in pieces(row)] for row in rows] == [[6, 4], [7, 3], [9, 1]]


def test_many_empty_documents_are_skipped_and_resumed():
    documents = tdi.TokenDataset.from_tokens(np.arange(7), None, offsets=np.array([0, 3] + [3] * 10_000 + [7]))
    rows = documents.pack(5, pad_id=PAD)
    assert [pieces(row) for row in rows] == [[[0, 1, 2], [3, 4]], [[5, 6]]]
    tdi.testing.assert_resumable(rows)


def test_documents_of_dicts_are_named_by_key():
    ragged = torch.nested.nested_tensor([torch.tensor([1, 2, 3]), torch.tensor([4])], layout=torch.jagged)
    dataset = tdi.Dataset.from_tensor_slices({"ids": ragged, "label": torch.tensor([0, 1])})
    assert [row["tokens"].tolist() for row in dataset.pack(2, key="ids")] == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="pack: elements have 2 leaves, .*name the one with the tokens by `key`"):
        dataset.pack(2)
    with pytest.raises(ValueError, match="pack: `key` must name one leaf .* but is 'text'"):
        dataset.pack(2, key="text")
    with pytest.raises(TypeError, match=r"pack: leaf \['label'\] must be a sequence of int64 or int32 tokens"):
        dataset.pack(2, key="label")


def test_wrong_arguments_and_documents_are_named():
    documents = tdi.Dataset.from_generator(lambda: iter([torch.tensor([1.0])]), None)
    with pytest.raises(TypeError, match="pack: document 0 must be a sequence of int64 or int32 tokens"):
        list(documents.pack(2))
    for arguments, message in [
        ({"sequence_length": 0}, "`sequence_length` must be at least 1"),
        ({"sequence_length": 2, "window": 0}, "`window` must be at least 1"),
        ({"sequence_length": 2, "max_documents": 0}, "`max_documents` must be at least 1"),
        ({"sequence_length": 2, "strategy": "first_fit"}, '`strategy` must be "greedy" or "best_fit"'),
    ]:
        with pytest.raises(ValueError, match=message):
            tdi.Dataset.range(3).map(lambda x: x.reshape(1)).pack(**arguments)


def test_a_damaged_position_is_refused():
    documents = [torch.from_numpy(document) for document in documents_of([9, 4])]
    rows = tdi.Dataset.from_generator(lambda: iter(documents), None).pack(4)
    iterator = iter(rows)
    next(iterator)
    state = iterator.state_dict()
    for field, value in (("used", 9), ("used", -1), ("documents", 2), ("documents", "1")):
        damaged = state | {"position": state["position"] | {field: value}}
        with pytest.raises(ValueError, match="pack"):
            iter(rows).load_state_dict(damaged)
    assert state["position"]["used"] == 4
