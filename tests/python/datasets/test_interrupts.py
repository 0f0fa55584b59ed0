# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in a function that runs in the consumer's thread ends one call: no row is lost, the next call continues."""

import signal

import numpy as np
import pytest
import torch
from torch_datasets import Made

import torch_distinput as tdi

SCALAR = tdi.TensorSpec((), torch.int64)
INLINE = tdi.InputOptions(per_replica_buffer_size=0)


class Function:
    """Returns its argument. In call number `struck` Ctrl-C arrives, between two instructions of the interpreter."""

    def __init__(self, struck):
        self.struck = struck
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.struck:
            signal.raise_signal(signal.SIGINT)
        return x

    def rows(self):
        for row in range(12):
            yield self(row)


def mirrored(dataset):
    return tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(dataset, INLINE)


PIPELINES = {
    "map": lambda f: tdi.Dataset.range(12).map(f),
    "map of batches": lambda f: tdi.Dataset.range(12).batch(3).map(f),
    "batch of a map": lambda f: tdi.Dataset.range(12).map(f).batch(3),
    "filter": lambda f: tdi.Dataset.range(12).filter(lambda x: f(x) is not None),
    "generator": lambda f: tdi.Dataset.from_generator(f.rows, SCALAR),
    "batched generator": lambda f: tdi.Dataset.from_generator(f.rows, SCALAR).batch(5),
    "rows": lambda f: tdi.Dataset.from_torch(Made(12, f)).shuffle(seed=1),
    "flat_map": lambda f: tdi.Dataset.range(3).flat_map(lambda x: tdi.Dataset.range(4).map(f)),
    "mirrored": lambda f: mirrored(tdi.Dataset.range(12).map(f, element_spec=SCALAR).batch(4)),
    "mirrored generator": lambda f: mirrored(tdi.Dataset.from_generator(f.rows, SCALAR).batch(4)),
}


def plain(element):
    parts = element.values if isinstance(element, tdi.PerReplica) else (element,)
    return [part.tolist() for part in parts]


def read(iterator):
    """The elements that the iterator yields, and how often it raised KeyboardInterrupt."""
    seen, interrupts = [], 0
    while interrupts < 3:
        try:
            seen.append(plain(next(iterator)))
        except KeyboardInterrupt:
            interrupts += 1
        except StopIteration:
            break
    return seen, interrupts


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES.keys())
@pytest.mark.parametrize("struck", [1, 2, 4])
def test_ctrl_c_in_a_function_is_raised_once_and_loses_no_row(make, struck):
    expected, _ = read(iter(make(Function(struck=0))))
    assert read(iter(make(Function(struck)))) == (expected, 1)


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES.keys())
def test_after_ctrl_c_the_saved_position_is_before_the_row(make):
    expected, _ = read(iter(make(Function(struck=0))))
    dataset = make(Function(struck=4))
    iterator, seen = iter(dataset), []
    with pytest.raises(KeyboardInterrupt):
        for element in iterator:
            seen.append(plain(element))
    resumed = iter(make(Function(struck=0)))
    resumed.load_state_dict(iterator.state_dict())
    assert seen + read(resumed)[0] == expected


def test_ctrl_c_that_a_nested_loop_catches_is_no_interrupt_of_the_outer_one():
    def nested(x):
        with pytest.raises(KeyboardInterrupt):
            list(tdi.Dataset.range(3).map(Function(struck=2)))
        return x

    assert read(iter(tdi.Dataset.range(3).map(nested))) == ([[0], [1], [2]], 0)


def test_an_interrupt_ends_the_opening_of_many_files(tmp_path):
    class Alarm(BaseException):
        pass

    def ring(*_):
        raise Alarm

    np.save(tmp_path / "rows.npy", np.arange(2))
    names = [tmp_path / f"{number}.npy" for number in range(5000)]
    for name in names:
        name.symlink_to("rows.npy")
    dataset = tdi.NumpyDataset([*(10 * names), tmp_path / "missing.npy"])  # takes many times as long as the alarm
    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(Alarm) as caught:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            next(iter(dataset))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert caught.value.__context__ is None  # it was not raised after the error of the last file
