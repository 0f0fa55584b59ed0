# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`pack(pad_to_multiple_of=)` makes the rows of documents that were padded before, but for what can be predicted."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from token_files import documents_of

import torch_distinput as tdi

PAD = 0  # tokens of documents begin at 1


def packed(documents, dtype, *args, **options):
    """The rows of documents whose lengths are known."""
    return tdi.TokenDataset.from_tokens(documents, None, output_dtype=dtype).pack(*args, pad_id=PAD, **options)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=25),
    st.integers(1, 4),
    st.integers(1, 4),
    st.none() | st.integers(1, 4),
    st.sampled_from([{"strategy": "greedy"}, {"strategy": "best_fit", "window": 3}, {"strategy": "best_fit"}]),
    st.sampled_from([torch.int64, torch.int32]),
)
def test_rows_are_those_of_documents_that_were_padded_before(sizes, multiple, multiples, most, options, dtype):
    documents, length = documents_of(sizes), multiple * multiples
    before = [np.pad(document, (0, -len(document) % multiple), constant_values=PAD) for document in documents]
    rows = packed(documents, dtype, length, max_documents=most, pad_to_multiple_of=multiple, **options)
    expected = list(packed(before, dtype, length, max_documents=most, **options))
    found = list(rows)
    assert len(found) == len(expected)
    for row, other in zip(found, expected):
        assert torch.equal(row["tokens"], other["tokens"]) and row["tokens"].dtype == dtype
        assert torch.equal(row["position_ids"], other["position_ids"])
        assert torch.equal(row["loss_mask"], other["loss_mask"] & (other["tokens"] != PAD))
        bounds = row["cu_seqlens"]
        assert len(bounds) == min(min(most or length, multiples) + 1, multiples) + 1
        assert bounds.unique().tolist() == other["cu_seqlens"].unique().tolist()
        assert not (bounds % multiple).any() and bounds[-1] == length
    for pipeline in (rows, rows.batch(2)):
        tdi.testing.assert_resumable(pipeline)
        tdi.testing.assert_paths_agree(pipeline)


def test_leaves_travel_with_padded_documents():
    documents = [{"ids": torch.arange(1, 1 + n), "patches": torch.full((n, 2), n)} for n in (3, 5, 2)]
    dataset = tdi.Dataset.from_generator(lambda: documents, None)
    row, *_ = dataset.pack(16, key="ids", strategy="best_fit", keys=["patches"], pad_to_multiple_of=4)
    assert row["cu_seqlens"].tolist() == [0, 4, 12, 16, 16]
    assert row["patches_cu_seqlens"].tolist() == [0, 3, 8, 10, 10]


def test_the_number_of_rows_is_known():
    rows = packed(documents_of([3, 5, 2, 9]), torch.int64, 8, pad_to_multiple_of=4)
    assert len(rows) == len(list(rows)) == 4  # 4 + 8 + 4 + 12 places
    assert "4 rows, 59.4 % filled" in rows.explain()


def test_a_length_that_is_no_multiple_is_refused():
    for length, multiple, words in [
        (6, 4, "must be a multiple of"),
        (4, 8, "must be a multiple of"),
        (4, 0, "at least 1"),
    ]:
        with refused(ValueError, "pack:", "`pad_to_multiple_of`", words):
            packed(documents_of([3]), torch.int64, length, pad_to_multiple_of=multiple)
