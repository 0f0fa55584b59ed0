# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ragged and sparse leaves: jagged nested tensors and COO tensors through pipelines."""

import gc
import weakref

import numpy as np
import pytest
import torch

import torch_distinput as tdi


def repeated(x):
    return x.repeat(int(x) % 4)


def sparse_row(x):
    return ((torch.arange(4) < x % 4) * (x + 1)).to_sparse()


def rows(ragged):
    """The rows of a jagged tensor as lists."""
    assert ragged.layout == torch.jagged
    return [row.tolist() for row in ragged.unbind()] if ragged.shape[0] else []


def jagged(lists):
    return torch.nested.nested_tensor([torch.tensor(one, dtype=torch.int64) for one in lists], layout=torch.jagged)


LISTS = [[1, 2], [], [3], [4, 5, 6], [7]]


def test_a_ragged_batch_is_a_jagged_tensor():
    batches = tdi.Dataset.range(5).map(repeated).ragged_batch(3)
    assert [rows(batch) for batch in batches] == [[[], [1], [2, 2]], [[3, 3, 3], []]]
    assert batches.element_spec == tdi.RaggedTensorSpec([None, None], torch.int64)
    assert batches.cardinality() == 2
    assert [rows(batch) for batch in tdi.Dataset.range(5).map(repeated).ragged_batch(3, drop_remainder=True)] == [
        [[], [1], [2, 2]]
    ]


def test_slices_of_a_jagged_tensor_are_dense_rows():
    dataset = tdi.Dataset.from_tensor_slices({"r": jagged(LISTS), "n": torch.arange(5)})
    assert dataset.element_spec["r"] == tdi.TensorSpec([None], torch.int64)
    assert [row["r"].tolist() for row in dataset] == LISTS
    assert [rows(batch["r"]) for batch in dataset.ragged_batch(2)] == [LISTS[:2], LISTS[2:4], LISTS[4:]]


def test_a_jagged_tensor_goes_through_a_pipeline_as_it_is():
    dataset = tdi.Dataset.from_tensors(jagged(LISTS))
    assert rows(next(iter(dataset))) == LISTS
    doubled = dataset.map(lambda batch: batch * 2)
    assert rows(next(iter(doubled))) == [[2 * x for x in row] for row in LISTS]
    assert [row.tolist() for row in dataset.unbatch()] == LISTS
    assert [rows(batch) for batch in dataset.rebatch([2, 1])] == [LISTS[:2], LISTS[2:3], LISTS[3:]]
    assert [rows(batch) for batch in dataset.rebatch([0, 4])][:2] == [[], LISTS[:4]]


def test_a_jagged_tensor_with_holes_is_made_whole():
    holes = torch.nested.narrow(
        torch.arange(12).reshape(3, 4), 1, torch.tensor([0, 1, 0]), torch.tensor([2, 1, 4]), layout=torch.jagged
    )
    assert rows(next(iter(tdi.Dataset.from_tensors(holes)))) == [[0, 1], [5], [8, 9, 10, 11]]


def test_inner_dims_are_kept():
    made = tdi.Dataset.range(3).map(lambda x: torch.ones(int(x), 2)).ragged_batch(3)
    batch = next(iter(made))
    assert batch.values().shape == (3, 2)
    assert batch.offsets().tolist() == [0, 0, 1, 3]


def test_replicas_without_rows_get_jagged_tensors_without_rows():
    dataset = tdi.Dataset.range(5).map(repeated).ragged_batch(4)
    steps = list(tdi.MirroredStrategy(["cpu"] * 3).distribute_dataset(dataset))
    assert [[rows(part) for part in step.values] for step in steps] == [
        [[[], [1]], [[2, 2], [3, 3, 3]], []],
        [[[]], [], []],
    ]
    assert steps[1].values[2].dtype == torch.int64


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda ragged: ragged.unsqueeze(-1).expand(-1, -1, 2).transpose(1, 2), "whose ragged dim is not dim 1"),
        (lambda ragged: [ragged, ragged], "a list of ragged tensors"),
    ],
    ids=["transposed", "list"],
)
def test_other_nested_tensors_are_refused(make, words):
    value = make(jagged(LISTS))
    with pytest.raises(TypeError, match=rf"^from_tensors: the value .*{words}"):
        tdi.Dataset.from_tensors(value)


