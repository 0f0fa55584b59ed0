# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""from_generator: a new run for each iterator, checks of the elements, and the end."""

import gc

import pytest
import torch

import torch_distinput as tdi

SCALAR = tdi.TensorSpec((), torch.int64)


def test_each_iterator_runs_the_function_anew():
    runs = []

    def count():
        runs.append(len(runs))
        yield from range(3)

    dataset = tdi.Dataset.from_generator(count, SCALAR)
    assert runs == []
    first, second = iter(dataset), iter(dataset)
    assert [next(first).item(), next(second).item(), next(first).item()] == [0, 0, 1]
    assert len(runs) == 2


def test_arguments_are_passed_on():
    dataset = tdi.Dataset.from_generator(range, SCALAR, args=(2, 8, 3))
    assert [x.item() for x in dataset] == [2, 5]


def test_an_end_stays_the_end():
    iterator = iter(tdi.Dataset.from_generator(lambda: iter([1]), SCALAR))
    next(iterator)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)


def test_a_wrong_element_is_named_with_its_leaf_and_both_types():
    def rows():
        yield {"x": torch.zeros(2), "y": 1}
        yield {"x": torch.zeros(3), "y": 1}

    spec = {"x": tdi.TensorSpec((2,), torch.float32), "y": SCALAR}
    iterator = iter(tdi.Dataset.from_generator(rows, spec))
    next(iterator)
    with pytest.raises(ValueError) as caught:
        next(iterator)
    for word in ("element 1", "['x']", "expected TensorSpec(shape=(2,)", "got TensorSpec(shape=(3,)"):
        assert word in str(caught.value)


def test_a_wrong_structure_is_named():
    dataset = tdi.Dataset.from_generator(lambda: iter([(1, 2)]), SCALAR)
    with pytest.raises(ValueError, match=r"element 0: expected the structure \*, got \(\*, \*\)"):
        next(iter(dataset))


def test_without_a_spec_the_first_element_tells():
    dataset = tdi.Dataset.from_generator(lambda: iter([{"x": 1.5}, {"x": 2.5}]), None)
    assert dataset.element_spec == {"x": tdi.TensorSpec((), torch.float32)}
    assert len(list(dataset)) == 2


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_generator_that_is_left_midway_is_closed(prefetch):
    events = []

    def rows():
        try:
            yield from range(1000)
        finally:
            events.append("closed")

    dataset = tdi.Dataset.from_generator(rows, SCALAR)
    for x in dataset.prefetch(prefetch) if prefetch else dataset:
        if x.item() == 3:
            break
    assert events == ["closed"]


def test_close_closes_the_generator():
    events = []

    def rows():
        try:
            yield from range(10)
        finally:
            events.append("closed")

    iterator = iter(tdi.Dataset.from_generator(rows, SCALAR))
    next(iterator)
    iterator.close()
    assert events == ["closed"]
    with pytest.raises(tdi.FailedPreconditionError, match="closed"):
        next(iterator)
    iterator.close()


def test_an_error_while_closing_is_reported_and_harmless(monkeypatch):
    reported = []
    monkeypatch.setattr("sys.unraisablehook", lambda details: reported.append(details.exc_value))

    def rows():
        try:
            yield from range(10)
        finally:
            raise OSError("disk gone")

    iterator = iter(tdi.Dataset.from_generator(rows, SCALAR))
    next(iterator)
    del iterator
    gc.collect()
    assert [str(error) for error in reported] == ["disk gone"]


def test_an_exception_in_a_generator_arrives_and_stays():
    def rows():
        yield 1
        raise LookupError("row 1 is gone")

    iterator = iter(tdi.Dataset.from_generator(rows, SCALAR))
    next(iterator)
    for _ in range(2):
        with pytest.raises(LookupError, match="row 1 is gone"):
            next(iterator)


def test_a_function_that_fails_to_open():
    def broken():
        raise PermissionError("no access")

    with pytest.raises(PermissionError, match="no access"):
        next(iter(tdi.Dataset.from_generator(broken, SCALAR)))
    with pytest.raises(TypeError, match="not iterable"):
        next(iter(tdi.Dataset.from_generator(lambda: 3, SCALAR)))


def test_resuming_runs_the_generator_up_to_the_saved_position():
    dataset = tdi.Dataset.from_generator(lambda: iter(range(5)), SCALAR)
    iterator = iter(dataset)
    next(iterator), next(iterator)
    resumed = iter(dataset)
    resumed.load_state_dict(iterator.state_dict())
    assert [x.item() for x in resumed] == [2, 3, 4]


def test_the_laws_hold():
    tdi.testing.assert_resumable(tdi.Dataset.from_generator(lambda: iter(range(7)), SCALAR).batch(2))
