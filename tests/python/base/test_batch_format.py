# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Batches in sealed memory: what arrives is what was written, and nothing else is believed."""

import collections
import itertools
import json
import mmap
import os
import re
from typing import NamedTuple

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import default_collate

import torch_distinput as tdi
from torch_distinput.base._batch_format import pack, unpack
from torch_distinput.base._sealed_memory import read_sealed, write_sealed


class Pair(NamedTuple):
    image: object
    label: object


DTYPES = [torch.uint8, torch.bool, torch.int64, torch.float32, torch.bfloat16, torch.complex64, torch.float8_e4m3fn]
ARRAY_DTYPES = ["u1", "?", "<i8", ">f4", "<f2", "c16", "S3", "U2", "M8[ns]"]


def tensors():
    def tensor(shape, dtype, turned):
        made = torch.arange(numpy.prod(shape, dtype=int)).reshape(shape).to(dtype)
        return made.mT if turned and len(shape) > 1 else made

    return st.builds(tensor, st.lists(st.integers(0, 4), max_size=3), st.sampled_from(DTYPES), st.booleans())


def arrays():
    shapes = st.lists(st.integers(0, 4), max_size=3)
    make = st.builds(
        lambda shape, dtype: numpy.arange(numpy.prod(shape, dtype=int)).astype("i8").reshape(shape).astype(dtype),
        shapes,
        st.sampled_from(ARRAY_DTYPES),
    )
    return make | make.map(lambda array: array[..., ::-1] if array.ndim else array[()])


def batches():
    plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
    leaves = plain | tensors() | arrays()
    keys = st.text(max_size=3) | st.integers() | st.tuples(st.integers(), st.text(max_size=1))
    return st.recursive(
        leaves,
        lambda inside: (
            st.lists(inside, max_size=3)
            | st.lists(inside, max_size=3).map(tuple)
            | st.dictionaries(keys, inside, max_size=3)
            | st.dictionaries(keys, inside, max_size=3).map(collections.OrderedDict)
            | st.builds(Pair, inside, inside)
        ),
        max_leaves=8,
    )


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        bits = (one.contiguous().reshape(-1).view(torch.uint8), other.contiguous().reshape(-1).view(torch.uint8))
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(*bits)
    if isinstance(one, (numpy.ndarray, numpy.generic)):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and same(list(one.values()), list(other.values()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@settings(max_examples=300, deadline=None)
@given(batches())
def test_what_arrives_is_what_was_written(batch):
    assert same(batch, read_sealed(write_sealed(batch)))


def test_a_write_of_one_process_reaches_no_other():
    fd = write_sealed([torch.zeros(3), numpy.zeros(3)])
    mine, theirs = read_sealed(os.dup(fd)), read_sealed(fd)
    mine[0] += 1
    mine[1] += 1
    assert theirs[0].tolist() == [0, 0, 0] and theirs[1].tolist() == [0, 0, 0]


def test_memory_ends_with_the_last_tensor():
    def mapped():
        with open("/proc/self/maps") as maps:
            return sum("torch_distinput_batch" in line for line in maps)

    before = mapped()
    whole = read_sealed(write_sealed({"x": torch.zeros(9), "y": torch.zeros(9)}))
    last = whole.pop("y")
    del whole
    assert mapped() == before + 1
    del last
    assert mapped() == before


class Image:
    pass


@pytest.mark.parametrize(
    ("batch", "leaf"),
    [
        ({"a": [0, Image()]}, f"batch['a'][1] is a {Image.__module__}.Image,"),
        ([torch.zeros(2, requires_grad=True)], "batch[0] is a torch.Tensor,"),
        (torch.zeros(2).to_sparse(), "batch is a torch.Tensor,"),
        ({"a": numpy.array([None])}, "batch['a'] is a numpy.ndarray,"),
        (({1, 2},), "batch[0] is a builtins.set,"),
        (collections.namedtuple("Local", "x")(1), "Local,"),
    ],
)
def test_a_leaf_that_cannot_be_shared_is_named(batch, leaf):
    with pytest.raises(TypeError, match="`share`") as error:
        write_sealed(batch)
    assert leaf in str(error.value)


def test_a_leaf_of_a_part_is_named_with_it():
    with pytest.raises(TypeError, match=re.escape("but position['x'][0] is a builtins.object,")):
        write_sealed([1, {"x": [object()]}], ("batch", "position"))


@pytest.mark.parametrize("empty", [b"", torch.zeros(0), torch.zeros(3, 0), numpy.zeros(0)])
def test_empty_leaves_need_no_memory_behind_others(empty):
    batch = [b"x", empty, empty]
    assert pack(batch).size == 1
    assert same(batch, read_sealed(write_sealed(batch)))


@given(
    st.lists(st.integers(1, 600) | st.just((1 << 20) + 1) | st.binary(min_size=1, max_size=9), min_size=1, max_size=6)
)
def test_small_tensors_lie_behind_one_another(sizes):
    batch = [size if isinstance(size, bytes) else torch.zeros(size, dtype=torch.uint8) for size in sizes]
    found = read_sealed(write_sealed(batch))
    small = [part for part in found if isinstance(part, torch.Tensor) and len(part) <= 1 << 20]
    for one, other in itertools.pairwise(small):
        assert other.data_ptr() - one.data_ptr() == -(-len(one) // 256) * 256


def test_stock_batches_can_be_shared():
    batch = default_collate([{"x": numpy.ones(2), "pair": Pair(1, "a"), "none": b"b"}] * 2)
    assert same(batch, read_sealed(write_sealed(batch)))


def nodes():
    sizes = st.integers(-3, 2**70) | st.none()
    leaves = st.none() | sizes | st.text(max_size=3)
    return st.recursive(
        leaves,
        lambda inside: (
            st.lists(inside, max_size=4)
            | st.tuples(
                st.sampled_from(["tensor", "array", "scalar"]),
                st.sampled_from(["torch.int64", "<i8", "O", "V8", "x"]),
                st.lists(sizes, max_size=2),
                sizes,
            ).map(list)
            | st.tuples(st.just("bytes"), sizes, sizes).map(list)
            | st.tuples(st.sampled_from(["list", "tuple"]), inside).map(list)
            | st.tuples(
                st.just("dict"), st.sampled_from(["", "collections.OrderedDict", "os.environ"]), inside, inside
            ).map(list)
            | st.tuples(st.just("named"), st.sampled_from(["os.stat_result", "builtins.tuple", "x"]), inside).map(list)
        ),
        max_leaves=6,
    )


@settings(max_examples=500, deadline=None)
@given(nodes())
def test_a_description_that_breaks_a_rule_is_an_error(node):
    memory = mmap.mmap(-1, 4096)
    try:
        unpack(json.dumps(node).encode(), memory, 64)
    except tdi.DistributedDatasetError as error:
        assert "breaks its format" in str(error)


@settings(max_examples=100, deadline=None)
@given(st.data(), batches())
def test_a_damaged_description_is_an_error(data, batch):
    text = bytearray(pack(batch).text)
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    try:
        unpack(bytes(text), mmap.mmap(-1, 4096), 0)
    except tdi.DistributedDatasetError as error:
        assert "breaks its format" in str(error)


def test_memory_that_is_not_sealed_is_refused():
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096)
    with pytest.raises(tdi.DistributedDatasetError, match="must be sealed"):
        read_sealed(fd)


def test_a_description_beyond_the_memory_is_refused():
    import fcntl

    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(fd, (100).to_bytes(8, "little"))
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    with pytest.raises(tdi.DistributedDatasetError, match="must end within"):
        read_sealed(fd)
