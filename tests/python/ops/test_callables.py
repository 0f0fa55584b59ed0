# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Functions of the user: arguments, results, exceptions, threads and the GIL; those that return datasets."""

import collections
import sys
import threading
import traceback

import pipelines
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput import _C

Pair = collections.namedtuple("Pair", "left right")


def test_a_tuple_is_passed_as_several_arguments():
    rows = tdi.Dataset.from_tensor_slices(([1, 2], {"y": [3, 4]}))
    assert [x.item() for x in rows.map(lambda x, d: x + d["y"])] == [4, 6]
    assert [x.item() for x, _ in rows.filter(lambda x, d: x > 1)] == [2]


@pytest.mark.parametrize("element", [{"x": [1, 2]}, Pair([1, 2], [3, 4])], ids=["dict", "named tuple"])
def test_other_structures_are_passed_as_one_argument(element):
    received = []
    list(tdi.Dataset.from_tensor_slices(element).map(lambda *args: received.append(args) or torch.zeros(())))
    assert [len(args) for args in received] == [1, 1]
    assert {type(args[0]) for args in received} == {type(element)}


def test_a_list_result_is_one_tensor():
    first, _ = tdi.Dataset.range(2).map(lambda x: [x, x + 1])
    assert first.tolist() == [0, 1]


def test_a_declared_spec_says_where_lists_are_leaves():
    spec = {"x": tdi.TensorSpec((2,), torch.int64)}
    (result,) = tdi.Dataset.range(1).map(lambda x: {"x": [1, 2]}, element_spec=spec)
    assert result["x"].tolist() == [1, 2]


class Failure(Exception):
    pass


def fail(x):
    raise Failure(f"row {x.item()}")


@pytest.mark.parametrize("parallel", [None, 2])
@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("op", ["map", "filter"])
def test_an_exception_arrives_as_it_was_raised(op, prefetch, parallel):
    source = tdi.Dataset.range(3)
    dataset = source.map(fail, num_parallel_calls=parallel) if op == "map" else source.filter(fail)
    if prefetch:
        dataset = dataset.prefetch(2)
    with pytest.raises(Failure, match="row 0") as caught:
        list(dataset)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "fail"
    if sys.version_info >= (3, 11):
        assert caught.value.__notes__ == [f"raised by {op}(fail): element 0"]


def fail_at_5(x, *_):
    if x.min() <= 5 <= x.max():
        raise Failure("no good")
    return x


def as_dataset(x):
    return tdi.Dataset.from_tensors(fail_at_5(x))


ROWS = tdi.Dataset.range(9)
BUCKETS = {"bucket_boundaries": [3], "bucket_batch_sizes": [2, 2]}
FAILING = {
    "map": (ROWS.map(fail_at_5), "map(fail_at_5): element 5"),
    "map of pairs": (tdi.Dataset.zip((ROWS, ROWS)).map(fail_at_5), "map(fail_at_5): element 5"),
    "parallel map": (ROWS.map(fail_at_5, num_parallel_calls=2), "map(fail_at_5): element 5"),
    "map in a batch": (ROWS.map(fail_at_5).batch(8), "map(fail_at_5): element 5"),
    "map of batches": (ROWS.batch(2).map(fail_at_5), "map(fail_at_5): element 2"),
    "map after a shuffle": (ROWS.map(fail_at_5).shuffle(seed=1).batch(3), "map(fail_at_5): element 5"),
    "map after skip": (ROWS.skip(3).map(fail_at_5), "map(fail_at_5): element 2"),
    "map after a filter": (ROWS.filter(lambda x: x > 2).map(fail_at_5), "map(fail_at_5): element 2"),
    "second map": (ROWS.map(lambda x: x).map(fail_at_5).batch(4), "map(fail_at_5): element 5"),
    "filter": (ROWS.filter(lambda x: fail_at_5(x) >= 0), "filter(<lambda>): element 5"),
    "flat_map": (ROWS.flat_map(as_dataset), "flat_map(as_dataset): element 5"),
    "interleave": (ROWS.interleave(as_dataset, cycle_length=2), "interleave(as_dataset): element 5"),
    "parallel interleave": (
        ROWS.interleave(as_dataset, cycle_length=2, num_parallel_calls=2),
        "interleave(as_dataset): element 5",
    ),
    "bucket_by_length": (ROWS.bucket_by_length(fail_at_5, **BUCKETS), "bucket_by_length(fail_at_5): element 5"),
    "generator": (
        tdi.Dataset.from_generator(lambda: map(fail_at_5, torch.arange(9)), None),
        "from_generator(<lambda>): element 5",
    ),
}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
@pytest.mark.parametrize("stream_only", [False, True], ids=["plan", "stream"])
@pytest.mark.parametrize("case", FAILING)
def test_an_exception_says_at_which_element_it_was_raised(case, stream_only):
    dataset, where = FAILING[case]
    with pytest.raises(Failure, match="no good") as caught:
        list(dataset._native.iterate(stream_only=stream_only))
    assert caught.value.__notes__ == [f"raised by {where}"]


