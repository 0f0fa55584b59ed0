# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What scripts for torchdata's StatefulDataLoader rely on."""

import copy
import pickle

import pytest
from torch.utils import data

import torch_distinput as tdi
from torch_distinput.loader._data_loader import progress_of


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
