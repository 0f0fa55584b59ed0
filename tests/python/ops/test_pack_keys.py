# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`pack(keys=...)`: what travels with documents stays with them, on both paths, and what would be torn is refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi

PAD = -5


def jagged(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.nested_tensor(rows, layout=torch.jagged)


def documents_of(sizes: list[tuple[int, int]]) -> tdi.Dataset:
    """Documents of so many tokens, each the document's number from 1 on, with so many patches [2] of the same."""
    ids = [torch.full((tokens,), number + 1) for number, (tokens, _) in enumerate(sizes)]
    patches = [torch.full((count, 2), float(number + 1)) for number, (_, count) in enumerate(sizes)]
    pictures = torch.arange(1, len(sizes) + 1).reshape(-1, 1).expand(-1, 3)
    return tdi.Dataset.from_tensor_slices({"ids": jagged(ids), "patches": jagged(patches), "picture": pictures})


def pairs_of(row: dict, key: str) -> list[tuple[int, list[float]]]:
    """For each document of a row its number, and the values that travel with it."""
    bounds, own = row["cu_seqlens"].tolist(), row[f"{key}_cu_seqlens"].tolist()
    assert len(own) == len(bounds) and own[0] == 0 and own[-1] == len(row[key]) and own == sorted(own)
    found = []
    for i in range(len(bounds) - 1):
        tokens = set(row["tokens"][bounds[i] : bounds[i + 1]].tolist())
        values = row[key][own[i] : own[i + 1]].flatten().tolist()
        if tokens and tokens != {PAD}:
            found.append((tokens.pop(), values))
        else:
            assert values == []
    return found


SIZES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=1, max_size=20)


@settings(max_examples=40, deadline=None)
@given(SIZES, st.integers(1, 7), st.none() | st.integers(1, 4), st.booleans())
def test_each_document_keeps_what_travels_with_it(sizes, window, most, shuffled):
    documents = documents_of(sizes)
    if shuffled:
        documents = documents.shuffle(seed=2)
    rows = documents.pack(8, "ids", "best_fit", window, PAD, most, keys=["patches", "picture"])
    tdi.testing.assert_paths_agree(rows)
    tdi.testing.assert_resumable(rows)
    for key, width in (("patches", 2), ("picture", 1)):
        found = sorted(pair for row in rows for pair in pairs_of(row, key))
        wanted = []
        for number, (tokens, count) in enumerate(sizes, 1):
            values = [number] * ((count if key == "patches" else 3) * width)
            wanted += [(number, values)] if tokens else []
        assert found == wanted
    rows.set_epoch(0)
    alone = documents.pack(8, "ids", "best_fit", window, PAD, most)
    assert [row["tokens"].tolist() for row in alone] == [row["tokens"].tolist() for row in rows]


def test_rows_have_a_type_and_are_joined_by_ragged_batch():
    rows = documents_of([(3, 1), (5, 2), (7, 0), (1, 3)]).pack(8, "ids", "best_fit", pad_id=PAD, keys=["patches"])
    spec = rows.element_spec
    assert list(spec) == ["tokens", "position_ids", "loss_mask", "cu_seqlens", "patches", "patches_cu_seqlens"]
    assert spec["patches"] == tdi.TensorSpec([None, 2], torch.float32)
    assert spec["patches_cu_seqlens"] == spec["cu_seqlens"] == tdi.TensorSpec([9], torch.int32)
    (batch,) = rows.shuffle(seed=1).ragged_batch(2)
    assert sorted(len(row) for row in batch["patches"].unbind()) == [3, 3]
    assert batch["tokens"].shape == (2, 8)


def test_a_document_that_would_be_cut_is_refused_by_its_number():
    documents = documents_of([(3, 1), (9, 2)])
    for rows in (documents, documents.filter(lambda _: True)):
        with pytest.raises(ValueError, match="pack: document 1 has 9 tokens, but a row has 8, .*`patches` travels"):
            list(rows.pack(8, "ids", "best_fit", keys=["patches"]))


def test_wrong_keys_are_named():
    documents = documents_of([(3, 1)])
    for arguments, message in [
        ({"strategy": "greedy", "keys": ["patches"]}, '`keys` needs the strategy "best_fit"'),
        ({"keys": ["nothing"]}, "`key` must name one leaf .* but is 'nothing'"),
        ({"keys": ["ids"]}, "must name other entries than .* but has 'ids'"),
        ({"keys": ["tokens"]}, "must name other entries than .* but has 'tokens'"),
        ({"keys": ["patches", "patches"]}, "each once, but has 'patches'"),
    ]:
        with pytest.raises(ValueError, match=message):
            documents.pack(8, "ids", **{"strategy": "best_fit"} | arguments)
    with pytest.raises(TypeError, match="`keys` must be a sequence"):
        documents.pack(8, "ids", "best_fit", keys="patches")
    labelled = tdi.Dataset.from_tensor_slices({"ids": torch.ones(2, 3, dtype=torch.int64), "label": torch.arange(2)})
    with pytest.raises(TypeError, match="`label` must be dense with rows along dim 0 to travel with its document"):
        labelled.pack(8, "ids", "best_fit", keys=["label"])
    unlike = [{"ids": torch.ones(2, dtype=torch.int64), "x": torch.zeros(1, width)} for width in (2, 3)]
    rows = tdi.Dataset.from_generator(lambda: iter(unlike), None).pack(8, "ids", "best_fit", keys=["x"])
    with pytest.raises(ValueError, match="`x` must be alike in all documents but for dim 0, but of document 1"):
        next(iter(rows))
