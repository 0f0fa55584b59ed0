# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Meshes of four processes: ranks with the same data coordinate get the same batches, and every row is seen once."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks import returned, run_ranks
from torch.utils.data import TensorDataset
from torch_datasets import IndexTensors

import torch_distinput as tdi

ROWS = 29


def loader_of(kind, mesh, **arguments):
    arguments = {"batch_size": 4, "distributed": mesh} | arguments
    if kind == "pipeline":
        return tdi.DataLoader(tdi.Dataset.range(ROWS).shuffle(), **arguments)
    return tdi.DataLoader(IndexTensors(ROWS) if kind == "python" else torch.arange(ROWS), shuffle=True, **arguments)


def mesh_of(shape):
    if shape == "dp tp":
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        return mesh["dp"], mesh.get_local_rank("dp")
    if shape == "tp dp":
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("tp", "dp"))
        return mesh["dp"], mesh.get_local_rank("dp")
    mesh = dist.init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("dp_replicate", "dp_shard", "cp"))
    if shape == "HSDP, whole":
        return mesh, dist.get_rank()
    flat = mesh["dp_replicate", "dp_shard"]._flatten("dp")
    return flat, flat.get_local_rank()


def epochs(rank, shape, kind):
    mesh, coordinate = mesh_of(shape)
    torch.manual_seed(rank)  # must not decide the order
    loader = loader_of(kind, mesh)
    seen = [[rows.tolist() for rows in loader] for _ in range(2)]
    iterator = iter(loader)
    seen.append([next(iterator).tolist()])
    again = loader_of(kind, mesh)
    again.load_state_dict(loader.state_dict())
    seen[2] += [rows.tolist() for rows in again]
    return coordinate, seen


@pytest.mark.parametrize("kind", ["native", "python", "pipeline"])
@pytest.mark.parametrize("shape", ["dp tp", "tp dp", "HSDP", "HSDP, whole"])
def test_ranks_with_one_data_coordinate_get_the_same_batches(shape, kind):
    ranks = returned(run_ranks(epochs, 4, shape, kind))
    by_coordinate = {}
    for coordinate, seen in ranks:
        assert by_coordinate.setdefault(coordinate, seen) == seen
    assert sorted(by_coordinate) == (list(range(4)) if "HSDP" in shape else [0, 1])
    for epoch in range(3):
        steps = [seen[epoch] for seen in by_coordinate.values()]
        assert len({len(parts) for parts in steps}) == 1
        assert sorted(row for parts in steps for part in parts for row in part) == list(range(ROWS))
    assert len({str(seen) for seen in by_coordinate[0]}) == 3


MESHES = {
    "dp 2, tp 2": ((2, 2), ("dp", "tp"), 2),
    "tp 2, dp 2": ((2, 2), ("tp", "dp"), 2),
    "HSDP": ((2, 2), ("dp_replicate", "dp_shard"), 4),
    "cp 2, tp 2": ((1, 2, 2), ("dp", "cp", "tp"), 1),
}


def with_a_checkpoint(rank, shape, kind, folder, steps):
    """What this rank gets of `steps` steps, or of all that a checkpoint in `folder` leaves."""
    sizes, names, data_ranks = MESHES[shape]
    mesh = dist.init_device_mesh("cpu", sizes, mesh_dim_names=names)
    loader = loader_of(kind, mesh, batch_size=8 // data_ranks, seed=3)
    if steps is None:
        dcp.load({"loader": loader}, checkpoint_id=folder)
    iterator = iter(loader)
    seen = [rows.tolist() for _, rows in zip(range(ROWS if steps is None else steps), iterator)]
    if steps is not None:
        dcp.save({"loader": loader}, checkpoint_id=folder)
    here = dict(zip(names, mesh.get_coordinate()))
    return tuple(here[name] for name in names if name.startswith("dp")), seen


def global_steps(of_ranks, data_ranks):
    """The rows of each step over all data coordinates, whose ranks got the same ones."""
    seen = {}
    for coordinate, steps in of_ranks:
        assert seen.setdefault(coordinate, steps) == steps
    assert len(seen) == data_ranks
    return [sorted(row for part in parts for row in part) for parts in zip(*seen.values(), strict=True)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["native", "python", "pipeline"])
def test_a_checkpoint_goes_on_on_another_mesh(kind, tmp_path):
    before = returned(run_ranks(with_a_checkpoint, 4, "dp 2, tp 2", kind, str(tmp_path), 2, limit=100))
    rest = {}
    for shape, (*_, data_ranks) in MESHES.items():
        after = returned(run_ranks(with_a_checkpoint, 4, shape, kind, str(tmp_path), None, limit=100))
        rest[shape] = global_steps(after, data_ranks)
    assert all(steps == rest["HSDP"] for steps in rest.values())
    assert sorted(sum(global_steps(before, 2) + rest["HSDP"], [])) == list(range(ROWS))


def with_a_strategy(rank):
    mesh, coordinate = mesh_of("dp tp")
    strategy = tdi.MultiWorkerMirroredStrategy(mesh)
    train, test = (strategy.distribute_dataset(tdi.Dataset.range(ROWS).shuffle().batch(8)) for _ in range(2))
    return coordinate, [[part.values[0].tolist() for part in dataset] for dataset in (train, test)]


def test_a_strategy_takes_a_mesh_too():
    ranks = returned(run_ranks(with_a_strategy, 4))
    shares = dict(ranks)
    assert all(shares[coordinate] == share for coordinate, share in ranks)
    for dataset in range(2):
        assert sorted(row for share in shares.values() for part in share[dataset] for row in part) == list(range(ROWS))
    assert shares[0][0] != shares[0][1]


FEATURES = torch.linspace(-1, 1, ROWS * 4).reshape(ROWS, 4)
TARGETS = FEATURES.sum(1, keepdim=True)


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def steps_of(model, loader, info=None):
    """Trains one epoch; the loss of each step, over this rank's part of the global batch where there is `info`."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for features, targets in loader:
        loss_sum = (model(features) - targets).square().sum()
        optimizer.zero_grad()
        loss = loss_sum / len(features) if info is None else tdi.distributed_mean(loss_sum, info(loader))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def trained(rank, how):
    """The loss of each step over the global batch of 8 rows."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model, loader_rows = make_model(), TensorDataset(FEATURES, TARGETS)
    if how == "HSDP":
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_replicate", "dp_shard"))
        fully_shard(model, mesh=mesh)
        losses = steps_of(model, tdi.DataLoader(loader_rows, 2, distributed=mesh), lambda loader: loader.last_info)
        dist.all_reduce(losses)
        return losses / 4
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    loader = tdi.DataLoader(loader_rows, 4, distributed=mesh)
    if how == "DDP":
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=mesh.get_group("dp"))
    else:
        parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    if how == "FSDP2":
        fully_shard(model, mesh=mesh["dp"])
    losses = steps_of(model, loader, lambda loader: loader.last_info)
    dist.all_reduce(losses, group=mesh.get_group("dp"))
    return losses / 2


@pytest.mark.parametrize("how", ["DDP", "FSDP2", "HSDP"])
def test_uneven_data_trains_as_on_one_process_without_join(how):
    """29 rows in steps of 8 leave 5 for the data ranks."""
    expected = steps_of(make_model(), tdi.DataLoader(TensorDataset(FEATURES, TARGETS), 8))
    for losses in returned(run_ranks(trained, 4, how)):
        torch.testing.assert_close(losses, expected)
