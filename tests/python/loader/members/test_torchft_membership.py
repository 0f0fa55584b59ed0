# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The adapter to torchft, with a stand-in for its Manager; tests/frameworks/test_torchft.py has the real one."""

import pytest
import torch
import torch.distributed as dist

import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput.frameworks.torchft import TorchFTMembership


class Manager:
    """What the adapter asks a `torchft.Manager`. `coming`: rank, groups and step that the next quorum has."""

    def __init__(self, *coming):
        self.coming, self.now, self.quorums, self.zeroes = coming, (None, 0, 0), 0, False

    def start_quorum(self):
        self.now = self.coming
        self.quorums += 1

    def participating_rank(self):
        return self.now[0]

    def num_participants(self):
        return self.now[1]

    def is_participating(self):
        return self.now[0] is not None and not self.zeroes

    def current_step(self):
        return self.now[2]


def _loader(manager, **place):
    membership = TorchFTMembership(manager, **place)
    return tdi.DataLoader(torch.arange(12), global_batch_size=6, membership=membership)


def test_each_batch_is_that_of_a_quorum_and_an_epoch_ends_without_one():
    manager = Manager(1, 2, 0)
    loader = _loader(manager)
    batches = []
    for batch in loader:
        batches.append(batch.tolist())
        loader.commit(True)
        manager.coming = (1, 2, loader.committed_steps)
    assert batches == [[3, 4, 5], [9, 10, 11]]
    assert manager.quorums == 2


def test_a_group_goes_on_at_the_step_of_the_others():
    loader = _loader(Manager(0, 1, 3))
    assert next(iter(loader)).tolist() == [6, 7, 8, 9, 10, 11]
    assert (loader.last_info.epoch, loader.last_info.step) == (1, 1)


def test_processes_of_a_group_share_its_part():
    parts = [next(iter(_loader(Manager(1, 2, 0), rank=rank, ranks=3))).tolist() for rank in range(3)]
    assert parts == [[3], [4], [5]]


def test_a_group_whose_gradients_torchft_would_zero_is_told():
    manager = Manager(0, 2, 0)
    manager.zeroes = True
    with pytest.raises(RuntimeError, match="`init_sync=False` to the Manager, or pass `use_async_quorum=False`"):
        next(iter(_loader(manager)))


def test_a_quorum_after_the_batch_must_not_change_the_part():
    manager = Manager(0, 2, 0)
    loader = _loader(manager)
    steps = iter(loader)
    next(steps)
    manager.start_quorum()
    loader.commit(True)
    manager.coming = (0, 2, 1)
    next(steps)
    manager.coming = (0, 1, 1)
    manager.start_quorum()
    with pytest.raises(RuntimeError, match="members of step 1 have changed since its rows were dealt to 2"):
        loader.commit(True)


def test_generations_go_up_where_the_part_changes():
    manager = Manager(0, 2, 0)
    membership = TorchFTMembership(manager)
    generations = []
    for manager.coming in [(0, 2, 0), (0, 2, 1), (0, 1, 2), (None, 1, 2), (0, 1, 3)]:
        generations.append(membership.begin_step().generation)
    assert generations == [0, 0, 1, 2, 3]


def test_a_place_in_a_group_is_below_its_size():
    with pytest.raises(ValueError, match="`rank` must be less than `ranks`, but is 2 of 2"):
        TorchFTMembership(Manager(0, 1, 0), rank=2, ranks=2)


class Summed:
    """An all-reduce of groups whose tensors the test has: `others`, one list for each call. `error`: what fails."""

    def __init__(self, *others, error=None):
        self.others, self.error = list(others), error

    def allreduce(self, tensor, reduce_op):
        assert reduce_op == dist.ReduceOp.SUM
        tensor += torch.tensor(self.others.pop(0), dtype=tensor.dtype)
        return self

    def wait(self):
        return True

    def errored(self):
        return self.error


@pytest.mark.parametrize("index", [0, 1, None])
def test_groups_tell_each_other_bytes_by_two_sums(index):
    texts = [b"abc", b"\xff"]
    others = [b"" if member == index else text for member, text in enumerate(texts)]
    lengths = [len(text) for text in others]
    texts_of_others = [0 if member == index else byte for member, text in enumerate(texts) for byte in text]
    membership = TorchFTMembership(Summed(lengths, texts_of_others))
    data = b"left out" if index is None else texts[index]
    assert membership.all_gather(tdi.StepMembers(0, index, 2), data) == texts


def test_groups_of_which_one_is_lost_tell_nothing():
    membership = TorchFTMembership(Summed([0], error=RuntimeError("gone")))
    assert membership.all_gather(tdi.StepMembers(0, 0, 1), b"abc") is None


@pytest.mark.parametrize("length", [-9, 2**24])
def test_lengths_that_no_group_can_have_told_are_refused(length):
    membership = TorchFTMembership(Summed([length]))
    with pytest.raises(_C.DistributedDatasetError, match="each member tells up to 16777216 bytes of a step"):
        membership.all_gather(tdi.StepMembers(0, 0, 1), b"abc")


def test_processes_of_a_group_do_not_tell_each_other():
    membership = TorchFTMembership(Summed(), ranks=2)
    with pytest.raises(NotImplementedError, match="pass `ranks=1`, or leave `AutoShardPolicy.STREAMS` out"):
        membership.all_gather(tdi.StepMembers(0, 0, 2), b"abc")
