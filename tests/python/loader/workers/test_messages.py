# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Messages between a DataLoader and its workers: both ends in one process."""

import collections
import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import default_collate

from torch_distinput import _C
from torch_distinput.base._messages import pickle_value, unpickle_value
from torch_distinput.loader.workers._messages import unreadable

Named = collections.namedtuple("Named", ["first", "second"])
DTYPES = (torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.bool)
NUMPY_TYPES = ("bool_", "uint8", "int8", "int32", "int64", "uint16", "float16", "float32", "float64", "complex64")


def pool():
    consumer = _C.ConsumerEnd(1, pickle_value, unpickle_value, unreadable)
    return consumer, consumer.worker(0)


CONSUMER, WORKER = pool()


def sent(value):
    WORKER.send(7, value)
    task, received = CONSUMER.receive()
    assert task == 7
    return received


def plain(value):
    """`value` with all types, and with tensors as comparable values."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        layout = value.stride() if isinstance(value, torch.Tensor) else value.strides if value.size else None
        return type(value).__name__, str(value.dtype), tuple(value.shape), layout, value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(plain(key), plain(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(part) for part in value]
    return type(value).__name__, value


def leaf_makers():
    """Strategies of functions that make one sample of a column from a number."""
    sizes = st.lists(st.integers(0, 3), max_size=3)
    tensors = st.builds(
        lambda dtype, size: lambda i: (torch.arange(40)[: int(np.prod(size))] + i).reshape(size).to(dtype),
        st.sampled_from(DTYPES),
        sizes,
    )
    columns = st.just(lambda i: (torch.arange(12.0).reshape(3, 4) + i).T)
    arrays = st.builds(
        lambda kind, size: lambda i: (np.arange(40)[: int(np.prod(size))] + i).reshape(size).astype(kind),
        st.sampled_from(NUMPY_TYPES),
        sizes,
    )
    parts = st.just(lambda i: (np.arange(60).reshape(5, 12) + i)[1:4, 2:9:3])
    scalars = st.sampled_from(NUMPY_TYPES).map(lambda kind: lambda i: getattr(np, kind)(i))
    values = st.sampled_from(
        (int, float, str, bool, lambda i: str(i).encode(), lambda i: "\ud800", lambda i: 2**62 * 4**i, lambda i: None)
        + (
            lambda i: i if i % 2 else float(i),
            lambda i: torch.zeros(i),
            lambda i: (0,) * i,
            lambda i: np.zeros(2)[::-1],
        )
        + (lambda i: np.array(["a"]), lambda i: torch.ones(2, requires_grad=True), lambda i: [1][i % 2 :])
    )
    return st.one_of(tensors, columns, arrays, parts, scalars, values)


def sample_makers():
    def nested(maker):
        return st.one_of(
            st.lists(maker, max_size=3).map(lambda parts: lambda i: [part(i) for part in parts]),
            st.lists(maker, max_size=3).map(lambda parts: lambda i: tuple(part(i) for part in parts)),
            st.tuples(maker, maker).map(lambda parts: lambda i: Named(*(part(i) for part in parts))),
            st.dictionaries(st.sampled_from(["a", "b", 3]), maker, max_size=3).map(
                lambda parts: lambda i: {key: part(i) for key, part in parts.items()}
            ),
            maker.map(lambda part: lambda i: collections.OrderedDict(x=part(i))),
        )

    return st.recursive(leaf_makers(), nested, max_leaves=5)


@settings(max_examples=120)
@given(sample_makers(), st.integers(1, 4), st.integers(0, 2))
def test_collated_batches_are_those_of_torch(make, size, first):
    samples = [make(i) for i in range(first, first + size)]
    collated = WORKER.collate(samples)
    if collated is None:
        return
    assert plain(sent(collated)) == plain(default_collate(samples))


@pytest.mark.parametrize(
    "sample",
    [torch.ones(3), np.ones((2, 2)), np.float32(1), 1, 1.5, True, "a", b"a", (1, "a"), [torch.ones(1)], {"a": 1}]
    + [Named(1, {"b": (np.int64(1), torch.ones(2, 3).T)}), np.ones((4, 6))[1:3, ::2], torch.ones(4, 6)[:, 1:3]],
    ids=repr,
)
def test_the_usual_samples_are_collated_natively(sample):
    collated = WORKER.collate([sample, sample])
    assert collated is not None
    assert plain(sent(collated)) == plain(default_collate([sample, sample]))


class Odd:
    """A type that native code does not know."""

    def __init__(self, **parts):
        self.__dict__.update(parts)


def values():
    leaves = st.one_of(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text() | st.binary(),
        st.sampled_from(DTYPES).map(lambda dtype: torch.arange(6).reshape(2, 3).to(dtype)),
        st.sampled_from([torch.ones(2, 0, 3), torch.arange(6.0).reshape(2, 3).T, torch.arange(9.0)[::2]]),
        st.sampled_from([torch.ones(1, 3, 4, 4).to(memory_format=torch.channels_last), torch.ones(1).expand(5)]),
        st.sampled_from([np.arange(1000.0), np.array("text"), np.zeros((0, 2)), np.float32(1), 1j, range(3)]),
    )

    def nested(parts):
        keys = st.text(max_size=2) | st.integers(0, 9)
        return (
            st.lists(parts, max_size=3)
            | st.tuples(parts, parts)
            | st.builds(Named, parts, parts)
            | (st.dictionaries(keys, parts, max_size=3))
        )

    return st.recursive(leaves, nested, max_leaves=6)


@settings(max_examples=80)
@given(values())
def test_values_arrive_as_they_are(value):
    assert plain(sent(value)) == plain(value)
    assert plain(sent([Odd(value=value).__dict__, (value,)])) == plain([{"value": value}, (value,)])


def test_objects_that_occur_twice_are_one_object():
    tensor, values = torch.arange(300.0), [1, "a"]
    first, second, third, fourth = sent([tensor, tensor, values, values])
    assert first is second and third is fourth
    whole, part = sent((tensor, tensor[10:20]))
    part.zero_()
    assert whole[10:20].eq(0).all()
    odd = sent([Odd(tensor=tensor, array=np.arange(500))])[0]
    assert odd.tensor.equal(tensor) and odd.array.tolist() == list(range(500))
    odd.array += 1  # memory of its own, which may be written to


@pytest.mark.parametrize("count", [2, 15, 16, 17, 18, 40])
def test_of_many_objects_each_that_occurs_twice_is_one_object(count):
    for again in range(count):
        values = [[i] for i in range(count)]
        received = sent([*values, values[again]])
        assert received == [*values, values[again]]
        assert received[-1] is received[again]


@pytest.mark.parametrize("part", [False, True], ids=["a row", "a part of a row"])
def test_what_a_batch_copies_lives_until_it_is_sent(part):
    tensor = torch.ones(3)
    samples, alive = [[tensor] if part else tensor], weakref.ref(tensor)
    del tensor
    collated = WORKER.collate(samples)
    if part:
        samples[0].clear()
    samples.clear()
    gc.collect()
    assert alive() is not None
    received = sent(collated)
    assert (received[0] if part else received).equal(torch.ones(1, 3))
    assert alive() is None


def test_a_gradient_flag_and_sparse_layouts_arrive():
    parameter = torch.nn.Parameter(torch.ones(3))
    assert sent([parameter])[0].requires_grad
    assert sent(torch.eye(3).to_sparse()).to_dense().equal(torch.eye(3))


def test_arrays_of_another_byte_order_arrive_in_the_machines_as_from_torchs_workers():
    value = np.arange(500, dtype=">i4").reshape(2, 250)
    first, again = sent([value, value])
    assert first is again and first.dtype == np.dtype("int32") and first.tolist() == value.tolist()
    fields = sent(np.zeros(3, dtype=[("a", ">i4"), ("b", "f8")]))
    assert fields.dtype == np.dtype([("a", "i4"), ("b", "f8")])


def test_memory_is_used_again_when_the_last_part_of_a_batch_is_gone():
    consumer, worker = pool()

    def address(keep):
        worker.send(0, [torch.zeros(1000), np.zeros(1000)])
        _, batch = consumer.receive()
        keep.append(batch[len(keep) % 2])
        return min(batch[0].data_ptr(), batch[1].ctypes.data)

    addresses = [address([]) for _ in range(20)]
    gc.collect()
    assert len(set(addresses)) <= 2
    kept = []
    assert len({address(kept) for _ in range(20)}) == 20
    assert all(not part.any() for part in kept)


@pytest.mark.parametrize("size", [4095, 4096, 4097, 4159, 5001, 65_537])
def test_large_batches_arrive_byte_by_byte(size):
    """Batches of at least 4 MiB, with rows that begin and end anywhere in a line of the caches."""
    rows = list(torch.randint(0, 256, ((5 << 20) // size, size), dtype=torch.uint8))
    assert torch.equal(sent(WORKER.collate(rows)), torch.stack(rows))


def test_kept_batches_outlive_the_pool():
    consumer, worker = pool()
    worker.send(0, torch.arange(5000))
    _, batch = consumer.receive()
    worker.send(0, torch.ones(5000))
    consumer.receive()
    consumer.end()
    del consumer, worker
    assert batch.equal(torch.arange(5000))


def test_tasks_arrive_whatever_they_are():
    tasks = [None, (0, [1, 2, 2**70]), (1, [None] * 4), (2, torch.arange(3)), (3, list(range(100000))), (4, Odd(a=1))]
    for task in tasks:
        CONSUMER.send(0, task)
    received = []
    while (found := WORKER.receive(0.0)) is not None or CONSUMER.receive() is not None or len(received) < len(tasks):
        received += [] if found is None else found
    assert received[-1][1].a == 1
    assert [plain(task) for task in received[:-1]] == [plain(task) for task in tasks[:-1]]


@pytest.mark.parametrize("dtype", ["int64", "longlong"])
def test_memory_of_int64_in_a_task_arrives_as_a_list(dtype):
    numbers = np.array([3, -1, 2**62, 0, 7], dtype)
    for number, memory in enumerate([numbers.data, numbers.data[1:3], numbers.data[:0]]):
        CONSUMER.send(0, (number, memory))
        assert WORKER.receive(0.0) == ((number, memory.tolist()),)


@pytest.mark.parametrize(
    "numbers", [np.ones(3), np.arange(6)[::2], np.zeros((2, 2), np.int64), np.arange(3, dtype="i4")]
)
def test_other_memory_in_a_task_is_refused_as_by_torch(numbers):
    with pytest.raises(TypeError, match="memoryview"):
        CONSUMER.send(0, (0, numbers.data))


def test_tasks_that_are_passed_over_have_no_result():
    consumer, worker = pool()
    for number in range(3):
        consumer.send(0, (number, [number]))
    assert worker.receive(0.0) == ((0, [0]),)
    consumer.pass_over(0)
    consumer.send(0, "another epoch")
    consumer.send(0, (0, [5]))
    worker.send(0, "begun before")
    assert worker.receive(0.0) == ("another epoch",)
    assert worker.receive(0.0) == ((0, [5]),)
    assert [consumer.receive() for _ in range(4)] == [(0, "begun before"), (1, None), (2, None), None]
    assert consumer.unfinished(0) == ["another epoch", (0, [5])]


def test_a_result_that_cannot_be_read_is_an_error_of_its_task():
    consumer = _C.ConsumerEnd(1, pickle_value, lambda *message: {}[message], lambda error: ("failed", type(error)))
    consumer.worker(0).send(3, {1j})
    assert consumer.receive() == (3, ("failed", KeyError))


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("size", [0, 3, 1000])
@pytest.mark.parametrize("kind", ["uint8", ">i4", "float64", "datetime64[s]", [("a", "i4"), ("b", "f8")]])
def test_read_only_arrays_arrive_writable_as_from_torchs_workers(size, kind):
    arrays = [
        read_only(np.arange(size).astype(kind)),
        read_only(np.arange(2 * size).astype(kind))[::2],
        read_only(np.asfortranarray(np.arange(2 * size).reshape(2, size).astype(kind))),
        np.frombuffer(np.arange(size).astype(kind).tobytes(), kind),
        np.broadcast_to(np.arange(size).astype(kind), (3, size)),
    ]
    twice, again = sent([arrays[0], arrays[0]])
    assert twice is again
    for array, received in zip(arrays, sent({"arrays": arrays})["arrays"]):
        assert received.flags.writeable and not array.flags.writeable
        assert received.dtype == array.dtype.newbyteorder("=") and received.tolist() == array.tolist()
        received[...] = received[...]
    assert sent(read_only(np.array([1, "a"], object))).tolist() == [1, "a"]
