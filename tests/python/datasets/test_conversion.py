# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Python values as elements and back: dtypes, numbers, lists and structures."""

import collections
import typing

import numpy as np
import pytest
import torch
from torch_datasets import Made

import torch_distinput as tdi


class Pair(typing.NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def round_trip(value):
    (element,) = tdi.Dataset.from_tensors(value)
    return element


DTYPES = sorted(
    {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
    - {torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4}
    - {
        getattr(torch, f"{kind}{bits}")
        for kind in ("int", "uint", "bits")
        for bits in range(1, 8)
        if hasattr(torch, f"{kind}{bits}")
    }
    - {getattr(torch, name) for name in ("bits1x8", "bits2x4", "bits4x2", "bits8", "bits16") if hasattr(torch, name)},
    key=str,
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_survives(dtype):
    tensor = torch.arange(192, dtype=torch.uint8)[: 12 * dtype.itemsize].view(dtype)
    rows = list(tdi.Dataset.from_tensor_slices(tensor.reshape(6, 2)).map(lambda x: x).batch(4))
    assert [row.dtype for row in rows] == [dtype, dtype]
    assert torch.equal(torch.cat([row.view(torch.uint8) for row in rows]), tensor.reshape(6, 2).view(torch.uint8))


@pytest.mark.parametrize(
    "value",
    [
        {"x": 1, "y": 2},
        {"y": 1, "x": 2},
        (1, 2),
        (1,),
        (),
        {},
        None,
        Pair(1, 2),
        {"a": (1, None, {"b": Pair(2, (3, None))})},
    ],
    ids=str,
)
def test_structures_survive(value):
    def numbers(part):
        if isinstance(part, torch.Tensor):
            return part.item()
        if isinstance(part, dict):
            return {key: numbers(item) for key, item in part.items()}
        if isinstance(part, tuple):
            return type(part)(*map(numbers, part)) if hasattr(part, "_fields") else tuple(map(numbers, part))
        return part

    result = round_trip(value)
    assert numbers(result) == value
    assert type(result) is (torch.Tensor if isinstance(value, int) else type(value))
    if isinstance(value, dict):
        assert list(result) == list(value)


def test_a_bare_tensor_is_an_element():
    assert torch.equal(round_trip(torch.tensor([1.5, 2.5])), torch.tensor([1.5, 2.5]))


def test_an_ordered_dict_becomes_a_dict_and_a_struct_sequence_a_tuple():
    assert type(round_trip(collections.OrderedDict(x=1))) is dict
    assert type(round_trip(torch.tensor([3, 1]).max(0))) is tuple


def test_lists_of_a_torch_sample_stay_lists():
    first, second = tdi.Dataset.from_torch(Made(2, lambda index: [torch.tensor(index), [1.5, {"z": index}]]))
    assert type(first) is list and type(first[1]) is list
    assert second[1][1]["z"].item() == 1


@pytest.mark.parametrize(
    "value",
    [True, 3, -(2**63), 1.5, 1 + 2j, [1, 2], [1.5, 2], [[1, 2], [3, 4]], [(1, 2), (3, 4)], [], [True, False]],
    ids=str,
)
def test_numbers_become_what_torch_tensor_makes_of_them(value):
    expected = torch.tensor(value)
    result = round_trip(value)
    assert result.dtype == expected.dtype
    assert torch.equal(result, expected)


def test_floats_follow_the_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        assert round_trip(1.5).dtype == torch.float64
        assert round_trip(1j).dtype == torch.complex128
    finally:
        torch.set_default_dtype(torch.float32)


def test_lists_of_tensors_and_arrays_are_stacked():
    result = round_trip([torch.tensor([1, 2]), np.array([3, 4]), [5, 6]])
    assert result.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert [x.item() for x in tdi.Dataset.from_tensor_slices(range(3))] == [0, 1, 2]


def test_conjugate_and_negative_views_keep_their_values():
    value = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert torch.equal(round_trip(value), value.resolve_conj())
    assert torch.equal(round_trip(value.imag), torch.tensor([-2.0, 4.0]))


def test_a_tensor_subclass_is_its_tensor():
    assert type(round_trip(torch.nn.Parameter(torch.ones(2)))) is torch.Tensor


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ((1, ["a", b"b"]), r"leaf \[1\] is a list of str that holds a bytes as its string 1"),
        ([1, "a"], "the value is a list that holds a str among numbers"),
        ([[1, 2], [3]], "the value is a list of parts with unequal shapes"),
        ([torch.zeros(2), torch.zeros(3)], "unequal shapes"),
        (Pair(1, object()), r"leaf \.right is a object"),
        (2**64, "an int beyond 64 bits"),
        (np.array([object()]), "numpy array of dtype object that holds no strings"),
        (torch.zeros(2).to_mkldnn(), "a tensor that is neither dense nor COO"),
        (torch.zeros(2, device="meta"), "a tensor on meta"),
        ({1: torch.zeros(1)}, "keys of a dict must be str, but found a key of type int"),
    ],
)
def test_what_is_no_tensor_is_refused_by_name(value, word):
    with pytest.raises(TypeError, match=f"^from_tensors: .*{word}"):
        tdi.Dataset.from_tensors(value)


def test_a_structure_without_end_is_refused():
    value = ()
    for _ in range(200):
        value = (value,)
    with pytest.raises(TypeError, match="nested more than 100 deep"):
        tdi.Dataset.from_tensors(value)


def test_keys_in_another_order_are_the_same_structure():
    def swap(x):
        return {"a": x, "b": -x} if x.item() % 2 else {"b": -x, "a": x}

    results = list(tdi.Dataset.range(4).map(swap))
    assert [list(result) for result in results] == [["b", "a"]] * 4
    assert [result["a"].item() for result in results] == [0, 1, 2, 3]