def test_a_second_ragged_dim_is_refused():
    ragged = tdi.Dataset.range(4).map(lambda x: jagged([[int(x)]])).batch(2)
    with pytest.raises(ValueError, match="batch: the element is ragged, .* two ragged dims, but one is the limit"):
        list(ragged)
    with pytest.raises(ValueError, match="`ragged_rank` is 2"):
        tdi.Dataset.from_generator(list, tdi.RaggedTensorSpec([None, None, None], torch.int64, ragged_rank=2))
    with pytest.raises(ValueError, match=r"ragged_batch: .* \(1,\) in element 0 .* \(2,\) in element 1"):
        list(tdi.Dataset.range(1, 3).map(lambda x: torch.ones(1, int(x))).ragged_batch(2))


def test_a_batch_of_rows_of_varying_length_says_what_to_use():
    with pytest.raises(ValueError, match="batch: the element .* use padded_batch or ragged_batch"):
        list(tdi.Dataset.range(4).map(repeated).batch(4))


def test_sparse_rows_make_sparse_batches():
    wanted = torch.stack([sparse_row(torch.tensor(x)).to_dense() for x in range(5)])
    batches = list(tdi.Dataset.range(5).map(sparse_row).batch(3))
    assert all(batch.layout == torch.sparse_coo and batch.is_coalesced() for batch in batches)
    assert torch.equal(torch.cat([batch.to_dense() for batch in batches]), wanted)
    assert tdi.Dataset.range(5).map(sparse_row).batch(3).element_spec == tdi.SparseTensorSpec([None, None], torch.int64)


def test_slices_and_rows_of_a_sparse_tensor():
    dense = torch.tensor([[0, 1, 0], [2, 0, 3], [0, 0, 0]])
    dataset = tdi.Dataset.from_tensor_slices(dense.to_sparse())
    assert dataset.element_spec == tdi.SparseTensorSpec([3], torch.int64)
    assert torch.equal(torch.stack([row.to_dense() for row in dataset]), dense)
    batches = dataset.batch(2)
    assert torch.equal(torch.stack([row.to_dense() for row in batches.unbatch()]), dense)
    assert [batch.to_dense().tolist() for batch in batches.rebatch([1, 2])] == [dense[:1].tolist(), dense[1:].tolist()]


def test_replicas_without_rows_get_sparse_tensors_without_rows():
    dataset = tdi.Dataset.range(5).map(sparse_row).batch(4)
    steps = list(tdi.MirroredStrategy(["cpu"] * 3).distribute_dataset(dataset))
    assert [[tuple(part.shape) for part in step.values] for step in steps] == [
        [(2, 4), (2, 4), (0, 4)],
        [(1, 4), (0, 4), (0, 4)],
    ]


def test_sparse_tensors_of_other_shapes_are_refused():
    dataset = tdi.Dataset.range(1, 3).map(lambda x: torch.ones(int(x)).to_sparse())
    with pytest.raises(ValueError, match=r"batch: the element must have one shape, but is \(1,\).* and \(2,\)"):
        list(dataset.batch(2))


@pytest.mark.parametrize("kind", ["ragged", "sparse"])
def test_users_may_write_into_what_they_get(kind):
    value = jagged(LISTS) if kind == "ragged" else torch.eye(3, dtype=torch.int64).to_sparse()
    dataset = tdi.Dataset.from_tensors(value)
    first = next(iter(dataset))
    (first.values() if kind == "ragged" else first._values()).fill_(9)
    again = next(iter(dataset))
    assert (again.values() if kind == "ragged" else again._values()).max() < 9