def unless_5(value, other):
    return lambda x: value if x == 5 else other


ONE = torch.ones(1)
BAD_RESULTS = {
    "map, no leaf": (ROWS.map(unless_5(ONE.to("meta"), ONE)), TypeError, "map(<lambda>): element 5: the value is a "),
    "map, keys": (ROWS.map(unless_5({1: 2}, ONE)), TypeError, "map(<lambda>): element 5: keys of a dict must be str"),
    "map, text": (ROWS.map(unless_5({"a": "\ud800"}, {"a": ""})), ValueError, "map(<lambda>): element 5: leaf ['a'] "),
    "map, structure": (ROWS.map(unless_5((ONE, ONE), ONE)), ValueError, "map(<lambda>): element 5: "),
    "map, in a batch": (ROWS.map(unless_5(ONE.to("meta"), ONE)).batch(8), TypeError, "map(<lambda>): element 5: "),
    "filter": (ROWS.filter(unless_5(7, True)), TypeError, "filter(<lambda>): element 5: the predicate must return"),
    "flat_map": (
        ROWS.flat_map(unless_5(7, ROWS.take(0))),
        TypeError,
        "flat_map(<lambda>): element 5: the function must return a Dataset",
    ),
    "bucket_by_length": (
        ROWS.bucket_by_length(unless_5(1.5, 2), **BUCKETS),
        TypeError,
        "bucket_by_length(<lambda>): element 5: ",
    ),
    "generator": (
        tdi.Dataset.from_generator(lambda: map(unless_5(ONE.to("meta"), ONE), range(9)), None),
        TypeError,
        "from_generator(<lambda>): element 5: the value is a tensor on meta",
    ),
    "from_torch": (
        tdi.Dataset.from_torch([unless_5(ONE.to("meta"), ONE)(i) for i in range(9)]).batch(4),
        TypeError,
        "from_rows(list): row 5: the value is a tensor on meta",
    ),
}


@pytest.mark.parametrize("stream_only", [False, True], ids=["plan", "stream"])
@pytest.mark.parametrize("case", BAD_RESULTS)
def test_a_result_that_cannot_be_used_is_named_with_its_element(case, stream_only):
    dataset, kind, message = BAD_RESULTS[case]
    with pytest.raises(kind) as caught:
        list(dataset._native.iterate(stream_only=stream_only))
    assert str(caught.value).startswith(message)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
@pytest.mark.parametrize("case", ["map", "filter", "flat_map", "generator"])
def test_a_resumed_pipeline_counts_elements_from_the_begin_of_the_epoch(case):
    dataset, where = FAILING[case]
    iterator = iter(dataset)
    next(iterator), next(iterator)
    resumed = iter(dataset)
    resumed.load_state_dict(iterator.state_dict())
    with pytest.raises(Failure) as caught:
        list(resumed)
    assert caught.value.__notes__ == [f"raised by {where}"]


def test_an_exception_is_raised_again_with_the_same_traceback_and_one_note():
    iterator = iter(tdi.Dataset.range(3).map(fail))
    seen = []
    for _ in range(3):
        with pytest.raises(Failure) as caught:
            next(iterator)
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        seen.append((caught.value, names[1:], getattr(caught.value, "__notes__", [])[:]))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("op", ["map", "filter"])
def test_an_escaping_stop_iteration_is_an_error(op):
    def stop(x):
        raise StopIteration("too soon")

    with pytest.raises(RuntimeError, match=f"{op}: stop raised StopIteration") as caught:
        list(getattr(tdi.Dataset.range(3), op)(stop))
    assert isinstance(caught.value.__cause__, StopIteration)


