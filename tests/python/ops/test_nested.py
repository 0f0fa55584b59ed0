# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Elements that hold datasets: flat_map, interleave, window."""

import threading

import pipelines
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_distinput as tdi


def integers(dataset: tdi.Dataset) -> list[int]:
    return [int(x) for x in dataset]


def turns(lists: list[list[int]], cycle: int, block: int) -> list[int]:
    """tf.data's interleave of lists, step by step."""
    waiting, slots, result = iter(lists), [None] * cycle, []
    ended, at, taken = False, 0, 0
    while not ended or any(slot is not None for slot in slots):
        if slots[at] is None and not ended:
            following = next(waiting, None)
            ended, slots[at] = following is None, None if following is None else list(following)
            continue
        if slots[at]:
            result.append(slots[at].pop(0))
            taken += 1
            if taken < block:
                continue
        else:
            slots[at] = None
        at, taken = (at + 1) % cycle, 0
    return result


def of_lengths(lengths: list[int]) -> tdi.Dataset:
    """Element i is a pair (i, length)."""
    return tdi.Dataset.from_tensor_slices((torch.arange(len(lengths)), torch.tensor(lengths, dtype=torch.int64)))


def run(i, length) -> tdi.Dataset:
    return tdi.Dataset.range(100 * int(i), 100 * int(i) + int(length))


LENGTHS = st.lists(st.integers(0, 5), max_size=7)


@given(LENGTHS, st.integers(1, 4), st.integers(1, 3), st.sampled_from([None, 1, 2, -1]))
def test_interleave_follows_the_reference(lengths, cycle, block, calls):
    lists = [list(range(100 * i, 100 * i + n)) for i, n in enumerate(lengths)]
    dataset = of_lengths(lengths).interleave(run, cycle, block, num_parallel_calls=calls)
    assert integers(dataset) == turns(lists, cycle, block)
    if cycle == 1:
        assert integers(of_lengths(lengths).flat_map(run)) == turns(lists, 1, 1)


@given(LENGTHS, st.integers(1, 4), st.integers(1, 3))
def test_without_determinism_the_elements_are_the_same(lengths, cycle, block):
    dataset = of_lengths(lengths).interleave(run, cycle, block, num_parallel_calls=2, deterministic=False)
    assert sorted(integers(dataset)) == [100 * i + k for i, n in enumerate(lengths) for k in range(n)]


@given(LENGTHS, st.integers(1, 3), st.sampled_from([None, 2]))
def test_every_position_can_be_resumed(lengths, cycle, calls):
    tdi.testing.assert_resumable(of_lengths(lengths).interleave(run, cycle, 2, num_parallel_calls=calls))
    tdi.testing.assert_resumable(of_lengths(lengths).flat_map(run).batch(2))
    unordered = of_lengths(lengths).interleave(run, cycle, 2, num_parallel_calls=2, deterministic=False)
    tdi.testing.assert_resumable(unordered, ordered=False)


@given(st.integers(0, 9), st.integers(1, 5))
def test_a_flattened_window_is_a_batch(rows, size):
    dataset = pipelines.slices(rows)
    windows = dataset.window(size).flat_map(
        lambda window: tdi.Dataset.zip({"id": window["id"].batch(size), "x": window["x"].batch(size)})
    )
    assert pipelines.elements(windows) == pipelines.elements(dataset.batch(size))
    assert windows.cardinality() == tdi.UNKNOWN
    assert dataset.window(size).cardinality() == dataset.batch(size).cardinality()


def test_an_element_holds_a_dataset_like_any_other():
    first, last = tdi.Dataset.range(5).window(3)
    assert isinstance(first, tdi.Dataset)
    assert integers(first) == integers(first) == [0, 1, 2]
    (batch,) = last.batch(2)
    assert batch.tolist() == [3, 4]
    assert tdi.Dataset.range(5).window(3).element_spec == tdi.DatasetSpec(tdi.TensorSpec((), torch.int64))


