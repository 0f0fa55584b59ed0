# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A state of a DataLoader without `seed` fixes the order of all later epochs."""

import pytest
import torch
from ranks import returned, run_ranks
from torch.utils.data import TensorDataset
from torch_datasets import Indices

import torch_distinput as tdi

KINDS = {
    "rows": lambda: TensorDataset(torch.arange(23)),
    "python": lambda: Indices(23),
    "pipeline": lambda: tdi.Dataset.range(23).shuffle(),
}


def loader_of(kind, **arguments):
    shuffle = {} if kind == "pipeline" else {"shuffle": True}
    return tdi.DataLoader(KINDS[kind](), batch_size=4, **shuffle, **arguments)


def epoch(loader):
    return [row for batch in loader for row in (batch[0] if isinstance(batch, list) else batch).tolist()]


def interrupted(loader, steps):
    """The state after `steps` steps of the second epoch, the rest of that, and two epochs more."""
    epoch(loader)
    seen, state = [], loader.state_dict() if steps == 0 else None
    for number, batch in enumerate(loader, 1):
        seen += (batch[0] if isinstance(batch, list) else batch).tolist() if state is not None else []
        if number == steps:
            state = loader.state_dict()
            torch.manual_seed(1)  # what a program does besides must not matter
    return state, [seen, epoch(loader), epoch(loader)]


def later_epochs(rank, kind, steps, arguments):
    torch.manual_seed(5)
    state, rest = interrupted(loader_of(kind, **arguments), steps)
    torch.manual_seed(100 + rank)
    resumed = loader_of(kind, **arguments)
    resumed.load_state_dict(state)
    return rest, [epoch(resumed) for _ in range(3)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [0, 2])
def test_one_process_goes_on_as_if_never_interrupted(kind, steps):
    rest, resumed = later_epochs(0, kind, steps, {})
    assert resumed == rest
    assert resumed[1] != resumed[2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [0, 2])
def test_ranks_go_on_as_if_never_interrupted(kind, steps):
    for rest, resumed in returned(run_ranks(later_epochs, 2, kind, steps, {"distributed": True})):
        assert resumed == rest
        assert resumed[1] != resumed[2]
