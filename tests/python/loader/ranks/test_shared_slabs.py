# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(share="node", device=)`: peers copy from slabs that each page-locks once. On the fake accelerator."""

import importlib
import itertools
import sys
import types

import numpy
import pytest
import torch
import torch.distributed as dist
from places import ROOT
from ranks import returned, run_ranks
from torch.utils.data import IterableDataset, TensorDataset
from torch_datasets import Indices

import torch_distinput as tdi
from torch_distinput.loader.sharing._reader_end import AHEAD

BUILD = ROOT / "build" / "release"
ROWS, BATCH = 60, 4

pytestmark = pytest.mark.skipif(
    not list(BUILD.glob("_fake_accelerator*.so")), reason="`make test-cpp` builds the fake accelerator"
)


class Rows(Indices):
    """Rows with a large field, a small one, and one that stays on the host."""

    def __getitem__(self, row):
        return {"large": torch.full((2**15,), row, dtype=torch.int32), "row": row, "name": numpy.array([row])}


class Stream(IterableDataset):
    def __iter__(self):
        rows = Rows(ROWS)
        return (rows[row] for row in range(ROWS))


def collated(samples):
    large, rows, names = zip(*(sample.values() for sample in samples))
    return {"large": torch.stack(large), "row": torch.tensor(rows), "name": numpy.stack(names)}


def loader(kind, share, mesh):
    arguments = {"distributed": mesh, "share": share, "device": "fake:0", "peer_timeout": 20}
    if kind == "rows":
        numbers = torch.arange(ROWS)
        return tdi.DataLoader(TensorDataset(numbers, numbers[:, None].expand(-1, 2**15)), BATCH, **arguments)
    data = Stream() if kind == "stream" else Rows(ROWS)
    return tdi.DataLoader(data, BATCH, collate_fn=collated, **arguments)


def plain(value):
    if isinstance(value, torch.Tensor):
        return str(value.device), value.cpu().reshape(len(value), -1)[:, [0, -1]].tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value.tolist()


def accelerator():
    """The module of the fake accelerator, which then is this process's."""
    sys.path.insert(0, str(BUILD))
    fake = importlib.import_module("_fake_accelerator")
    parts = {"is_available": lambda: True, "current_device": lambda: 0, "_is_in_bad_fork": lambda: False}
    torch._register_device_module("fake", types.SimpleNamespace(**parts, cudart=lambda: fake))
    torch.zeros(1).pin_memory()  # torch asks a device that was set up only whether memory is page-locked
    return fake


def steps(rank, kind, share, delay):
    """The steps, and what they took of the accelerator, after the first ones."""
    fake = accelerator()
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    each = loader(kind, share, mesh)
    fake.set_delay(delay)
    iterator = iter(each)
    batches = [next(iterator) for _ in range(AHEAD + 1)]
    before = fake.counts()
    batches += iterator
    now = fake.counts()
    fake.drain()
    registered = now["registered"]
    seen = [plain(batch) for batch in batches]
    return seen, {name: now[name] - before[name] for name in ("registrations", "host_allocations")}, registered


@pytest.mark.parametrize("delay", [0, 2000])
@pytest.mark.parametrize("kind", ["python", "rows", "stream"])
def test_peers_get_what_they_get_without_it(kind, delay):
    alone, shared = (
        returned(run_ranks(steps, 2, kind, share, delay, store="agent", may_fork=True)) for share in (None, "node")
    )
    assert [seen for seen, *_ in shared] == [seen for seen, *_ in alone]
    assert len(shared[0][0]) == ROWS // BATCH
    _, (_, taken, registered) = shared
    assert taken["registrations"] == 0 and registered > 0, shared[1][1:]


def leaving(rank, who):
    """All steps of the peers that stay, while copies of the one that leaves are slow."""
    fake = accelerator()
    mesh = dist.init_device_mesh("cpu", (1, 3), mesh_dim_names=("dp", "tp"))
    each = loader("python", "node", mesh)
    fake.set_delay(20_000 if rank == who else 0)
    batches = list(itertools.islice(each, 3 if rank == who else len(each)))
    each.close()
    dist.barrier()
    return [plain(batch) for batch in batches]


@pytest.mark.parametrize("who", [0, 1])
def test_copies_of_a_peer_that_leaves_are_whole(who):
    ranks = returned(run_ranks(leaving, 3, who, store="agent", may_fork=True))
    left = ranks.pop(who)
    assert ranks[0] == ranks[1] and left == ranks[0][:3] and len(ranks[0]) == ROWS // BATCH
