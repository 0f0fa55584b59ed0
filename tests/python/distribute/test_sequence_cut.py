# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Parts of sequences for context parallelism are those of torch and Megatron-LM, and hold each position once."""

from collections import namedtuple

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from ranks import returned, run_ranks
from refusals import refused
from token_files import documents_of

import torch_distinput as tdi
from torch_distinput.distribute._sequence_cut import as_sequence_cut

Batch = namedtuple("Batch", ["inputs", "labels"])


def chunks_of_document(document, rank, size):
    """The rule of Megatron-LM and TransformerEngine: chunk `rank`, then the `rank`th from the end, of 2 * size."""
    chunk = len(document) // (2 * size)
    last = len(document) - rank * chunk
    return document[rank * chunk : (rank + 1) * chunk] + document[last - chunk : last]


def chunks_of_row(bounds, rank, size):
    row = list(range(bounds[-1]))
    documents = [row[begin:end] for begin, end in zip(bounds, bounds[1:])]
    return [position for document in documents for position in chunks_of_document(document, rank, size)]


def numbered(*shape):
    return torch.arange(torch.Size(shape).numel()).reshape(shape)


def all_parts(cut, batch, size):
    return [cut.cut(batch, rank, size) for rank in range(size)]


def rejoined(parts, positions, dim):
    """The sequences that the parts are of."""
    order = torch.cat(positions, -1)
    together = torch.cat(parts, dim)
    if order.dim() == 1:
        return together.index_select(dim, order.argsort())
    shape = [len(order)] + [1] * (together.dim() - 1)
    shape[dim] = order.shape[1]
    return together.take_along_dim(order.argsort(-1).view(shape), dim)


@st.composite
def sequences(draw, multiple):
    """A size, a dim, and leaves of one length along it, which is a multiple of `multiple(size)`."""
    size, dim = draw(st.integers(1, 8)), draw(st.integers(0, 2))
    length = multiple(size) * draw(st.integers(0, 4))
    inner = st.lists(st.integers(0, 3), max_size=2)
    shapes = [[*draw(st.lists(st.integers(0, 3), min_size=dim, max_size=dim)), length, *draw(inner)] for _ in range(3)]
    return (
        size,
        dim,
        [numbered(*shape).to(dtype) for shape, dtype in zip(shapes, (torch.int64, torch.float32, torch.bool))],
    )


def check_parts(cut, order, size, dim, leaves):
    batch = {"inputs": Batch((leaves[0], "text"), leaves[1]), "more": [leaves[2], None, 3]}
    length = leaves[0].shape[dim]
    positions = [cut.positions(length, rank, size) for rank in range(size)]
    assert [list(own) for own in positions] == [order(length, rank, size) for rank in range(size)]
    assert sorted(torch.cat(positions).tolist()) == list(range(length))
    parts = all_parts(cut, batch, size)
    for rank, part in enumerate(parts):
        (first, text), second = part["inputs"]
        third, *rest = part["more"]
        assert (type(part["inputs"]), text, rest) == (Batch, "text", [None, 3])
        for leaf, own in zip(leaves, (first, second, third)):
            assert own.is_contiguous() and torch.equal(own, leaf.index_select(dim, positions[rank]))
    again = rejoined([part["inputs"].labels for part in parts], positions, dim)
    assert torch.equal(again, leaves[1])


@given(sequences(lambda size: 2 * size))
def test_head_and_tail_are_those_of_megatron(data):
    check_parts(tdi.SequenceCut(data[1]), lambda length, *peer: chunks_of_row([0, length], *peer), *data)


