# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`InputOptions(executor="processes")`: a strategy's steps are those without it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi

pytestmark = pytest.mark.filterwarnings("ignore:.*without rows.*")
EXECUTOR = tdi.Executor("processes", max_workers=2)


def named(row):
    return {"x": row * 2, "name": str(int(row)), "noise": torch.rand(2, generator=tdi.random())}


def parts_of(value):
    if isinstance(value, tdi.PerReplica):
        return ["parts", *map(parts_of, value.values)]
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return {key: parts_of(part) for key, part in value.items()} if isinstance(value, dict) else value


def steps_of(distributed):
    steps = iter(distributed)
    return [(parts_of(value), steps.step_info, steps.state_dict()) for value in steps]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 30), st.integers(1, 8), st.integers(1, 4), st.data())
def test_steps_and_states_of_replicas(rows, batch, replicas, data):
    dataset = tdi.Dataset.range(rows).shuffle(seed=4).map(named).batch(batch).with_options(tdi.Options(seed=2))
    strategy = tdi.MirroredStrategy(["cpu"] * replicas) if replicas > 1 else tdi.OneDeviceStrategy("cpu")
    given = {
        "split": data.draw(st.sampled_from(["tf", "balanced"])),
        "tail": data.draw(st.sampled_from(["zero_rows", "drop"])),
    }
    local = strategy.distribute_dataset(dataset, tdi.InputOptions(**given))
    remote = strategy.distribute_dataset(dataset, tdi.InputOptions(**given, executor=EXECUTOR))
    expected = steps_of(local)
    assert steps_of(remote) == expected
    if expected:
        at = data.draw(st.integers(0, len(expected) - 1))
        steps = iter(remote)
        steps.load_state_dict(expected[at][2])
        assert [parts_of(value) for value in steps] == [value for value, _, _ in expected[at + 1 :]]


def test_the_other_ways_to_take_a_step():
    distributed = tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(
        tdi.Dataset.range(3).batch(2), tdi.InputOptions(executor=EXECUTOR)
    )
    steps = iter(distributed)
    assert parts_of(steps.get_next()) == ["parts", [0], [1]]
    assert parts_of(steps.get_next_as_optional().get_value()) == ["parts", [2], []]
    assert not steps.get_next_as_optional().has_value()
    with pytest.raises(tdi.OutOfRangeError):
        steps.get_next()
    assert steps.stats().workers.answers == 2
    assert "executor: Executor(engine='processes'" in str(distributed.explain())


def test_what_an_executor_cannot_do_is_refused():
    strategy, options = tdi.OneDeviceStrategy("cpu"), tdi.InputOptions(executor="processes")
    stream = tdi.Dataset.range(4).filter(lambda row: row > 1).batch(2)
    with pytest.raises(ValueError, match="`executor` asks workers for parts of steps.*filter"):
        strategy.distribute_dataset(stream, options)
    with pytest.raises(ValueError, match="use `distribute_dataset`"):
        strategy.distribute_datasets_from_function(lambda context: stream, options)
