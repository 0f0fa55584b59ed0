# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`distribute_datasets_from_function` and `distribute_values_from_function`, in what the recordings do not cover."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import torch_distinput as tdi

PER_REPLICA = {"replication_mode": "PER_REPLICA"}


def mirrored(count: int) -> tdi.MirroredStrategy:
    return tdi.MirroredStrategy(["cpu"] * count)


def batches(rows: int, batch: int, kind: str, first: int = 0) -> tdi.Dataset:
    """Batches of a range: as a plan, through a function that hides their rows, or without a plan."""
    dataset = tdi.Dataset.range(first, first + rows)
    if kind == "filter":
        dataset = dataset.filter(lambda x: x >= 0)
    dataset = dataset.batch(batch)
    return dataset.map(lambda x: x) if kind == "map" else dataset


def steps_of(strategy, iterator) -> list:
    """The rows of each replica's part, step by step, from the iterator's position on."""
    return [[part.tolist() for part in strategy.local_results(step)] for step in iterator]


def reference(streams: list[list[list[int]]]) -> list:
    """The reference: step t has element t of every stream, and nothing of a stream that has ended."""
    steps = max(map(len, streams), default=0)
    return [[stream[t] if t < len(stream) else [] for stream in streams] for t in range(steps)]


def cut(rows: int, batch: int, first: int = 0) -> list[list[int]]:
    values = list(range(first, first + rows))
    return [values[i : i + batch] for i in range(0, rows, batch)]


KINDS = st.sampled_from(["plan", "map", "filter"])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(0, 13), st.integers(1, 4), KINDS)
def test_elements_go_to_the_replicas_in_turn(replicas, rows, batch, kind):
    strategy = mirrored(replicas)
    distributed = strategy.distribute_datasets_from_function(lambda context: batches(rows, batch, kind))
    elements = cut(rows, batch)
    wanted = reference([elements[replica::replicas] for replica in range(replicas)])
    assert steps_of(strategy, distributed) == wanted
    if kind != "filter":
        assert len(distributed) == len(wanted)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=3), st.integers(1, 3), KINDS, st.booleans())
def test_pipelines_of_their_own_run_side_by_side(sizes, batch, kind, until_first):
    strategy = mirrored(len(sizes))
    options = tdi.InputOptions(**PER_REPLICA, tail="until_first" if until_first else "zero_rows")
    starts = [100 * replica for replica in range(len(sizes))]
    distributed = strategy.distribute_datasets_from_function(
        lambda context: batches(sizes[context.input_pipeline_id], batch, kind, starts[context.input_pipeline_id]),
        options,
    )
    streams = [cut(rows, batch, start) for rows, start in zip(sizes, starts)]
    wanted = reference(streams)
    if until_first:
        wanted = wanted[: min(map(len, streams))]
    assert steps_of(strategy, distributed) == wanted
    if kind == "plan" or (kind == "map" and not until_first):
        assert len(distributed) == len(wanted)


@pytest.mark.parametrize("kind", ["plan", "map", "filter"])
@pytest.mark.parametrize("mode", ["PER_WORKER", "PER_REPLICA"])
def test_every_position_can_be_resumed(kind, mode):
    strategy = mirrored(2)
    distributed = strategy.distribute_datasets_from_function(
        lambda context: batches(7 + 4 * context.input_pipeline_id, 2, kind).shuffle(3, seed=5),
        tdi.InputOptions(replication_mode=mode),
    )
    distributed.set_epoch(0)
    iterator = iter(distributed)
    states = [iterator.state_dict()]
    steps, infos = [], []
    for step in iterator:
        steps.append([part.tolist() for part in strategy.local_results(step)])
        infos.append(iterator.step_info)
        states.append(iterator.state_dict())
    assert len(steps) >= 2
    for taken, state in enumerate(states):
        resumed = iter(distributed)
        resumed.load_state_dict(state)
        assert steps_of(strategy, resumed) == steps[taken:]
        if taken < len(steps):
            assert resumed.step_info == infos[-1]


def test_step_info_counts_the_rows_of_every_pipeline():
    strategy = mirrored(2)
    distributed = strategy.distribute_datasets_from_function(
        lambda context: batches(3 - context.input_pipeline_id, 2, "plan"), tdi.InputOptions(**PER_REPLICA)
    )
    distributed.set_epoch(3)
    iterator = iter(distributed)
    next(iterator)
    assert iterator.step_info == tdi.StepInfo(3, 0, 0, [2, 2], 4, 2, [1.0, 1.0], False, [True, True])
    next(iterator)
    assert iterator.step_info == tdi.StepInfo(3, 1, 4, [1, 0], 1, 2, [2.0, 0.0], True, [True, False])


