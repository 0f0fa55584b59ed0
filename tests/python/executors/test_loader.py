# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(executor="processes")`: rows, order, infos and states are those of the loader without it."""

import pytest
import torch
from equal_values import same
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.distribute._part import Part

pytestmark = pytest.mark.filterwarnings("ignore:.*without rows.*")
EXECUTOR = tdi.Executor("processes", max_workers=2)


def doubled(row):
    return {"x": row * 2, "noise": torch.rand(3, generator=tdi.random()), "name": str(int(row))}


def pipeline(draw):
    rows = draw(st.integers(0, 40))
    dataset = tdi.Dataset.range(rows)
    for op in draw(st.lists(st.sampled_from(["shuffle", "map", "skip", "repeat", "take"]), max_size=3, unique=True)):
        match op:
            case "shuffle":
                dataset = dataset.shuffle(seed=draw(st.none() | st.integers(0, 9)))
            case "map":
                dataset = dataset.map(doubled)
            case "skip":
                dataset = dataset.skip(draw(st.integers(0, 5)))
            case "repeat":
                dataset = dataset.repeat(2)
            case "take":
                dataset = dataset.take(draw(st.integers(0, 50)))
    return dataset


def steps_of(loader, count=None):
    """Batches, infos and the states after them."""
    found = []
    for batch, info in loader:
        found.append((batch, info, loader.state_dict()))
        if len(found) == count:
            break
    return found


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_rows_order_and_states_are_those_of_the_local_pipeline(data):
    dataset = pipeline(data.draw)
    world = data.draw(st.integers(1, 7))
    rank = data.draw(st.integers(0, world - 1))
    arguments = {
        "batch_size": None,
        "distributed": Part(rank, world),
        "seed": data.draw(st.integers(0, 99)),
        "split": data.draw(st.sampled_from(["tf", "balanced"])),
        "tail": data.draw(st.sampled_from(["zero_rows", "padded", "repeat", "drop", "until_first", "merge"])),
        "with_info": True,
    }
    batches = dataset.batch(data.draw(st.integers(1, 9)))
    local = tdi.DataLoader(batches, **arguments)
    with tdi.DataLoader(batches, **arguments, executor=EXECUTOR) as remote:
        for _ in range(2):
            assert same(steps_of(remote), expected := steps_of(local))
        if expected:
            at = data.draw(st.integers(0, len(expected) - 1))
            remote.load_state_dict(expected[at][2])
            local.load_state_dict(expected[at][2])
            assert same(steps_of(remote), steps_of(local))


class Squares(torch.utils.data.Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index == 1000:
            raise KeyError("no such row")
        return {"square": index**2, "row": torch.full((2,), index)}


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 4), st.data())
def test_rows_that_python_makes(size, batch_size, world, data):
    rank = data.draw(st.integers(0, world - 1))
    arguments = {"batch_size": batch_size, "shuffle": True, "seed": 5, "distributed": Part(rank, world)}
    local = tdi.DataLoader(Squares(size), **arguments, with_info=True)
    with tdi.DataLoader(Squares(size), **arguments, with_info=True, executor=EXECUTOR) as remote:
        assert same(steps_of(remote), expected := steps_of(local))
        at = data.draw(st.integers(0, len(expected) - 1))
        remote.load_state_dict(expected[at][2])
        assert same(steps_of(remote), expected[at + 1 :])


class Noisy(Squares):
    def __getitem__(self, index):
        return torch.rand(2)


def test_random_numbers_of_rows_that_python_makes_are_those_of_the_step():
    arguments = {"batch_size": 2, "shuffle": True, "seed": 3, "executor": EXECUTOR}
    with tdi.DataLoader(Noisy(8), **arguments) as one, tdi.DataLoader(Noisy(8), **arguments) as other:
        epochs = [list(one), list(one)]
        assert same(epochs, [list(other), list(other)])
        assert not same(*epochs)


