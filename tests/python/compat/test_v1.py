# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`compat.v1`, in what the recordings do not cover."""

import pickle

import pytest
import torch

import torch_distinput as tdi
import torch_distinput.compat
from torch_distinput.compat import v1


def rows(strategy, step):
    return [part.tolist() for part in strategy.local_results(step)]


def test_everything_else_is_forwarded(two):
    strategy = v1.Strategy(two)
    assert strategy.num_replicas_in_sync == 2
    assert strategy.reduce("SUM", tdi.PerReplica([torch.ones(1), torch.ones(1)])).item() == 2
    with strategy.scope():
        assert tdi.get_strategy() is two
    strategy.enable_partial_batch_handling = False
    assert two.enable_partial_batch_handling is False
    assert repr(strategy) == f"compat.v1.Strategy({two!r})"
    assert pickle.loads(pickle.dumps(v1.Strategy(tdi.Strategy()))).num_replicas_in_sync == 1
    assert torch_distinput.compat.v1 is v1


def test_an_attribute_that_no_strategy_has(two):
    with pytest.raises(AttributeError, match="nothing_like_that"):
        v1.Strategy(two).nothing_like_that  # noqa: B018


@pytest.mark.parametrize("wrong", [None, "cpu", tdi.MirroredStrategy])
def test_it_wraps_strategies(wrong):
    with pytest.raises(TypeError, match="`strategy` must be a Strategy"):
        v1.Strategy(wrong)


def test_reading_the_initializer_starts_again(two):
    strategy = v1.Strategy(two)
    iterator = strategy.make_dataset_iterator(tdi.Dataset.range(6).batch(2))
    assert rows(strategy, iterator.get_next()) == [[0], [1]]
    assert rows(strategy, iterator.get_next()) == [[2], [3]]
    assert iterator.initializer is None
    assert rows(strategy, iterator.get_next()) == [[0], [1]]


def test_initialize_begins_a_new_epoch(two):
    strategy = v1.Strategy(two)
    iterator = strategy.make_dataset_iterator(tdi.Dataset.range(64).shuffle(seed=3).batch(64))
    first = rows(strategy, iterator.get_next())
    iterator.initialize()
    second = rows(strategy, iterator.get_next())
    assert first != second
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(64))


def test_the_program_of_the_documentation(two):
    """The example in tf.distribute's documentation of make_input_fn_iterator, with a global batch of 4."""

    def input_fn(input_context):
        batch_size = input_context.get_per_replica_batch_size(4)
        dataset = tdi.Dataset.from_tensors([[1.0]]).repeat().batch(batch_size)
        return dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)

    strategy = v1.Strategy(two)
    with strategy.scope():
        iterator = strategy.make_input_fn_iterator(input_fn)
        results = strategy.experimental_run(lambda x: x.sum(), iterator)
    assert [part.item() for part in results.values] == [2.0, 2.0]


@pytest.mark.parametrize("end", [StopIteration, tdi.OutOfRangeError])
def test_a_callable_ends_by_raising(two, end):
    values = iter([1, 2, 3])

    def source():
        for value in values:
            return value
        raise end

    strategy = v1.Strategy(two)
    iterator = strategy.make_input_fn_iterator(lambda context: source)
    assert strategy.local_results(iterator.get_next()) == (1, 2)
    for _ in range(2):
        with pytest.raises(tdi.OutOfRangeError):
            iterator.get_next()


def test_no_value_of_a_callable_is_lost_when_one_fails(two):
    values = iter([1, ValueError("broken"), 2])

    def source():
        value = next(values)
        if isinstance(value, Exception):
            raise value
        return {"v": value}

    iterator = v1.Strategy(two).make_input_fn_iterator(lambda context: source)
    with pytest.raises(ValueError, match="broken"):
        iterator.get_next()
    assert iterator.get_next()["v"].values == (1, 2)


@pytest.mark.parametrize("returned", [[1, 2], None, torch.ones(2)])
def test_an_input_fn_that_returns_neither_dataset_nor_callable(two, returned):
    with pytest.raises(ValueError, match="`input_fn` must return a torch_distinput.Dataset or a callable"):
        v1.Strategy(two).make_input_fn_iterator(lambda context: returned)


def test_an_input_fn_that_cannot_be_called(two):
    with pytest.raises(TypeError, match="`input_fn` must be callable"):
        v1.Strategy(two).make_input_fn_iterator(tdi.Dataset.range(2))


def test_make_dataset_iterator_wants_batches(two):
    with pytest.raises(ValueError, match="Call `batch`"):
        v1.Strategy(two).make_dataset_iterator(tdi.Dataset.range(4))


def test_an_incomplete_last_step_leaves_the_strategy_as_it_is(two):
    strategy = v1.Strategy(two)
    iterator = strategy.make_input_fn_iterator(lambda context: tdi.Dataset.range(3).batch(1))
    assert rows(strategy, iterator.get_next()) == [[0], [1]]
    with pytest.raises(tdi.OutOfRangeError):
        iterator.get_next()
    assert two.enable_partial_batch_handling
