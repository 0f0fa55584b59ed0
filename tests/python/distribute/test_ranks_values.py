# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""run, reduce, gather and the replica context over several real processes."""

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi


def values(rank, per_worker):
    strategy = tdi.MultiWorkerMirroredStrategy(devices=["cpu"] * per_worker)
    assert strategy.num_replicas_in_sync == 2 * per_worker

    def rows(context):
        """A tensor with as many rows as the number of the replica."""
        number = context.replica_id_in_sync_group
        return torch.full((number, 2), float(number))

    mine = strategy.distribute_values_from_function(rows)
    by_hand = torch.cat([torch.full((number, 2), float(number)) for number in range(2 * per_worker)])
    torch.testing.assert_close(strategy.gather(mine, axis=0), by_hand)
    torch.testing.assert_close(strategy.reduce("SUM", mine, axis=0), by_hand.sum(0))
    torch.testing.assert_close(strategy.reduce("MEAN", mine, axis=0), by_hand.mean(0))
    with pytest.raises(ValueError, match="replica 0 has float32"):
        strategy.reduce("SUM", mine)

    def inside(part):
        context = tdi.get_replica_context()
        count, number = context.num_replicas_in_sync, context.replica_id_in_sync_group
        total = context.all_reduce("SUM", {"rows": torch.tensor(len(part)), "one": torch.tensor(1)})
        assert (total["rows"].item(), total["one"].item()) == (sum(range(count)), count)
        torch.testing.assert_close(context.all_gather(part, axis=0), by_hand)
        return torch.tensor(float(number))

    numbers = strategy.run(inside, args=(mine,))
    count = 2 * per_worker
    assert strategy.reduce("MEAN", numbers).item() == sum(range(count)) / count
    return [value.item() for value in strategy.experimental_local_results(numbers)]


@pytest.mark.parametrize("per_worker", [1, 3])
def test_values_of_all_processes_are_combined_as_those_of_one(per_worker):
    numbers = returned(run_ranks(values, 2, per_worker))
    assert [number for mine in numbers for number in mine] == list(range(2 * per_worker))


def train(rank, tail, steps):
    """Linear regression on uneven data: each step's gradients are those of the mean over the global batch."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    x, y = data()
    dataset = tdi.Dataset.from_tensor_slices((x, y)).shuffle(seed=2).batch(7).repeat(steps)
    iterator = iter(strategy.distribute_dataset(dataset, tdi.InputOptions(tail=tail)))
    for step in iterator:
        inputs, targets = (strategy.experimental_local_results(leaf)[0] for leaf in step)
        info = iterator.step_info
        counts = torch.arange(len(inputs)) < info.valid[0]
        squares = ((parallel(inputs) - targets) ** 2)[counts]
        optimizer.zero_grad()
        tdi.distributed_mean(squares.sum(), info).backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def data():
    torch.manual_seed(1)
    return torch.randn(17, 3), torch.randn(17, 1)


def train_alone(steps):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in tdi.Dataset.from_tensor_slices(data()).shuffle(seed=2).batch(7).repeat(steps):
        optimizer.zero_grad()
        ((model(inputs) - targets) ** 2).mean().backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize(("world", "tail"), [(2, "zero_rows"), (5, "zero_rows"), (3, "padded")])
def test_data_parallel_training_on_uneven_data_equals_one_process(world, tail):
    reference = train_alone(steps=4)
    for parameters in returned(run_ranks(train, world, tail, 4)):
        torch.testing.assert_close(parameters, reference, rtol=0, atol=1e-6)