def test_map_may_return_datasets():
    nested = tdi.Dataset.range(3).map(lambda x: {"x": x, "rows": tdi.Dataset.range(int(x))})
    assert [integers(element["rows"]) for element in nested] == [[], [0], [0, 1]]
    assert nested.element_spec["rows"] == tdi.DatasetSpec()
    assert integers(nested.flat_map(lambda element: element["rows"])) == [0, 0, 1]


def test_a_dataset_cannot_be_batched():
    with pytest.raises(TypeError, match="batch: the element is a dataset leaf"):
        list(tdi.Dataset.range(4).window(2).batch(2))


@pytest.mark.parametrize("op", ["flat_map", "interleave"])
def test_a_function_must_return_a_dataset(op):
    def wrong(x):
        return x + 1

    with pytest.raises(TypeError, match=rf"{op}\(wrong\): element 0: the function must return a Dataset, but"):
        list(getattr(tdi.Dataset.range(3), op)(wrong))


@pytest.mark.parametrize("op", ["flat_map", "interleave"])
def test_all_datasets_must_have_one_type(op):
    def changing(x):
        return tdi.Dataset.from_tensors(torch.zeros(()) if x == 1 else torch.zeros((), dtype=torch.int8))

    with pytest.raises(ValueError, match=rf"{op}\(changing\): the dataset of element 1: element 0: .*int8.*float32"):
        list(getattr(tdi.Dataset.range(3), op)(changing))


@pytest.mark.parametrize("calls", [None, 2])
def test_an_exception_keeps_its_type_and_place(calls):
    def fails(x):
        if x == 2:
            raise KeyError("two")
        return tdi.Dataset.range(2)

    iterator = iter(tdi.Dataset.range(4).interleave(fails, cycle_length=1, num_parallel_calls=calls))
    assert [int(next(iterator)) for _ in range(4)] == [0, 1, 0, 1]
    for _ in range(2):
        with pytest.raises(KeyError, match="two"):
            next(iterator)
    skipping = tdi.Dataset.range(4).interleave(fails, 1, num_parallel_calls=calls)
    skipping = iter(skipping.with_options(tdi.Options(on_error="skip")))
    assert [int(x) for x in skipping] == [0, 1] * 3
    assert skipping.stats()["skipped"] == 1


def test_parallel_calls_run_on_other_threads():
    seen = set()

    def remember(x):
        seen.add(threading.get_ident())
        return tdi.Dataset.range(3)

    list(tdi.Dataset.range(4).interleave(remember, num_parallel_calls=2))
    assert threading.get_ident() not in seen


def test_generators_may_be_interleaved():
    def generate(x):
        spec = tdi.TensorSpec((), torch.int64)
        return tdi.Dataset.from_generator(lambda n: iter(range(n)), spec, args=(int(x),))

    dataset = tdi.Dataset.range(4).interleave(generate, cycle_length=2, num_parallel_calls=2)
    assert integers(dataset) == turns([list(range(n)) for n in range(4)], 2, 1)
    tdi.testing.assert_resumable(dataset)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"cycle_length": 0}, "interleave: `cycle_length` must be at least 1, but is 0"),
        ({"block_length": -1}, "interleave: `block_length` must be at least 1, but is -1"),
        ({"num_parallel_calls": 0}, "interleave: `num_parallel_calls` must be at least 1, or -1"),
    ],
)
def test_wrong_arguments_of_interleave(arguments, message):
    with pytest.raises(ValueError, match=message):
        tdi.Dataset.range(3).interleave(run, **arguments)


def test_wrong_arguments_of_the_others():
    with pytest.raises(ValueError, match="window: `size` must be at least 1, but is 0"):
        tdi.Dataset.range(3).window(0)
    with pytest.raises(TypeError, match="flat_map: a callable is needed"):
        tdi.Dataset.range(3).flat_map(3)


def test_explain_has_a_line_for_each():
    text = tdi.Dataset.range(6).window(2).flat_map(lambda window: window.batch(2)).explain()
    assert "window(size=2)" in text and "flat_map(<lambda>)" in text