def test_a_system_exit_is_not_skipped():
    def leave(x):
        raise SystemExit(3)

    dataset = tdi.Dataset.range(3).map(leave).with_options(tdi.Options(on_error="skip"))
    with pytest.raises(SystemExit):
        list(dataset)


def test_rows_that_fail_can_be_skipped():
    def odd_fails(x):
        return fail(x) if x.item() % 2 else x

    dataset = tdi.Dataset.range(6).map(odd_fails).with_options(tdi.Options(on_error="skip"))
    iterator = iter(dataset)
    assert [x.item() for x in iterator] == [0, 2, 4]
    assert iterator.stats()["skipped"] == 3


def test_a_first_row_that_fails_is_skipped_by_a_strategy_too():
    def even_fails(x):
        return x if x.item() % 2 else fail(x)

    dataset = tdi.Dataset.range(12).map(even_fails).batch(2).with_options(tdi.Options(on_error="skip"))
    iterator = iter(tdi.MirroredStrategy(["cpu:0", "cpu:1"]).distribute_dataset(dataset))
    assert [[part.tolist() for part in step.values] for step in iterator] == [[[1], [3]], [[5], [7]], [[9], [11]]]
    assert iterator.stats()["skipped"] == 6


def test_a_result_that_can_be_no_leaf_names_function_and_leaf():
    def name(x):
        return {"id": x, "big": 2**64}

    with pytest.raises(TypeError, match=r"map\(name\): element 0: leaf \['big'\] is an int beyond 64 bits"):
        next(iter(tdi.Dataset.range(1).map(name)))


@pytest.mark.parametrize("op", ["map", "filter"])
def test_what_cannot_be_called_is_refused_at_once(op):
    with pytest.raises(TypeError, match=f"{op}: a callable is needed, but got a int"):
        getattr(tdi.Dataset.range(1), op)(3)


def test_callables_without_a_name_have_that_of_their_class():
    class Double:
        def __call__(self, x):
            return 2 * x

    dataset = tdi.Dataset.range(3).map(Double())
    assert "map(Double)" in repr(dataset)
    assert [x.item() for x in dataset] == [0, 2, 4]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_the_gil_is_taken_once_for_each_batch(prefetch):
    rows, batch = 1000, 50
    calls = []
    dataset = tdi.Dataset.range(rows).map(lambda x: calls.append(x) or x).batch(batch).prefetch(prefetch)
    before = _C.testing.gil_turns()
    iterator = iter(dataset)
    for _ in range(rows // batch):
        next(iterator)
    assert len(calls) == rows
    # A long wait looks for signals, for which it takes the GIL once more.
    assert rows // batch <= _C.testing.gil_turns() - before < rows


def test_threads_of_the_library_keep_their_thread_locals():
    local, starts = threading.local(), []

    def count(x):
        if not hasattr(local, "seen"):  # noqa: F821 - deleted below
            local.seen = 0  # noqa: F821
            starts.append(threading.get_ident())
        local.seen += 1  # noqa: F821
        return x

    list(tdi.Dataset.range(40).map(count).batch(2).prefetch(2))
    assert len(starts) == len(set(starts)) <= 2
    del local


@pytest.mark.parametrize("stream", [False, True])
def test_parallel_calls_run_side_by_side(stream):
    together = threading.Barrier(3, timeout=20)

    def meet(x):
        # The first element may be made alone, to measure its cost.
        if x.item() > 0:
            together.wait()
        return x

    source = tdi.Dataset.range(7)
    source = source.filter(lambda x: True) if stream else source
    assert [x.item() for x in source.map(meet, num_parallel_calls=3)] == list(range(7))


def test_a_callable_may_use_another_dataset():
    inner = tdi.Dataset.range(4).map(lambda x: x + 1).batch(2)
    dataset = tdi.Dataset.range(3).map(lambda x: x * sum(batch.sum() for batch in inner)).prefetch(1)
    assert [x.item() for x in dataset] == [0, 10, 20]


def test_an_iterator_serves_one_thread_at_a_time():
    iterator = None
    dataset = tdi.Dataset.range(3).map(lambda x: next(iterator))
    iterator = iter(dataset)
    with pytest.raises(RuntimeError, match="another thread is using this iterator"):
        next(iterator)


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