@given(sequences(lambda size: size))
def test_contiguous_parts_are_chunks(data):
    def order(length, rank, size):
        return list(range(length))[rank * length // size : (rank + 1) * length // size]

    check_parts(tdi.SequenceCut(data[1], order="contiguous"), order, *data)


@st.composite
def packed_rows(draw):
    """A size, and the bounds of documents in rows of one length, as many in each: some documents have no positions."""
    size, rows, length = draw(st.integers(1, 8)), draw(st.integers(0, 4)), draw(st.integers(0, 6))
    ends = st.lists(st.integers(0, length), min_size=3, max_size=3).map(sorted)
    return (
        size,
        2 * size * torch.tensor([[0, *draw(ends), length] for _ in range(rows)]).reshape(rows, 5),
        2 * size * length,
    )


@given(packed_rows(), st.sampled_from([torch.int32, torch.int64]), st.integers(1, 2))
def test_each_document_of_a_packed_row_is_cut_on_its_own(data, dtype, dim):
    size, bounds, length = data
    rows = len(bounds)
    batch = {"tokens": numbered(rows, length), "cu_seqlens": bounds.to(dtype)}
    batch["inner"] = numbered(rows, length, 2) if dim == 1 else numbered(rows, 3, length)
    cut = tdi.SequenceCut({"tokens": 1, "inner": dim}, documents="cu_seqlens")
    parts = all_parts(cut, batch, size)
    for rank, part in enumerate(parts):
        expected = [chunks_of_row(row, rank, size) for row in bounds.tolist()]
        own = torch.tensor(expected, dtype=torch.int64).reshape(rows, length // size)
        assert part["cu_seqlens"] is batch["cu_seqlens"]
        assert torch.equal(part["tokens"], batch["tokens"].gather(1, own))
        assert torch.equal(cut.positions(length, rank, size, batch["cu_seqlens"]), own)
        for row in range(rows):
            assert torch.equal(part["inner"][row], batch["inner"][row].index_select(dim - 1, own[row]))


@given(packed_rows())
def test_joined_rows_have_one_list_of_bounds(data):
    size, rows, length = data
    bounds = torch.cat([torch.zeros(1, dtype=torch.int64), *(row[1:] + at * length for at, row in enumerate(rows))])
    joined = {"tokens": numbered(len(rows) * length, 2), "cu_seqlens": bounds.int()}  # the format thd
    megatron = {"tokens": joined["tokens"].unsqueeze(0), "cu_seqlens": bounds.int().unsqueeze(0)}
    for rank in range(size):
        part = tdi.SequenceCut(0, documents="cu_seqlens").cut(joined, rank, size)["tokens"]
        assert torch.equal(part, joined["tokens"][chunks_of_row(bounds.tolist(), rank, size)])
        assert torch.equal(tdi.SequenceCut(1, documents="cu_seqlens").cut(megatron, rank, size)["tokens"][0], part)


def differing_from_torch(rank):
    """Where `_context_parallel_shard` makes other parts than `SequenceCut`, with and without its load balancer."""
    from torch.distributed.tensor.experimental import _attention as of_torch  # here, because it imports a compiler

    size = dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (size,))
    length = 4 * size
    leaves = {"a": torch.rand(3, length), "b": numbered(3, length, 2), "c": numbered(3, 2, length)}
    dims = {"a": 1, "b": 1, "c": 2}
    head_tail = of_torch._HeadTailLoadBalancer(length, size, "cpu")
    differing = []
    for cut, balancer in [(tdi.SequenceCut(dims), head_tail), (tdi.SequenceCut(dims, order="contiguous"), None)]:
        ours = cut.cut(leaves, rank, size)
        theirs = of_torch._context_parallel_shard(mesh, list(leaves.values()), list(dims.values()), balancer)
        same = [torch.equal(own, part) and own.stride() == part.stride() for own, part in zip(ours.values(), theirs)]
        differing += [] if all(same) else [(cut, same)]
    return differing


@pytest.mark.parametrize("world", [2, 3, 4])
def test_parts_are_those_that_torch_shards(world):
    assert returned(run_ranks(differing_from_torch, world)) == [[]] * world


def test_one_peer_has_the_batch_itself():
    batch = {"tokens": numbered(2, 7), "rows": torch.arange(2)}
    assert tdi.SequenceCut(1).cut(batch, 0, 1) is batch
    assert tdi.SequenceCut(1).positions(7, 0, 1).tolist() == list(range(7))


def test_parts_are_views_only_where_they_are_contiguous():
    flat, rows = numbered(8), numbered(2, 8)
    cut = tdi.SequenceCut({"flat": 0, "rows": 1}, order="contiguous")
    part = cut.cut({"flat": flat, "rows": rows}, 1, 4)
    assert part["flat"].data_ptr() == flat[2:].data_ptr()
    assert part["rows"].untyped_storage().data_ptr() != rows.untyped_storage().data_ptr()
    head_tail = tdi.SequenceCut(0).cut(flat, 3, 4)
    assert head_tail.tolist() == [3, 4] and head_tail.untyped_storage().nbytes() == 2 * flat.element_size()


@pytest.mark.parametrize(
    "batch",
    [
        {"tokens": torch.zeros(0, 12), "other": torch.zeros(0, 0), "cu_seqlens": torch.zeros(0, 3, dtype=torch.int32)},
        {
            "tokens": torch.zeros(0, 12),
            "other": torch.zeros(0, 6, 2),
            "cu_seqlens": torch.zeros(0, 0, dtype=torch.int64),
        },
    ],
    ids=["bounds", "no bounds"],
)
def test_a_batch_without_rows_is_cut(batch):
    cut = tdi.SequenceCut({"tokens": 1, "other": 1}, documents="cu_seqlens")
    part = cut.cut(batch, 2, 3)
    assert part["tokens"].shape == (0, 4)
    assert part["other"].shape == (0, batch["other"].shape[1] // 3, *batch["other"].shape[2:])


def test_dims_may_be_given_in_the_structure_of_the_batch():
    batch = ({"input": numbered(2, 4), "mask": numbered(2, 1, 4, 4), "rows": torch.arange(2)}, numbered(2, 4))
    inputs, labels = tdi.SequenceCut(({"input": 1, "mask": 2, "rows": None}, 1), order="contiguous").cut(batch, 1, 2)
    assert inputs["input"].tolist() == labels.tolist() == [[2, 3], [6, 7]]
    assert torch.equal(inputs["mask"], batch[0]["mask"][:, :, 2:]) and inputs["rows"] is batch[0]["rows"]
    inputs, labels = tdi.SequenceCut((None, 1)).cut(batch, 1, 2)
    assert inputs == batch[0] and labels.shape == (2, 2)


@given(
    st.integers(1, 4), st.lists(st.integers(1, 30), min_size=1, max_size=20), st.sampled_from(["greedy", "best_fit"])
)
def test_packed_rows_of_padded_documents_are_shared(size, lengths, strategy):
    multiple = 2 * size
    documents = documents_of(lengths)
    packed_rows = tdi.TokenDataset.from_tokens(documents, None).pack(
        5 * multiple, strategy=strategy, pad_to_multiple_of=multiple
    )
    found = []
    for batch in packed_rows.batch(3):
        parts = all_parts(tdi.SequenceCut(1, documents="cu_seqlens"), batch, size)
        for part in parts:
            assert {name: leaf.shape[1] for name, leaf in part.items()} == {
                "tokens": 10,
                "position_ids": 10,
                "loss_mask": 10,
                "cu_seqlens": batch["cu_seqlens"].shape[1],
            }
            found += part["tokens"].flatten().tolist()
    assert sorted(token for token in found if token) == list(range(1, 1 + sum(lengths)))


PLAIN, PACKED = tdi.SequenceCut(1), tdi.SequenceCut(1, documents="cu_seqlens")


def packed(*bounds, dtype=torch.int32, length=8):
    return {"tokens": numbered(len(bounds), length), "cu_seqlens": torch.tensor(bounds, dtype=dtype)}


WRONG = [
    (
        "length",
        PLAIN,
        {"a": numbered(2, 10)},
        ValueError,
        "leaf ['a']",
        "along dim 1",
        "multiple of 4",
        "is 10",
        "pad",
        "12",
    ),
    (
        "contiguous length",
        tdi.SequenceCut(0, order="contiguous"),
        numbered(7),
        ValueError,
        "the batch",
        "multiple of 2",
        "is 7",
        "'contiguous'",
        "to 8",
    ),
    ("no dim", PLAIN, [numbered(2, 8), numbered(2)], ValueError, "leaf [1]", "dim 1", "[2]", "None"),
    (
        "lengths",
        PLAIN,
        (numbered(2, 8), {"b": numbered(2, 4)}),
        ValueError,
        "leaf [1]['b'] has length 4",
        "leaf [0]",
        "8",
    ),
    ("bounds not named", PLAIN, packed([0, 4, 8]), ValueError, "leaf ['cu_seqlens'] has length 3", "`documents`"),
    ("array", PLAIN, {"a": np.zeros((2, 8))}, TypeError, "leaf ['a']", "a dense tensor", "ndarray"),
    ("sparse", PLAIN, {"a": torch.zeros(2, 8).to_sparse()}, TypeError, "leaf ['a']", "torch.sparse_coo"),
    ("nothing to cut", tdi.SequenceCut({"a": None}), {"a": numbered(2, 8)}, ValueError, "a leaf that is cut", "None"),
    ("dim not given", tdi.SequenceCut({"a": 1}), {"a": numbered(2, 8), "b": 1}, ValueError, "no entry for leaf ['b']"),
    ("dim of nothing", tdi.SequenceCut({"c": 1}), {"a": numbered(2, 8)}, ValueError, "entry for ['c']"),
    ("dims of a leaf", tdi.SequenceCut({"a": [1]}), {"a": numbered(2, 8)}, ValueError, "leaf ['a']", "[1]"),
    ("no bounds", PACKED, {"a": numbered(2, 8)}, ValueError, "'cu_seqlens' of `documents`", "0 have"),
    ("two bounds", PACKED, [packed([0, 8]), packed([0, 8])], ValueError, "`documents`", "2 have"),
    ("no numbers", PACKED, {"a": numbered(1, 8), "cu_seqlens": "x"}, TypeError, "leaf ['cu_seqlens']", "int32", "str"),
    ("floats", PACKED, packed([0.0, 8.0], dtype=torch.float32), TypeError, "leaf ['cu_seqlens']", "torch.float32"),
    ("shape", PACKED, packed([[0, 8]]), ValueError, "leaf ['cu_seqlens']", "[1, 1, 2]"),
    ("first bound", PACKED, packed([0, 8], [4, 8]), ValueError, "leaf ['cu_seqlens']", "0 to 8", "row 1", "[4, 8]"),
    ("last bound", PACKED, packed([0, 4]), ValueError, "leaf ['cu_seqlens']", "0 to 8", "[0, 4]"),
    ("falling", PACKED, packed([0, 8, 4, 8]), ValueError, "leaf ['cu_seqlens']", "[0, 8, 4, 8]"),
    (
        "document",
        PACKED,
        packed([0, 8, 8], [0, 3, 8]),
        ValueError,
        "multiple of 4",
        "leaf ['cu_seqlens']",
        "document 0 of row 1 has 3",
        "pad it to 4",
        "pad_to_multiple_of=4",
    ),
    (
        "rows",
        PACKED,
        packed([0, 8]) | {"a": numbered(2, 8)},
        ValueError,
        "leaf ['a']",
        "[2, 8]",
        "1 rows",
        "cu_seqlens",
    ),
    (
        "rows along the dim",
        tdi.SequenceCut(0, documents="cu_seqlens"),
        {"a": numbered(8), "cu_seqlens": torch.tensor([[0, 8]])},
        ValueError,
        "leaf ['a']",
        "dim 0",
    ),
]


@pytest.mark.parametrize("case", [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_batch_that_cannot_be_cut_is_refused_by_leaf(case):
    cut, batch, kind, *words = case
    with refused(kind, "SequenceCut.cut: ", *words):
        cut.cut(batch, 0, 2)


def test_a_jagged_leaf_is_refused():
    batch = {"a": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)}
    with refused(TypeError, "SequenceCut.cut: ", "leaf ['a']", "jagged"):
        PLAIN.cut(batch, 0, 2)


WRONG_ARGUMENTS = [
    (lambda: tdi.SequenceCut(-1), ValueError, "SequenceCut: `dim`", "at least 0", "-1"),
    (lambda: tdi.SequenceCut({"a": "1"}), TypeError, "SequenceCut: `dim`", "'1'"),
    (lambda: tdi.SequenceCut(True), TypeError, "SequenceCut: `dim`", "True"),
    (lambda: tdi.SequenceCut(1, order="zigzag"), ValueError, "`order`", "'head_tail', 'contiguous'", "'zigzag'"),
    (lambda: tdi.SequenceCut(1, documents=1), TypeError, "`documents`", "a str", "1"),
    (lambda: tdi.SequenceCut(1, "contiguous", "cu_seqlens"), ValueError, "`documents`", "`order`", "'contiguous'"),
    (lambda: PLAIN.cut(numbered(2, 8), 2, 2), ValueError, "SequenceCut.cut: `rank`", "less than `size`, 2", "2"),
    (lambda: PLAIN.cut(numbered(2, 8), -1, 2), ValueError, "SequenceCut.cut: `rank`", "-1"),
    (lambda: PLAIN.cut(numbered(2, 8), 0, 0), ValueError, "SequenceCut.cut: `size`", "at least 1", "0"),
    (lambda: PLAIN.positions(6, 0, 2), ValueError, "SequenceCut.positions: `length`", "multiple of 4", "6", "to 8"),
    (lambda: PLAIN.positions(8, 0, 2, torch.tensor([0, 8])), ValueError, "`bounds`", "`documents`"),
    (lambda: PACKED.positions(8, 0, 2), TypeError, "SequenceCut.positions: `bounds`", "NoneType"),
    (lambda: PACKED.positions(8, 0, 2, torch.tensor([0, 6, 8])), ValueError, "`bounds`", "document 0 of row 0 has 6"),
    (lambda: as_sequence_cut("DataLoader", "sequence['cp']", "1"), TypeError, "DataLoader: `sequence['cp']`", "'1'"),
]


@pytest.mark.parametrize("call", WRONG_ARGUMENTS, ids=range(len(WRONG_ARGUMENTS)))
def test_a_wrong_argument_is_named(call):
    make, kind, *words = call
    with refused(kind, *words):
        make()


def test_an_int_stands_for_the_dim():
    assert as_sequence_cut("DataLoader", "sequence['cp']", 1) == tdi.SequenceCut(1)
    assert as_sequence_cut("DataLoader", "sequence['cp']", PACKED) is PACKED