def test_a_state_of_shared_input_is_refused_by_pipelines_of_their_own():
    strategy = mirrored(2)

    def make(mode):
        options = tdi.InputOptions(replication_mode=mode)
        return iter(strategy.distribute_datasets_from_function(lambda context: batches(8, 2, "plan"), options))

    shared, own = make("PER_WORKER"), make("PER_REPLICA")
    next(shared)
    next(own)
    with pytest.raises(ValueError, match="0 replicas with a pipeline of their own, but here there are 2"):
        own.load_state_dict(shared.state_dict())
    with pytest.raises(ValueError, match="2 replicas with a pipeline of their own, but here there are 0"):
        shared.load_state_dict(own.state_dict())


def test_the_function_is_called_once_and_its_dataset_read_anew_for_each_iterator():
    calls = []

    def dataset_fn(context):
        calls.append(context)
        return tdi.Dataset.range(4).batch(2)

    strategy = mirrored(2)
    distributed = strategy.distribute_datasets_from_function(dataset_fn)
    first, second = iter(distributed), iter(distributed)
    assert steps_of(strategy, first) == steps_of(strategy, second) == [[[0, 1], [2, 3]]]
    assert len(calls) == 1


def test_options_do_not_change_the_strategy():
    strategy = mirrored(2)
    strategy.distribute_datasets_from_function(lambda context: batches(4, 2, "plan"), tdi.InputOptions(**PER_REPLICA))
    contexts = []

    def dataset_fn(context):
        contexts.append((context.num_input_pipelines, context.input_pipeline_id))
        return batches(4, 2, "plan")

    distributed = strategy.distribute_datasets_from_function(dataset_fn)
    assert contexts == [(1, 0)]
    assert steps_of(strategy, distributed) == [[[0, 1], [2, 3]]]


def test_elements_without_rows_are_data_too():
    """The elements of a function's dataset need not be batches: one of length 0 is an element like others."""
    strategy = mirrored(1)
    dataset = tdi.Dataset.range(5).map(lambda x: x.repeat(int(x) % 4))
    distributed = strategy.distribute_datasets_from_function(lambda context: dataset)
    assert steps_of(strategy, distributed) == [[[]], [[1]], [[2, 2]], [[3, 3, 3]], [[]]]


def test_a_short_step_can_be_padded_or_dropped():
    strategy = mirrored(3)

    def steps(tail):
        distributed = strategy.distribute_datasets_from_function(
            lambda context: batches(9, 2, "plan"), tdi.InputOptions(tail=tail)
        )
        assert len(distributed) == len(list(distributed))
        iterator = iter(distributed)
        return [[part.tolist() for part in strategy.local_results(s)] + [iterator.step_info.valid] for s in iterator]

    assert steps("padded") == [[[0, 1], [2, 3], [4, 5], (2, 2, 2)], [[6, 7], [8, 8], [8, 8], (2, 1, 0)]]
    assert steps("drop") == steps("until_first") == [[[0, 1], [2, 3], [4, 5], (2, 2, 2)]]
    assert steps("repeat")[1] == [[6, 7], [8, 0], [1, 2], (2, 2, 2)]
    assert steps("merge") == [[[0, 1, 2], [3, 4, 5], [6, 7, 8], (3, 3, 3)]]


def test_the_spec_tells_that_merged_elements_are_cut_anew():
    strategy = mirrored(3)
    dataset = tdi.Dataset.range(8).batch(2, drop_remainder=True)
    distributed = strategy.distribute_datasets_from_function(lambda context: dataset, tdi.InputOptions(tail="merge"))
    assert [[len(part) for part in strategy.local_results(step)] for step in distributed] == [[3, 3, 2]]
    assert [tuple(spec.shape) for spec in distributed.element_spec.specs] == [(None,)] * 3


def test_explain_says_who_batches():
    strategy = mirrored(2)

    def make(**options):
        return strategy.distribute_datasets_from_function(
            lambda context: batches(4, 2, "plan"), tdi.InputOptions(**options)
        ).explain()

    assert "split: whole: the function that makes the dataset batches it" in make()
    assert "pipelines: 2, one for each replica" in make(**PER_REPLICA)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"place_dataset_on_device": True}, ValueError, "`place_dataset_on_device` needs"),
        ({"place_dataset_on_device": True, **PER_REPLICA}, ValueError, "while `fetch_to_device` is True"),
        ({"split": "balanced"}, ValueError, "`split` must be"),
        ({"tail": "padded", **PER_REPLICA}, ValueError, "`tail` must be"),
        ({"tail": "merge", **PER_REPLICA}, ValueError, "`tail` must be"),
    ],
)
def test_options_without_a_meaning_here_are_refused(options, kind, text):
    called = []
    with pytest.raises(kind, match=text):
        mirrored(2).distribute_datasets_from_function(called.append, tdi.InputOptions(**options))
    assert not called


