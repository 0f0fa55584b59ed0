# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Data, functions, saved states and steps that are wrong: the natural exception type, and a text that names what is."""

import copy

import pytest
import torch
from refusals import RANGE, mirrored, refused

import torch_distinput as tdi


def test_rows_of_different_shapes_in_a_batch():
    dataset = RANGE.map(lambda x: torch.zeros(2 if int(x) != 4 else 3)).batch(3)
    with refused(ValueError, "batch", "(2,)", "(3,)", "element 1"):
        list(dataset)


def test_leaves_of_different_lengths_into_unbatch():
    dataset = RANGE.map(lambda x: (torch.zeros(2), torch.zeros(3))).unbatch()
    with refused(ValueError, "unbatch", "2", "3"):
        list(dataset)


def test_scalars_into_unbatch():
    with refused(ValueError, "unbatch", "scalar"):
        list(RANGE.unbatch())


def test_scalars_cannot_be_assigned():
    with refused(ValueError, "distribute_dataset", "no rows", "Call `batch`"):
        mirrored().distribute_dataset(RANGE)
    with refused(ValueError, "distribute_dataset", "'y'", "Call `batch`"):
        mirrored().distribute_dataset(tdi.Dataset.from_tensor_slices({"x": torch.zeros(4, 2), "y": torch.zeros(4)}))


def test_scalars_of_unknown_rank_cannot_be_assigned_either():
    distributed = mirrored().distribute_dataset(RANGE.map(lambda x: x, element_spec=tdi.TensorSpec(None, torch.int64)))
    with refused(ValueError, "distribute_dataset", "element 0", "Call `batch`"):
        next(iter(distributed))


CHANGES = {
    "structure": (lambda x: {"a": x} if int(x) < 2 else {"b": x}, ["'a'", "'b'"]),
    "leaf count": (lambda x: (x, x) if int(x) < 2 else (x,), []),
    "dtype": (lambda x: x if int(x) < 2 else x.float(), ["int64", "float32"]),
}


@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("path", ["plan", "stream"])
def test_a_structure_or_dtype_that_changes_between_elements_of_a_map(change, path):
    fn, words = CHANGES[change]
    dataset = RANGE.filter(lambda x: x >= 0).map(fn) if path == "stream" else RANGE.map(fn)
    with refused(ValueError, "map", "2", *words):
        list(dataset)


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_a_structure_or_dtype_that_changes_between_elements_of_a_generator(change):
    fn, words = CHANGES[change]

    def rows():
        for index in range(4):
            yield fn(torch.tensor(index))

    with refused(ValueError, "from_generator", "2", *words):
        list(tdi.Dataset.from_generator(rows, None))


def test_a_map_that_does_not_return_what_its_element_spec_declares():
    dataset = RANGE.map(lambda x: x.float(), element_spec=tdi.TensorSpec([], torch.int64))
    with refused(ValueError, "map", "float32", "int64"):
        list(dataset)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (tdi.TensorSpec([], torch.float32), ["float32", "int64"]),
        (tdi.TensorSpec([3], torch.int64), ["(3,)", "(2,)"]),
        ({"x": tdi.TensorSpec([2], torch.int64)}, ["'x'"]),
    ],
)
def test_a_generator_that_does_not_yield_its_spec(spec, words):
    dataset = tdi.Dataset.from_generator(lambda: iter([torch.zeros(2, dtype=torch.int64)]), spec)
    with refused(ValueError, "from_generator", *words):
        list(dataset)


def test_a_predicate_that_is_no_bool():
    with refused((TypeError, ValueError), "filter", "bool"):
        list(RANGE.filter(lambda x: x + 1))


def test_an_error_in_a_callable_keeps_its_type_and_repeats():
    def fail(x):
        if int(x) == 3:
            raise KeyError("row three")
        return x

    for dataset in (RANGE.map(fail).batch(2), RANGE.filter(lambda x: x >= 0).map(fail).batch(2)):
        iterator = iter(dataset)
        assert next(iterator).tolist() == [0, 1]
        for _ in range(2):
            with pytest.raises(KeyError, match="row three") as caught:
                next(iterator)
            assert any("map" in note for note in getattr(caught.value, "__notes__", ["map"]))


def test_a_stop_iteration_that_escapes_a_callable_does_not_end_the_data():
    def stop(x):
        raise StopIteration

    for dataset in (RANGE.map(stop), RANGE.filter(stop)):
        with refused(RuntimeError, "StopIteration"):
            list(dataset)


def test_more_skipped_rows_than_allowed():
    def fail(x):
        if int(x) % 2:
            raise ArithmeticError("odd")
        return x

    dataset = RANGE.map(fail)
    assert [int(x) for x in dataset.with_options(tdi.Options(on_error="skip"))] == [0, 2, 4]
    with refused(ValueError, "max_count=2", "3 rows", "odd"):
        list(dataset.with_options(tdi.Options(on_error=tdi.Skip(max_count=2))))


