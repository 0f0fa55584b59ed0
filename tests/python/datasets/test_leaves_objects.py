# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Objects other than tensors: a pipeline carries them without a look inside."""

import gc
import weakref

import pytest
import torch
from torch_datasets import Made

import torch_distinput as tdi


class Thing:
    def __init__(self, number):
        self.number = int(number)


def numbers(things):
    return [thing.number for thing in things]


def test_a_generator_may_yield_any_object():
    made = [Thing(i) for i in range(3)]
    dataset = tdi.Dataset.from_generator(lambda: iter(made), None)
    assert all(got is given for got, given in zip(dataset, made))
    assert dataset.element_spec == tdi.OpaqueSpec()


def test_objects_may_be_declared():
    spec = {"thing": tdi.OpaqueSpec(), "n": tdi.TensorSpec([], torch.int64)}
    dataset = tdi.Dataset.from_generator(lambda: ({"thing": Thing(i), "n": i} for i in range(3)), spec)
    assert dataset.batch(2).element_spec["thing"] == tdi.OpaqueSpec([None])
    assert [numbers(batch["thing"]) for batch in dataset.batch(2)] == [[0, 1], [2]]


def test_a_dataset_of_torch_may_hold_objects():
    things = Made(3, lambda index: (Thing(index), index))
    assert [(thing.number, int(n)) for thing, n in tdi.Dataset.from_torch(things)] == [(0, 0), (1, 1), (2, 2)]


def test_a_batch_of_objects_is_a_list_and_goes_back_into_functions():
    batches = tdi.Dataset.range(5).map(Thing).batch(2)
    assert [numbers(batch) for batch in batches] == [[0, 1], [2, 3], [4]]
    assert [numbers(batch) for batch in batches.map(lambda things: things[::-1])] == [[1, 0], [3, 2], [4]]
    assert numbers(batches.unbatch()) == [0, 1, 2, 3, 4]
    assert [numbers(batch) for batch in batches.rebatch([3, 1])] == [[0, 1, 2], [3], [4]]
    assert [[numbers(part) for part in batch] for batch in tdi.Dataset.range(4).map(Thing).batch(2).batch(2)] == [
        [[0, 1], [2, 3]]
    ]


def test_replicas_without_rows_get_empty_lists():
    dataset = tdi.Dataset.range(5).map(Thing).batch(4)
    steps = list(tdi.MirroredStrategy(["cpu"] * 3).distribute_dataset(dataset))
    assert [[numbers(part) for part in step.values] for step in steps] == [[[0, 1], [2, 3], []], [[4], [], []]]


def test_objects_are_released():
    alive = []

    def make(x):
        thing = Thing(x)
        alive.append(weakref.ref(thing))
        return thing

    for batch in tdi.Dataset.range(6).map(make, num_parallel_calls=2).batch(2).prefetch(2):
        del batch
    gc.collect()
    assert len(alive) >= 6
    assert [ref() for ref in alive] == [None] * len(alive)


@pytest.mark.parametrize("method", ["from_tensors", "from_tensor_slices"])
def test_a_source_in_memory_refuses_objects(method):
    with pytest.raises(TypeError, match=rf"^{method}: leaf \['x'\] is a .*Thing, which cannot be a leaf"):
        getattr(tdi.Dataset, method)({"x": Thing(1)})


def test_a_list_of_objects_of_unequal_depth_is_refused():
    with pytest.raises(TypeError, match="objects in parts of unequal lengths"):
        list(tdi.Dataset.range(1).map(lambda x: [[Thing(1)], [Thing(2), Thing(3)]]))


def test_an_object_where_a_tensor_came_before_names_both():
    made = [1, Thing(1)]
    with pytest.raises(ValueError, match=r"element 1: the element: expected TensorSpec.*, got OpaqueSpec"):
        list(tdi.Dataset.from_generator(lambda: iter(made), None))