@pytest.mark.parametrize("source", ["policy OFF", "from_function"])
@pytest.mark.parametrize(
    ("make", "batch"),
    [(lambda x: torch.ones(5), tdi.Dataset.batch), (lambda x: torch.ones(int(x) + 1, 5), tdi.Dataset.ragged_batch)],
    ids=["dense", "ragged"],
)
def test_zero_rows_keep_the_inner_dims_that_a_map_without_a_spec_made(make, batch, source):
    strategy = tdi.MirroredStrategy(["cpu"] * 2)
    rows = tdi.Dataset.range(3).map(make)
    if source == "policy OFF":
        dataset = batch(rows, 2).with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.OFF))
        *_, step = strategy.distribute_dataset(dataset)
    else:
        *_, step = strategy.distribute_datasets_from_function(lambda context: batch(rows, 3))
    full, empty = (part.values() if part.layout == torch.jagged else part for part in strategy.local_results(step))
    assert full.shape[0] > 0 and tuple(full.shape[1:]) == (5,)
    assert tuple(empty.shape) == (0, 5)
    assert empty.layout == full.layout and empty.dtype == full.dtype


def test_a_none_leaf_has_no_rows_and_needs_none():
    dataset = tdi.Dataset.range(5).map(lambda x: (x, None)).batch(4)
    steps = list(tdi.MirroredStrategy(["cpu"] * 3).distribute_dataset(dataset))
    assert [[part.tolist() for part in x.values] for x, _ in steps] == [[[0, 1], [2, 3], []], [[4], [], []]]
    assert all(none.values == (None, None, None) for _, none in steps)
    assert [none for _, none in dataset.unbatch()] == [None] * 5
    assert list(dataset.rebatch(5))[0][1] is None


def test_an_array_is_not_copied():
    array = np.zeros((4, 2), dtype=np.float32)
    dataset = tdi.Dataset.from_tensor_slices({"x": array})
    array[1] = 7
    assert [row["x"].sum().item() for row in dataset] == [0, 14, 0, 0]


def test_an_array_lives_as_long_as_a_dataset_or_an_iterator_needs_it():
    array = np.arange(100_000)
    alive = weakref.ref(array)
    dataset = tdi.Dataset.from_tensor_slices(array).batch(10)
    del array
    iterator = iter(dataset)
    next(iterator)
    del dataset
    gc.collect()
    assert alive() is not None
    assert next(iterator)[0].item() == 10
    del iterator
    gc.collect()
    assert alive() is None


def test_a_read_only_array_gives_no_warning(recwarn):
    array = np.arange(3)
    array.flags.writeable = False
    assert [x.item() for x in tdi.Dataset.from_tensor_slices(array)] == [0, 1, 2]
    assert not recwarn.list


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6)[::-1],
        np.arange(12).reshape(4, 3).T,
        np.arange(12).reshape(4, 3)[:, 1],
        np.arange(6, dtype=">i4"),
        np.zeros(3, dtype=[("a", "i1"), ("b", "f4")])["b"],
    ],
    ids=["reversed", "transposed", "strided", "big endian", "unaligned field"],
)
def test_arrays_of_any_layout(array):
    rows = list(tdi.Dataset.from_tensor_slices(array))
    assert [row.tolist() for row in rows] == array.tolist()


@pytest.mark.parametrize("scalar", [np.float64(1.5), np.float16(1.5), np.int8(3), np.bool_(True), np.complex64(1j)])
def test_scalars_of_numpy_keep_their_dtype(scalar):
    for value in (scalar, [scalar, scalar]):
        (element,) = tdi.Dataset.from_tensors(value)
        assert element.numpy().dtype == scalar.dtype
        assert element.flatten()[0].item() == scalar


def test_an_array_returned_by_a_map_outlives_the_call():
    dataset = tdi.Dataset.range(3).map(lambda x: np.full(4, x.item()))
    kept = list(dataset)
    gc.collect()
    assert torch.stack(kept).tolist() == [[0] * 4, [1] * 4, [2] * 4]
