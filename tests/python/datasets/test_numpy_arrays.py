# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""numpy arrays as data: shared, kept alive, and copied only where torch cannot share their memory."""

import gc
import weakref

import numpy as np
import pytest
import torch

import torch_distinput as tdi


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
