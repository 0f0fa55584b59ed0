# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Several real processes that read files of uneven sizes as streams of their own: training and resuming."""

import os
import time

import pytest
import torch
import torch.distributed as dist
from ranks import returned, run_ranks

import torch_distinput as tdi

SIZES = [11, 0, 3, 8, 1, 5, 2]
ROWS = sum(SIZES)


@pytest.fixture(name="files")
def fixture_files(tmp_path):
    """Text files of uneven sizes; their numbers count on from file to file."""
    numbers = iter(range(ROWS))
    paths = [tmp_path / str(i) for i in range(len(SIZES))]
    for path, size in zip(paths, SIZES, strict=True):
        path.write_text("".join(f"{next(numbers)}\n" for _ in range(size)))
    return [str(path) for path in paths]


def pipeline(files, kind):
    lines = tdi.TextLineDataset(files, index=kind == "indexed").map(lambda line: torch.tensor(int(line)))
    if kind == "windowed":
        lines = lines.shuffle(4)
    if kind == "filtered":
        lines = lines.filter(lambda row: True)
    return lines.batch(6).with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.FILE))


def local(strategy, step):
    return strategy.experimental_local_results(step)[0]


def go_on(rank, files, kind, states, most, tail="zero_rows"):
    strategy = tdi.MultiWorkerMirroredStrategy()
    iterator = iter(strategy.distribute_dataset(pipeline(files, kind), tdi.InputOptions(tail=tail)))
    if states:
        iterator.load_state_dict(states)
    rows, steps = [], 0
    while steps < most and (step := next(iterator, None)) is not None:
        rows += local(strategy, step).tolist()
        steps += 1
    return rows, steps, iterator.state_dict()


@pytest.mark.parametrize(
    ("kind", "tail"),
    [("indexed", "zero_rows"), ("windowed", "zero_rows"), ("filtered", "zero_rows"), ("filtered", "merge")],
)
def test_the_rest_of_an_epoch_is_read_once_by_another_number_of_processes(files, kind, tail):
    seen, states = [], None
    for world, most in ((3, 2), (2, 1), (5, 1), (1, 100)):
        results = returned(run_ranks(go_on, world, files, kind, states, most, tail))
        assert len({steps for _, steps, _ in results}) == 1
        seen += [row for rows, _, _ in results for row in rows]
        states = [state for _, _, state in results]
    assert sorted(seen) == list(range(ROWS))


def merge(rank, lines, batch, taken):
    """The rows of each step from a state after `taken` steps on, and those of an epoch without a stop."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    dataset = tdi.TextLineDataset(lines).map(lambda line: torch.tensor(int(line))).filter(lambda row: True)
    options = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.FILE)
    steps = strategy.distribute_dataset(dataset.batch(batch).with_options(options), tdi.InputOptions(tail="merge"))

    def rest(iterator):
        return [(local(strategy, step).tolist(), iterator.step_info) for step in iterator]

    iterator = iter(steps)
    for _ in range(taken):
        next(iterator)
    state = iterator.state_dict()
    rest(iterator)
    again = iter(steps)
    again.load_state_dict(state)
    return rest(iter(steps)), rest(again)


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_last_step_that_one_process_lacks_is_joined_to_the_one_before_it(tmp_path, taken):
    for file, rows in enumerate([9, 8]):
        (tmp_path / str(file)).write_text("".join(f"{100 * file + row}\n" for row in range(rows)))
    lines = [str(tmp_path / str(file)) for file in range(2)]
    (here, here_again), (there, there_again) = returned(run_ranks(merge, 2, lines, 8, taken))
    assert [rows for rows, _ in here] == [[0, 1, 2, 3], [4, 5, 6, 7, 8]]
    assert [rows for rows, _ in there] == [[100, 101, 102, 103], [104, 105, 106, 107]]
    for steps in (here, there):
        assert [(info.step, info.row_start, info.global_valid, info.is_last) for _, info in steps] == [
            (0, 0, 8, False),
            (1, 8, 9, True),
        ]
    assert [info.loss_scale for _, info in here] == [(1.0,), (10 / 9,)]
    assert [rows for rows, _ in here_again] == [rows for rows, _ in here][taken:]
    assert [rows for rows, _ in there_again] == [rows for rows, _ in there][taken:]


def data(rows):
    """The features and the target of the row with a number."""
    x = torch.stack([torch.sin(rows * 1.7), torch.cos(rows * 0.3), rows * 0.01], dim=1)
    return x, x.sum(dim=1, keepdim=True) * 2 + 1


def new_model():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def parameters(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def train(rank, files, tail):
    strategy = tdi.MultiWorkerMirroredStrategy()
    model, optimizer = new_model()
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    dataset = strategy.distribute_dataset(pipeline(files, "filtered"), tdi.InputOptions(tail=tail))
    steps = []
    for _ in range(2):
        iterator = iter(dataset)
        for step in iterator:
            info = iterator.step_info
            rows = local(strategy, step)
            counts = torch.arange(len(rows)) < info.valid[0]
            x, y = data(rows.float())
            squares = ((parallel(x) - y) ** 2)[counts]
            optimizer.zero_grad()
            tdi.distributed_mean(squares.sum(), info).backward()
            optimizer.step()
            steps.append(rows[counts].tolist())
    return steps, parameters(model)


@pytest.mark.parametrize("tail", ["zero_rows", "padded", "merge"])
def test_data_parallel_training_on_uneven_files_equals_one_process(files, tail):
    results = returned(run_ranks(train, 3, files, tail))
    model, optimizer = new_model()
    batches = [sum(parts, []) for parts in zip(*(steps for steps, _ in results), strict=True)]
    assert sorted(sum(batches, [])) == sorted(2 * list(range(ROWS)))
    for batch in batches:
        x, y = data(torch.tensor(batch).float())
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
    for _, trained in results:
        torch.testing.assert_close(trained, parameters(model), rtol=0, atol=1e-6)


def threads():
    return len(os.listdir("/proc/self/task"))


def break_off(rank):
    """The threads before, during and after many loops that all ranks leave at the same step."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    rows = tdi.Dataset.range(100).batch(1)
    dataset = strategy.distribute_datasets_from_function(lambda context: rows)
    next(iter(dataset))  # starts the threads that live as long as the strategy
    deadline = time.monotonic() + 20
    before = threads()
    for epoch in range(12):
        for number, _ in enumerate(dataset):
            if number == epoch:
                break
        dist.barrier()
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    return before, threads()


def test_loops_broken_off_leave_no_threads():
    for before, after in returned(run_ranks(break_off, 3)):
        assert after <= before


def test_a_choice_of_transport_warns_that_there_is_none():
    with pytest.warns(FutureWarning, match="`rounds` has no effect any more; leave it out"):
        tdi.MultiWorkerMirroredStrategy(rounds="gloo")
    with pytest.raises(ValueError, match="`rounds` must be None, 'store' or 'gloo', but is 'mpi'"):
        tdi.MultiWorkerMirroredStrategy(rounds="mpi")