@pytest.mark.parametrize("calls", [None, 2])
def test_skipping_up_to_a_fraction_does_not_let_an_epoch_vanish(calls):
    def failed(x):
        raise KeyError(int(x))

    dataset = tdi.Dataset.range(50).map(failed, num_parallel_calls=calls)
    for flawed in (dataset, tdi.Dataset.range(50).filter(failed)):
        with refused(ValueError, "max_fraction=0.01", "50 of 50 rows"):
            list(flawed.with_options(tdi.Options(on_error=tdi.Skip(max_fraction=0.01))))


def state_of(dataset, steps=1):
    iterator = iter(dataset)
    for _ in range(steps):
        next(iterator)
    return iterator.state_dict()


def test_the_state_of_another_pipeline():
    state = state_of(tdi.Dataset.range(10).shuffle(seed=1).batch(2))
    for other in (tdi.Dataset.range(10).batch(2), tdi.Dataset.range(11).shuffle(seed=1).batch(2)):
        with refused(ValueError, "state", "pipeline"):
            iter(other).load_state_dict(state)


@pytest.mark.parametrize("state", [{}, {"epoch": 1}, [], None, 3, "text", {"position": object()}])
def test_a_state_of_another_class(state):
    for iterator in (iter(RANGE), iter(mirrored().distribute_dataset(RANGE.batch(2)))):
        with pytest.raises((TypeError, ValueError), match="state|saved position"):
            iterator.load_state_dict(state)


def test_the_state_of_another_kind_of_iterator():
    dataset = RANGE.batch(2)
    distributed = mirrored().distribute_dataset(dataset)
    with refused(ValueError, "state"):
        iter(dataset).load_state_dict(state_of(distributed))
    with refused(ValueError, "state"):
        iter(distributed).load_state_dict(state_of(dataset))


def test_a_state_of_a_newer_version():
    for dataset in (RANGE, mirrored().distribute_dataset(RANGE.batch(2))):
        state = copy.deepcopy(state_of(dataset))
        assert isinstance(state["version"], int)
        state["version"] += 1
        with refused(ValueError, "version", str(state["version"])):
            iter(dataset).load_state_dict(state)


def test_a_refused_state_leaves_the_iterator_where_it_was():
    iterator = iter(tdi.Dataset.range(4))
    next(iterator)
    with pytest.raises(ValueError):
        iterator.load_state_dict(state_of(tdi.Dataset.range(5)))
    assert int(next(iterator)) == 1


def test_get_value_of_an_empty_optional():
    iterator = iter(mirrored().distribute_dataset(tdi.Dataset.range(0).batch(2)))
    step = iterator.get_next_as_optional()
    assert not step.has_value()
    with refused(tdi.InvalidArgumentError, "get_value", "does not have a value"):
        step.get_value()


def test_get_next_past_the_end():
    iterator = iter(mirrored().distribute_dataset(tdi.Dataset.range(0).batch(2)))
    for _ in range(2):
        with pytest.raises(tdi.OutOfRangeError):
            iterator.get_next()


def test_step_info_before_the_first_step():
    with refused(tdi.FailedPreconditionError, "step_info"):
        iter(mirrored().distribute_dataset(RANGE.batch(2))).step_info  # noqa: B018


def test_next_after_close():
    for iterator in (iter(RANGE), iter(mirrored().distribute_dataset(RANGE.batch(2)))):
        iterator.close()
        with refused(tdi.FailedPreconditionError, "close"):
            next(iterator)


def test_a_dataset_without_rows_is_no_error():
    empty = tdi.Dataset.from_tensor_slices({"x": torch.zeros(0, 2)})
    for dataset in (empty, empty.batch(2), empty.map(lambda e: e["x"] + 1).batch(2), empty.shuffle(seed=1).repeat(2)):
        assert list(dataset) == []
        assert len(dataset) == 0
    assert list(mirrored().distribute_dataset(empty.batch(2))) == []


def test_a_full_shuffle_of_unknown_length():
    with refused(ValueError, "shuffle", "buffer_size"):
        list(RANGE.filter(lambda x: x >= 0).shuffle())


def test_a_shard_hint_without_its_policy():
    with refused(tdi.FailedPreconditionError, "shard", "HINT"):
        list(RANGE.shard(tdi.SHARD_HINT, 0))


def test_len_of_endless_and_unknown_data():
    for dataset, word in ((RANGE.repeat(), "infinite"), (RANGE.filter(lambda x: x > 1), "unknown")):
        with refused(TypeError, word):
            len(dataset)
