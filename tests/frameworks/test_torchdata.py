# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What scripts for torchdata's StatefulDataLoader and torchtitan's dataloader rely on."""

import copy
import os
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks import returned, run_ranks
from torch.utils import data

import torch_distinput as tdi
from torch_distinput.loader._data_loader import progress_of

ROOT = Path(__file__).resolve().parents[2]


def rows(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("every", [None, 1, 7])
def test_the_interval_of_snapshots_is_taken(every):
    loader = tdi.DataLoader(range(20), 3, snapshot_every_n_steps=every)
    assert loader.snapshot_every_n_steps == every
    iterator = iter(loader)
    next(iterator)
    again = tdi.DataLoader(range(20), 3, snapshot_every_n_steps=every)
    again.load_state_dict(loader.state_dict())
    assert rows(again) == rows(iterator)


def test_an_interval_that_is_none_is_refused():
    with pytest.raises(ValueError, match="`snapshot_every_n_steps` must be at least 1, but is 0"):
        tdi.DataLoader(range(20), snapshot_every_n_steps=0)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_state_of_torchdatas_loader_names_the_way_to_go_on(workers):
    stateful_dataloader = pytest.importorskip("torchdata.stateful_dataloader")
    theirs = stateful_dataloader.StatefulDataLoader(range(20), 3, num_workers=workers)
    next(iter(theirs))
    loader = tdi.DataLoader(range(20), 3)
    with pytest.raises(ValueError, match="state of torchdata's StatefulDataLoader.*from the next epoch on"):
        loader.load_state_dict(theirs.state_dict())
    assert len(rows(loader)) == 7


class TorchsInit(tdi.DataLoader):
    """A subclass that knows torch's constructor only."""

    def __init__(self, dataset, **arguments):
        data.DataLoader.__init__(self, dataset, **arguments)


def test_a_subclass_that_calls_torchs_constructor_has_all_attributes():
    loader = TorchsInit(range(10), batch_size=4)
    for same in (loader, copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        assert rows(same) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert loader.distributed is None and loader.last_info is None and len(loader) == 3 and "native" in loader.explain()
    iterator = iter(loader)
    next(iterator)
    again = TorchsInit(range(10), batch_size=4)
    again.load_state_dict(loader.state_dict())
    again.set_epoch(2)
    assert rows(again) == rows(iterator)
    assert progress_of(TorchsInit(range(10))) is not progress_of(loader)


class Numbers(data.IterableDataset):
    """Data rank r's own: 10 r, 10 r + 1, ..."""

    def __init__(self, rank):
        self.first, self.next = 10 * rank, 0

    def __iter__(self):
        while self.next < 7:
            self.next += 1
            yield self.first + self.next - 1
        self.next = 0

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


def dataset_of(kind, rank):
    return torch.arange(29) if kind == "rows" else Numbers(rank)


# One that is installed and cannot be adapted is a failure, not a reason to skip.
needs_torchtitan = pytest.mark.skipif(find_spec("torchtitan") is None, reason="torchtitan is not installed")


def of_torchtitan(rank, kind, folder, world_before, stop):
    from torch_distinput.frameworks import torchtitan

    world = dist.get_world_size()
    loader = torchtitan.DataLoader(
        dataset_of(kind, rank), rank, world, batch_size=2 * 4 // world, snapshot_every_n_steps=3
    )
    assert isinstance(loader, torchtitan.BaseDataLoader)
    if world_before:
        dcp.load({"dataloader": loader}, checkpoint_id=folder)
    iterator = iter(loader)
    seen = [next(iterator).tolist() for _ in range(stop)]
    if not world_before:
        dcp.save({"dataloader": loader}, checkpoint_id=folder)
    return seen, rows(iterator)


@needs_torchtitan
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "world"), [("rows", 2), ("rows", 4), ("streams", 2)])
def test_torchtitans_checkpoints_hold_the_position(kind, world, tmp_path):
    before = returned(run_ranks(of_torchtitan, 2, kind, str(tmp_path), 0, 2, limit=100))
    after = returned(run_ranks(of_torchtitan, world, kind, str(tmp_path), 2, 0, limit=100))
    seen = [row for seen, _ in before for part in seen for row in part]
    rest = [row for _, rest in after for part in rest for row in part]
    everything = list(range(29)) if kind == "rows" else [*range(7), *range(10, 17)]
    assert sorted(seen + rest) == everything
    if world == 2:
        assert [rest for _, rest in after] == [rest for _, rest in before]


def of_another_group(rank):
    from torch_distinput.frameworks import torchtitan

    torchtitan.DataLoader(range(9), rank // 2, 2)


@needs_torchtitan
def test_torchtitans_data_ranks_are_those_of_the_group():
    for rank, error in enumerate(run_ranks(of_another_group, 4, limit=100)):
        assert isinstance(error, ValueError) and f"this process is {rank} of 4; pass the mesh dimension" in str(error)


def stand_in(folder, **files):
    """Makes a package `torchtitan` of these modules below `components`; returns what the adapter's import says."""
    for name, text in files.items():
        module = folder / "torchtitan" / "components" / Path(*name.split("__"))
        module.parent.mkdir(parents=True, exist_ok=True)
        module.with_suffix(".py").write_text(text)
    code = "from torch_distinput.frameworks.torchtitan import BaseDataLoader; print(BaseDataLoader.__module__)"
    paths = os.pathsep.join([str(folder), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ | {"PYTHONPATH": paths},
    )
    return (done.stdout or done.stderr).splitlines()[-1]


def test_torchtitans_base_class_is_found_where_its_versions_have_it(tmp_path):
    base = "class BaseDataLoader: pass"
    assert stand_in(tmp_path / "old", dataloader=base) == "torchtitan.components.dataloader"
    assert stand_in(tmp_path / "new", data__loader=base) == "torchtitan.components.data.loader"


def test_a_torchtitan_that_cannot_be_adapted_is_an_error_that_says_so(tmp_path):
    error = stand_in(tmp_path / "next", dataloader="class Renamed: pass")
    assert error.startswith(
        "ImportError: torch_distinput.frameworks.torchtitan: this torchtitan has no `BaseDataLoader`"
    )
    assert "No module named 'grain_'" in stand_in(tmp_path / "broken", data__loader="import grain_")
