# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Whole meshes: which processes rows are dealt to, which get the same ones, and what is refused."""

import itertools

import pytest
import torch
import torch.distributed as dist
from processes import run_script
from ranks import returned, run_ranks

import torch_distinput as tdi
from torch_distinput.distribute._mesh import DATA_DIMS, place_in

ROWS = 23
NAMES = ("dp_replicate", "dp_shard", "tp")
ORDERS = list(itertools.permutations(NAMES))


def sampled(rank, shapes):
    """For each mesh of `shapes`: coordinates by name, place, and the rows of two epochs."""
    found = []
    for shape, names, data_dims in shapes:
        mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=names)
        place = place_in("op", "mesh", mesh, data_dims)
        loader = tdi.DataLoader(torch.arange(ROWS), 2, shuffle=True, distributed=mesh, data_dims=data_dims)
        rows = [[batch.tolist() for batch in loader] for _ in range(2)]
        strategy = tdi.MultiWorkerMirroredStrategy(mesh, data_dims=data_dims)
        parts = strategy.distribute_dataset(tdi.Dataset.range(ROWS).shuffle().batch(8))
        seen = [strategy.experimental_local_results(part)[0].tolist() for part in parts]
        coordinates = dict(zip(names, mesh.get_coordinate()))
        found.append((coordinates, place.dims, place.group.rank(), place.peers, place.others, rows, seen))
    return found


def check_rows(ranks, names, shape, dims):
    """Ranks with one data coordinate get the same rows, and together each data coordinate gets each row once."""
    sizes = dict(zip(names, shape))
    by_coordinate = {}
    for rank, (coordinates, along, place, peers, others, rows, seen) in enumerate(ranks):
        assert along == tuple(name for name in names if name in dims and sizes[name] > 1)
        data = tuple(coordinates[name] for name in along)
        index = 0
        for name in along:
            index = index * sizes[name] + coordinates[name]
        assert place == index
        assert others == {
            name: (coordinates[name], sizes[name]) for name in names if name not in dims and sizes[name] > 1
        }
        first = by_coordinate.setdefault(data, (peers, rows, seen))
        assert first == (peers, rows, seen) and rank in peers
    assert sorted(rank for peers, *_ in by_coordinate.values() for rank in peers) == list(range(len(ranks)))
    for epoch in range(2):
        steps = [rows[epoch] for _, rows, _ in by_coordinate.values()]
        assert len({len(one) for one in steps}) == 1
        assert sorted(row for one in steps for batch in one for row in batch) == list(range(ROWS))
    assert sorted(row for *_, seen in by_coordinate.values() for batch in seen for row in batch) == list(range(ROWS))


def test_rows_of_cubes_are_dealt_along_the_data_dims_in_all_orders():
    shapes = [((2, 2, 2), names, None) for names in ORDERS]
    ranks = returned(run_ranks(sampled, 8, shapes))
    for number, (shape, names, _) in enumerate(shapes):
        check_rows([found[number] for found in ranks], names, shape, DATA_DIMS)


def test_rows_of_other_shapes_and_names():
    shapes = [
        ((4, 2), ("dp", "tp"), None),
        ((2, 4), ("pp", "fsdp"), None),
        ((8, 1), ("tp", "dp"), None),  # all get all rows
        ((8,), ("tp",), None),
        ((1, 8, 1), ("ddp", "fsdp", "unheard_of"), None),
        ((2, 2, 2), ("rows", "more_rows", "tp"), ("rows", "more_rows")),
        ((2, 2, 2), ("dp", "cp", "tp"), ("dp", "cp")),
    ]
    ranks = returned(run_ranks(sampled, 8, shapes))
    for number, (shape, names, data_dims) in enumerate(shapes):
        check_rows([found[number] for found in ranks], names, shape, data_dims or DATA_DIMS)


def refused(rank):
    def text(names, data_dims=None, shape=(2, 2), **arguments):
        mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=names)
        with pytest.raises(ValueError) as error:
            tdi.DataLoader(range(4), distributed=arguments.get("distributed", mesh), data_dims=data_dims)
        return str(error.value)

    texts = [text(("dp", "blue")), text(None), text(("dp", "tp"), ["pd"]), text(("dp", "tp"), ["dp"], distributed=True)]
    half = dist.DeviceMesh("cpu", torch.tensor([[0], [1]]), mesh_dim_names=("dp", "tp"))
    if rank > 1:
        with pytest.raises(ValueError) as error:
            tdi.DataLoader(range(4), distributed=half)
        texts.append(str(error.value))
    turned = dist.DeviceMesh("cpu", torch.tensor([[3, 1], [2, 0]]), mesh_dim_names=("dp", "tp"))
    with pytest.raises(ValueError) as error:
        tdi.MultiWorkerMirroredStrategy(turned)
    return texts, str(error.value)


def test_meshes_that_do_not_say_how_rows_are_dealt_are_refused():
    ranks = returned(run_ranks(refused, 4))
    for rank, (texts, turned) in enumerate(ranks):
        assert "nothing says whether rows are dealt along 'blue' of a mesh of 'dp', 'blue'" in texts[0]
        assert "a mesh of 2 dims without names" in texts[1] and "mesh_dim_names=" in texts[1]
        assert "`data_dims` names 'pd', but the dims of the mesh are 'dp', 'tp'" in texts[2]
        assert texts[3] == "DataLoader: `data_dims` names dims of a DeviceMesh, which `distributed` is not."
        assert all(text.startswith("DataLoader: ") for text in texts)
        assert "must be in ascending order" in turned
        if rank > 1:
            assert texts[4] == f"DataLoader: this process (rank {rank}) does not belong to `distributed`."


def test_dims_without_processes_are_ignored():
    """One process that plays one of eight, as torchtitan's dry runs do."""
    ended = run_script(
        """
        import torch
        import torch.distributed as dist
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
        mesh = dist.init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "tp"))
        print([batch.tolist() for batch in tdi.DataLoader(torch.arange(5), 2, distributed=mesh)])
        """
    )
    assert ended.stdout == "[[0, 1], [2, 3], [4]]\n", ended.stderr