def test_rows_that_fail_are_left_out_as_without_an_executor():
    rows = torch.utils.data.Subset(Squares(2000), range(995, 1005))
    arguments = {"batch_size": 4, "on_error": "skip", "shuffle": True, "seed": 1}
    local = tdi.DataLoader(rows, **arguments, distributed=True)
    with tdi.DataLoader(rows, **arguments, executor=EXECUTOR) as remote:
        assert same(list(remote), list(local))
        assert remote.skipped == local.skipped == [5]


def failing(row):
    if row == 5:
        raise KeyError("no such row")
    return row


def test_an_error_comes_at_its_step_with_class_and_traceback_and_again():
    dataset = tdi.Dataset.range(9).map(failing).batch(2)
    with tdi.DataLoader(dataset, batch_size=None, executor=EXECUTOR) as loader:
        steps = iter(loader)
        assert [next(steps).tolist(), next(steps).tolist()] == [[0, 1], [2, 3]]
        for _ in range(2):
            with pytest.raises(KeyError, match="no such row") as error:
                next(steps)
        assert "in failing" in str(error.value.__cause__)
        position = loader.state_dict()
    loader.load_state_dict(position)
    with loader, pytest.raises(KeyError):
        next(iter(loader))


def test_excluded_rows_and_other_weights_count_from_the_next_step():
    letters = [tdi.Dataset.from_tensors(text).repeat() for text in "ab"]
    mixed = tdi.Dataset.sample_from_datasets(letters, [1, 0]).take(6)
    with tdi.DataLoader(mixed, batch_size=3, executor=EXECUTOR) as loader:
        steps = iter(loader)
        assert next(steps) == ["a", "a", "a"]
        loader.set_weights([0, 1])
        assert next(steps) == ["b", "b", "b"]
    with tdi.DataLoader(tdi.Dataset.range(6), batch_size=2, executor=EXECUTOR) as loader:
        steps = iter(loader)
        assert next(steps).tolist() == [0, 1]
        loader.exclude([2, 5])
        assert [batch.tolist() for batch in steps] == [[3, 4]]


def test_a_state_goes_on_with_and_without_an_executor():
    rows = tdi.Dataset.range(20).shuffle(seed=2)
    local = tdi.DataLoader(rows, batch_size=3, distributed=True)
    whole = list(local)
    with tdi.DataLoader(rows, batch_size=3, executor=EXECUTOR) as remote:
        steps_of_remote = iter(remote)
        assert same([next(steps_of_remote), next(steps_of_remote)], whole[:2])
        local.load_state_dict(remote.state_dict())
    steps = iter(local)
    assert same(next(steps), whole[2])
    remote.load_state_dict(local.state_dict())
    assert same(list(remote), whole[3:])
    remote.close()


def test_an_earlier_iterator_raises():
    with tdi.DataLoader(tdi.Dataset.range(9), batch_size=3, executor=EXECUTOR) as loader:
        earlier, later = iter(loader), iter(loader)
        next(later)
        with pytest.raises(RuntimeError, match="another iterator of this loader"):
            next(earlier)


@pytest.mark.parametrize(
    ("dataset", "arguments", "named"),
    [
        (tdi.Dataset.range(4), {"num_workers": 2}, "`num_workers`"),
        (torch.arange(4), {"order": "torch", "shuffle": True}, "order"),
        (tdi.Dataset.range(4), {"executor": "spark"}, "'spark'"),
        (torch.arange(4), {"sampler": [0, 1]}, "sampler of the program's own"),
        (tdi.Dataset.range(4).with_options(tdi.Options(on_error=tdi.Skip())), {}, "on_error"),
        (tdi.Dataset.range(4).filter(lambda row: row > 1), {}, "filter"),
    ],
)
def test_what_an_executor_cannot_do_is_refused_by_name(dataset, arguments, named):
    with pytest.raises(ValueError, match=named):
        iter(tdi.DataLoader(dataset, **{"executor": EXECUTOR} | arguments))


def as_set(samples):
    return set("ab")


def test_a_leaf_that_cannot_travel_is_named():
    loader = tdi.DataLoader(Squares(3), collate_fn=as_set, executor=EXECUTOR)
    with loader, pytest.raises(TypeError, match="`executor`"):
        next(iter(loader))
