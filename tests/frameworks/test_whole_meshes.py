# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Meshes as frameworks make them: the ranks of one data coordinate get the same rows, each data coordinate its own."""

import math
from importlib.util import find_spec

import pytest
import torch
import torch.distributed as dist
from launched import launch
from ranks import returned, run_ranks
from torch.utils.data import TensorDataset

import torch_distinput as tdi

ROWS, LENGTH = 21, 8


def tokens():
    return TensorDataset(torch.arange(ROWS)[:, None] * 100 + torch.arange(LENGTH))


def check_rows(of_ranks, coordinates):
    """`of_ranks`: coordinate and rows by step, of each rank."""
    seen = {}
    for coordinate, steps in of_ranks:
        assert seen.setdefault(coordinate, steps) == steps
    assert len(seen) == coordinates and len({len(steps) for steps in seen.values()}) == 1
    assert sorted(row for steps in seen.values() for step in steps for row in step) == list(range(ROWS))


AXES = ["pp", "batch", "cp", "tp"]


def over_torchtitans_mesh(rank, degrees):
    from torchtitan.distributed import parallel_dims, utils
    from torchtitan.distributed.parallel_dims import ParallelDims

    parallel_dims.device_type = utils.device_type = "cpu"
    sizes = dict.fromkeys(["dp_replicate", "dp_shard", "cp", "tp", "pp", "ep"], 1) | degrees
    dims = ParallelDims(**sizes, world_size=dist.get_world_size())
    mesh = dims.get_optional_mesh(AXES, include_singleton_axes=True)
    sequence = {"cp": 1} if sizes["cp"] > 1 else None
    loader = tdi.DataLoader(tokens(), 4, shuffle=True, distributed=mesh, sequence=sequence)
    steps = [batch for (batch,) in loader]
    here = dict(zip(AXES, mesh.get_coordinate()))
    parts = [(batch % 100).tolist() for batch in steps]
    return here["batch"], [(batch[:, 0] // 100).tolist() for batch in steps], here["cp"], parts


@pytest.mark.skipif(find_spec("torchtitan") is None, reason="torchtitan is not installed")
@pytest.mark.parametrize(
    "degrees",
    [
        {"dp_shard": 2, "tp": 2, "pp": 2},
        {"dp_replicate": 2, "dp_shard": 2, "cp": 2},
        {"dp_shard": 2, "cp": 2, "tp": 2},
        pytest.param({"dp_shard": 2, "tp": 2, "cp": 2, "pp": 2}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_torchtitans_mesh_is_taken_whole(degrees):
    of_ranks = returned(run_ranks(over_torchtitans_mesh, math.prod(degrees.values()), degrees, limit=200))
    check_rows([rank[:2] for rank in of_ranks], degrees.get("dp_replicate", 1) * degrees["dp_shard"])
    places = {}
    for *_, cp, parts in of_ranks:
        places.setdefault(cp, set()).update(tuple(row) for batch in parts for row in batch)
    assert all(len(of_rows) == 1 for of_rows in places.values())
    assert sorted(place for of_rows in places.values() for row in of_rows for place in row) == list(range(LENGTH))


def over_accelerates_mesh(rank, sizes):
    from accelerate import Accelerator
    from accelerate.data_loader import prepare_data_loader
    from accelerate.parallelism_config import ParallelismConfig

    accelerator = Accelerator(cpu=True)
    mesh = ParallelismConfig(**sizes).build_device_mesh("cpu")
    loader = tdi.DataLoader(tokens(), 4, shuffle=True)
    assert not loader._is_accelerate_prepared
    prepared = prepare_data_loader(loader, accelerator.device, torch_device_mesh=mesh)
    data = [dim for dim in mesh.mesh_dim_names if dim.startswith("dp")]
    return tuple(mesh.get_local_rank(dim) for dim in data), [(rows[:, 0] // 100).tolist() for (rows,) in prepared]


@pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is not installed")
@pytest.mark.parametrize(
    "sizes",
    [
        {"dp_shard_size": 2, "tp_size": 2},
        {"dp_replicate_size": 2, "dp_shard_size": 2},
        {"dp_shard_size": 2, "cp_size": 2},
    ],
    ids=str,
)
def test_accelerates_mesh_is_taken_whole(sizes):
    """Its Accelerator refuses a ParallelismConfig on CPUs, so that the mesh comes from the config."""
    check_rows(launch(over_accelerates_mesh, sizes, world=4), 4 if "dp_replicate_size" in sizes else 2)
