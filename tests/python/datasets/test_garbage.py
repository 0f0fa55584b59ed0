# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The garbage collector sees through pipelines: objects that only garbage refers to are freed, and no others."""

import gc
import threading
import weakref

import numpy as np
import pytest
import torch
from format_datasets import files
from hypothesis import given, strategies
from processes import becomes_true, library_threads

import torch_distinput as tdi

SCALAR = tdi.TensorSpec((), torch.int64)
SCALARS = {"element_spec": SCALAR}


pytestmark = pytest.mark.usefixtures("only_new_garbage")


class Owner(torch.utils.data.Dataset):
    """An object that holds pipelines which call its own methods."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index

    def augment(self, x):
        return x

    def keep(self, x):
        return self is not None

    def rows(self):
        yield from range(8)

    def inner(self, x):
        return tdi.Dataset.range(4).map(self.augment)

    def kept(self, dataset):
        self.parts = dataset
        return dataset


def mirrored(dataset, **options):
    return tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(dataset, tdi.InputOptions(**options))


def generator(owner):
    return tdi.Dataset.from_generator(owner.rows, SCALAR)


def names():
    return files(".npy", lambda path, rows: np.save(path, np.array(rows, np.int64)))


def layer_of(owner):
    layer = tdi.preprocessing.StringLookup(vocabulary=["a"])
    layer.owner = owner
    return layer


def in_mid_epoch(dataset):
    iterator = iter(dataset)
    next(iterator)
    return iterator


def closed(iterator):
    iterator.close()
    return iterator


def collected(alive):
    return becomes_true(lambda: alive() is None)


CYCLES = {
    "map": lambda o: tdi.Dataset.range(8).map(o.augment).batch(4),
    "filter": lambda o: tdi.Dataset.range(8).filter(o.keep),
    "flat_map": lambda o: tdi.Dataset.range(8).flat_map(o.inner),
    "interleave": lambda o: tdi.Dataset.range(8).interleave(o.inner, num_parallel_calls=2),
    "bucket_by_length": lambda o: tdi.Dataset.range(8).bucket_by_length(o.augment, [4], [2, 2]),
    "from_torch": lambda o: tdi.Dataset.from_torch(o).batch(4),
    "from_generator": generator,
    "several handles": lambda o: [first := tdi.Dataset.range(8).map(o.augment), first.batch(2), first.take(3)],
    "joined": lambda o: tdi.Dataset.zip((generator(o), generator(o).concatenate(generator(o)))),
    "options": lambda o: tdi.Dataset.range(8).map(o.augment).with_options(tdi.Options(seed=1)),
    "distributed": lambda o: mirrored(tdi.Dataset.range(8).map(o.augment, **SCALARS).batch(4)),
    "from_function": lambda o: tdi.MirroredStrategy(["cpu"]).distribute_datasets_from_function(
        lambda context: tdi.Dataset.range(8).map(o.augment).batch(4)
    ),
    "loader": lambda o: tdi.DataLoader(tdi.Dataset.range(8).map(o.augment).batch(4), batch_size=None),
    "names of files": lambda o: in_mid_epoch(tdi.NumpyDataset(tdi.Dataset.from_tensor_slices(names()).map(o.augment))),
    "layer": lambda o: tdi.Dataset.from_tensor_slices(["a", "b"]).batch(2).map(layer_of(o)).map(o.augment),
    "pack": lambda o: in_mid_epoch(tdi.Dataset.range(8).batch(1).map(o.augment).pack(2)),
    "plan iterator": lambda o: in_mid_epoch(tdi.Dataset.range(8).map(o.augment)),
    "parallel iterator": lambda o: in_mid_epoch(tdi.Dataset.range(99).map(o.augment, num_parallel_calls=2)),
    "prefetched iterator": lambda o: in_mid_epoch(generator(o).map(o.augment).prefetch(2)),
    "generator's iterator": lambda o: in_mid_epoch(generator(o)),
    "flat_map's iterator": lambda o: in_mid_epoch(tdi.Dataset.range(8).flat_map(o.inner)),
    "interleave's iterator": lambda o: in_mid_epoch(tdi.Dataset.range(8).interleave(o.inner, num_parallel_calls=2)),
    "flat_map of a kept dataset": lambda o: in_mid_epoch(tdi.Dataset.range(8).flat_map(lambda x: o.kept(o.inner(x)))),
    "nested flat_map": lambda o: in_mid_epoch(
        tdi.Dataset.range(8).flat_map(lambda x: tdi.Dataset.range(2).flat_map(o.inner))
    ),
    "buckets of datasets": lambda o: in_mid_epoch(tdi.Dataset.range(9).map(o.inner).shuffle(4, seed=1)),
    "closed iterator": lambda o: closed(in_mid_epoch(tdi.Dataset.range(8).map(o.augment))),
    "distributed iterator": lambda o: in_mid_epoch(mirrored(tdi.Dataset.range(99).map(o.augment, **SCALARS).batch(4))),
    "distributed stream": lambda o: in_mid_epoch(mirrored(generator(o).batch(2))),
    "loader's iterator": lambda o: in_mid_epoch(tdi.DataLoader(generator(o).batch(4), batch_size=None)),
}


@pytest.mark.parametrize("make", CYCLES.values(), ids=CYCLES.keys())
def test_a_pipeline_that_calls_its_owner_is_freed_with_it(make):
    alive = []
    for _ in range(3):
        owner = Owner()
        owner.made = make(owner)
        alive.append(weakref.ref(owner))
        del owner
    assert all(collected(one) for one in alive)
    assert becomes_true(lambda: library_threads() == [])


@pytest.mark.parametrize("make", CYCLES.values(), ids=CYCLES.keys())
def test_what_a_pipeline_calls_lives_as_long_as_any_of_its_handles(make):
    owner = Owner()
    alive = weakref.ref(owner)
    made = make(owner)
    owner.made = made
    del owner
    gc.collect()
    assert alive() is not None
    del made
    assert collected(alive)


STEPS = {
    "map": lambda o, ds: ds.map(o.augment),
    "parallel map": lambda o, ds: ds.map(o.augment, num_parallel_calls=2),
    "filter": lambda o, ds: ds.filter(o.keep),
    "flat_map": lambda o, ds: ds.flat_map(lambda x: tdi.Dataset.from_tensors(x).map(o.augment)),
    "prefetch": lambda o, ds: ds.prefetch(2),
    "generator": lambda o, ds: ds.concatenate(generator(o)),
    "repeat": lambda o, ds: ds.repeat(2),
    "batch": lambda o, ds: ds.batch(2).unbatch(),
}


@given(steps=strategies.lists(strategies.sampled_from(sorted(STEPS)), min_size=1, max_size=5), data=strategies.data())
def test_any_handle_keeps_any_pipeline_whole_and_none_keeps_it_alive(steps, data):
    owner = Owner()
    alive = weakref.ref(owner)
    handles = [tdi.Dataset.range(6)]
    for step in steps:
        handles.append(STEPS[step](owner, handles[-1]))
    expected = [row.item() for row in handles[-1]]
    iterator = iter(handles[-1])
    seen = [next(iterator).item() for _ in range(data.draw(strategies.integers(0, len(expected))))]
    # Everything is garbage except the handle that is drawn.
    owner.handles = [*handles, iterator]
    kept = data.draw(strategies.sampled_from([handles[-1], iterator]))
    del owner, handles, iterator
    gc.collect()
    rows = [row.item() for row in kept]
    assert (rows if isinstance(kept, tdi.Dataset) else seen + rows) == expected
    del kept
    assert collected(alive)


def test_one_of_several_handles_keeps_the_callable_for_all():
    class Cycle:
        pass

    owner, cycle = Owner(), Cycle()
    mapped = tdi.Dataset.range(4).map(owner.augment, **SCALARS)
    # The other handles are garbage by themselves, in a cycle of their own.
    cycle.itself, cycle.handles = cycle, [mapped, mapped.batch(2), mirrored(mapped.batch(2)), iter(mapped)]
    kept = mirrored(mapped.batch(2))
    del cycle, mapped, owner
    gc.collect()
    assert [step.values[1].tolist() for step in kept] == [[1], [3]]

    iterator = iter(kept)
    del kept
    gc.collect()
    assert [step.values[0].tolist() for step in iterator] == [[0], [2]]


def test_a_dataset_that_a_function_returned_can_be_read_when_its_own_handles_are_garbage():
    class Part:
        def __init__(self, x):
            self.x = x
            self.dataset = tdi.Dataset.range(3).map(self.add)

        def add(self, y):
            return self.x * 10 + y

    def parts(dataset):
        seen = []
        for row in dataset:
            gc.collect()
            seen.append(row.item())
        return seen

    rows = tdi.Dataset.range(3)
    expected = [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert parts(rows.flat_map(lambda x: Part(x).dataset)) == expected
    assert parts(rows.map(lambda x: Part(x).dataset).flat_map(lambda dataset: dataset)) == expected
    assert sorted(parts(rows.interleave(lambda x: Part(x).dataset, num_parallel_calls=2))) == expected
    stored = tdi.Dataset.from_tensors(Part(1).dataset)
    gc.collect()
    assert [row.item() for row in next(iter(stored))] == [10, 11, 12]


def test_a_dataset_that_is_distributed_by_a_function_needs_no_handle_of_its_own():
    class Part:
        def __init__(self):
            self.dataset = tdi.Dataset.range(4).map(collect).map(self.same).batch(2)

        def same(self, x):
            return x

    def collect(x):
        gc.collect()
        return x

    strategy = tdi.MirroredStrategy(["cpu"])
    dataset = strategy.distribute_datasets_from_function(lambda context: Part().dataset)
    gc.collect()
    assert [step.tolist() for step in dataset] == [[0, 1], [2, 3]]


def test_collecting_while_threads_call_loses_nothing():
    owner = Owner()
    stop = threading.Event()

    def collect():
        while not stop.is_set():
            gc.collect()

    collector = threading.Thread(target=collect)
    collector.start()
    try:
        dataset = (
            tdi.Dataset.range(2000)
            .map(owner.augment, num_parallel_calls=3)
            .flat_map(lambda x: tdi.Dataset.range(1).map(lambda y: owner.augment(x)))
        )
        assert [row.item() for row in dataset] == list(range(2000))
    finally:
        stop.set()
        collector.join()


def test_a_finalizer_may_still_read_a_pipeline_that_is_about_to_be_freed():
    class Reader(Owner):
        def __init__(self):
            self.dataset = tdi.Dataset.range(3).map(self.augment)
            self.iterator = in_mid_epoch(self.dataset)

        def __del__(self):
            seen.append([row.item() for row in self.iterator] + [row.item() for row in self.dataset])

    seen = []
    reader = Reader()
    del reader
    gc.collect()
    assert seen == [[1, 2, 0, 1, 2]]
