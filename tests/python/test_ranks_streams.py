# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Several real processes that read streams of their own, files of uneven sizes: what they learn, and how they go on."""

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi

SIZES = [11, 0, 3, 8, 1, 5, 2]
ROWS = sum(SIZES)


@pytest.fixture(name="files")
def fixture_files(tmp_path):
    """Text files of uneven sizes, whose numbers run through all of them."""
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


def go_on(rank, files, kind, states, most):
    strategy = tdi.MultiWorkerMirroredStrategy()
    iterator = iter(strategy.distribute_dataset(pipeline(files, kind)))
    if states:
        iterator.load_state_dict(states)
    rows, steps = [], 0
    while steps < most and (step := next(iterator, None)) is not None:
        rows += local(strategy, step).tolist()
        steps += 1
    return rows, steps, iterator.state_dict()


@pytest.mark.parametrize("kind", ["indexed", "windowed", "filtered"])
def test_the_rest_of_an_epoch_is_read_once_by_another_number_of_processes(files, kind):
    seen, states = [], None
    for world, most in ((3, 2), (2, 1), (5, 1), (1, 100)):
        results = returned(run_ranks(go_on, world, files, kind, states, most))
        assert len({steps for _, steps, _ in results}) == 1
        seen += [row for rows, _, _ in results for row in rows]
        states = [state for _, _, state in results]
    assert sorted(seen) == list(range(ROWS))


def data(rows):
    """The features and the target that belong to a row's number."""
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


@pytest.mark.parametrize("tail", ["zero_rows", "padded"])
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