@pytest.mark.parametrize("tail", ["padded", "repeat", "merge"])
def test_cutting_anew_needs_batches(tail):
    with pytest.raises(ValueError, match="Call `batch`"):
        mirrored(2).distribute_datasets_from_function(lambda context: tdi.Dataset.range(3), tdi.InputOptions(tail=tail))


def test_a_pipeline_per_replica_needs_a_mirrored_strategy():
    strategy = tdi.OneDeviceStrategy("cpu")
    with pytest.raises(NotImplementedError, match="only supported by MirroredStrategy"):
        strategy.distribute_datasets_from_function(
            lambda context: tdi.Dataset.range(2), tdi.InputOptions(**PER_REPLICA)
        )


@pytest.mark.parametrize("strategy", [tdi.get_strategy(), mirrored(2), tdi.OneDeviceStrategy("cpu")])
def test_wrong_arguments(strategy):
    def dataset_fn(context):
        return tdi.Dataset.range(2)

    with pytest.raises(TypeError, match="`dataset_fn` must be callable|not callable"):
        strategy.distribute_datasets_from_function(tdi.Dataset.range(2))
    for options in ({"split": "tf"}, [1], 3):
        with pytest.raises(TypeError, match="`options` must be InputOptions, but is a"):
            strategy.distribute_datasets_from_function(dataset_fn, options)
    with pytest.raises(TypeError, match="must return a torch_distinput.Dataset, but returned a NoneType"):
        strategy.distribute_datasets_from_function(lambda context: None)
    with pytest.raises(TypeError, match="`value_fn` must be callable"):
        strategy.distribute_values_from_function(5)


def test_an_error_in_the_function_is_raised_as_it_is():
    def fail(context):
        raise KeyError(context.input_pipeline_id)

    with pytest.raises(KeyError, match="0"):
        mirrored(2).distribute_datasets_from_function(fail)
    with pytest.raises(AttributeError):
        mirrored(2).distribute_values_from_function(fail)


def test_calls_inside_run_are_refused():
    strategy = mirrored(2)
    calls = {
        "distribute_datasets_from_function": lambda: strategy.distribute_datasets_from_function(
            lambda context: tdi.Dataset.range(2)
        ),
        "distribute_values_from_function": lambda: strategy.distribute_values_from_function(lambda context: 1),
    }
    for name, call in calls.items():
        with pytest.raises(RuntimeError, match=f"{name}: must be called outside"):
            strategy.run(call)


def test_the_default_strategy_returns_what_the_function_made():
    dataset = tdi.Dataset.range(3)
    assert tdi.get_strategy().distribute_datasets_from_function(lambda context: dataset) is dataset


def test_values_are_wrapped_even_if_they_are_one_object():
    shared = torch.ones(1)
    value = mirrored(2).distribute_values_from_function(lambda context: {"a": shared, "b": (None, [shared])})
    assert value["a"].values == (shared, shared)
    assert value["b"][0].values == (None, None)
    assert value["b"][1][0].values[1] is shared


def test_values_of_different_structures_are_refused():
    with pytest.raises(ValueError, match="structures differ"):
        mirrored(2).distribute_values_from_function(lambda context: (1,) * context.replica_id_in_sync_group)


class Counted:
    """A generator that counts how many of its rows were read."""

    def __init__(self):
        self.taken = 0

    def rows(self):
        for row in range(1000):
            self.taken += 1
            yield torch.tensor(row)


@pytest.mark.parametrize("buffer", [0, 1, 3])
@pytest.mark.parametrize("mode", ["PER_WORKER", "PER_REPLICA"])
def test_the_buffer_size_bounds_what_is_read_ahead(buffer, mode):
    """Steps read beyond those consumed: at most 1 + 2k, as recorded, and one more to know which step is the last."""
    source = Counted()
    dataset = tdi.Dataset.from_generator(source.rows, tdi.TensorSpec([], torch.int64)).batch(2)
    strategy = mirrored(2)
    distributed = strategy.distribute_datasets_from_function(
        lambda context: dataset, tdi.InputOptions(per_replica_buffer_size=buffer, replication_mode=mode)
    )
    iterator = iter(distributed)
    assert source.taken == 0
    for _ in range(5):
        next(iterator)
    iterator.close()
    rows_a_step = 4
    assert source.taken <= rows_a_step * (5 + 1 + 2 * buffer + 1)
    if buffer == 0:
        assert source.taken <= rows_a_step * (5 + 2)
