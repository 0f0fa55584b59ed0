# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ranks of a mesh that get the same rows compare them."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import GONE, returned, run_ranks
from torch.utils.data import IterableDataset

import torch_distinput as tdi
from torch_distinput.loader.ranks._batch_digest import BatchDigest
from torch_distinput.loader.ranks._peer_check import PeerCheck

STEPS = 70  # so that steps 0, 32, 64 and the end are compared


class Numbers(IterableDataset):
    def __init__(self, numbers):
        self.numbers = numbers

    def __iter__(self):
        return ({"x": torch.tensor([float(number)]), "name": f"row {number}"} for number in self.numbers)


def read(rank, data):
    """What a rank of two data-parallel groups of two peers reads: the number of steps, or the error."""
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    numbers = list(range(2 * STEPS))
    if rank == 1 and data == "another row":
        numbers[2 * 32 + 1] = -1
    if rank == 3 and data == "another seed":
        numbers.reverse()
    if rank == 2 and data == "another end":
        del numbers[-2:]
    loader = tdi.DataLoader(Numbers(numbers), 2, distributed=mesh, peer_timeout=20)
    try:
        return [sum(1 for _ in loader) for _ in range(2 if data == "the same" else 1)]
    except tdi.DistributedDatasetError as error:
        return str(error)


def test_peers_that_get_the_same_rows_see_nothing_of_it():
    assert returned(run_ranks(read, 4, "the same", store="agent")) == [[STEPS, STEPS]] * 4


def test_all_peers_name_the_rank_with_another_row_and_its_step():
    ranks = returned(run_ranks(read, 4, "another row", store="agent"))
    for text in ranks[:2]:
        assert text.startswith("DataLoader: ranks 0, 1 must get the same rows of the mesh, but got rank 0: step 32 of")
        assert "; rank 1: step 32 of epoch 0 with 2 of 4 rows after 64 rows, digest " in text
    assert ranks[0] == ranks[1]


def test_all_peers_name_the_rank_in_another_order():
    ranks = returned(run_ranks(read, 4, "another seed", store="agent"))
    assert ranks[2] == ranks[3] and "ranks 2, 3 must get" in ranks[2] and "rank 3: step 0 of" in ranks[2]


def test_streams_that_end_elsewhere_are_named():
    ranks = returned(run_ranks(read, 4, "another end", store="agent"))
    assert ranks[2] == ranks[3]
    assert f"rank 2: the end after {STEPS} steps and {2 * STEPS - 2} rows" in ranks[2]


def of_map_style(rank, kind):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    rows = tdi.Dataset.range(300).shuffle() if kind == "pipeline" else torch.arange(300)
    loader = tdi.DataLoader(rows, 2, shuffle=None if kind == "pipeline" else True, distributed=mesh)
    iterator = iter(loader)
    seen = [next(iterator).tolist() for _ in range(40)]
    state = loader.state_dict()
    again = tdi.DataLoader(rows, 2, shuffle=None if kind == "pipeline" else True, distributed=mesh)
    again.load_state_dict(state)
    seen += [batch.tolist() for batch in again]
    return seen, "rows are dealt along dp; ranks" in str(loader.explain())


@pytest.mark.parametrize("kind", ["rows", "pipeline"])
def test_peers_agree_where_seeds_are_drawn_and_states_loaded(kind):
    ranks = returned(run_ranks(of_map_style, 4, kind, store="agent"))
    assert ranks[0] == ranks[1] and ranks[2] == ranks[3]
    assert sorted(row for rank in (0, 2) for batch in ranks[rank][0] for row in batch) == list(range(300))
    assert ranks[0][1]


def dies(rank, kind):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    rows = tdi.Dataset.range(10_000_000) if kind == "pipeline" else Numbers(range(10_000_000))
    for number, _ in enumerate(tdi.DataLoader(rows, 4, distributed=mesh, peer_timeout=10)):
        if rank == 3 and number == 50:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.001)  # the training step


@pytest.mark.parametrize("kind", ["pipeline", "stream"])
def test_a_killed_rank_of_a_mesh_ends_all_others(kind):
    """Rows are dealt to ranks 1 and 3. Peers of rank 1 hear of its failure, and peers of the dead one miss it."""
    ranks = run_ranks(dies, 4, kind, store="agent", limit=60)
    assert ranks.pop(3) == GONE
    assert all(isinstance(error, tdi.DistributedDatasetError) for error in ranks)
    assert "rank 1 on host" in str(ranks[1])
    assert "(Numbered are the 2 ranks that rows are dealt to: ranks 1, 3 of the job.)" in str(ranks[1])
    if kind == "pipeline":  # a stream's rank 0 may wait for rank 2, which misses its peer, instead
        assert re.search(r"rank 1: no step after \d+ steps, because it failed: .* ended unexpectedly", str(ranks[0]))


def bad_row(rank):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

    def one(row):
        if rank == 1 and int(row) == 296:
            raise LookupError("row 296 is bad")
        return row

    for _ in tdi.DataLoader(tdi.Dataset.range(100_000).map(one), 4, distributed=mesh, peer_timeout=10):
        pass


def test_peers_are_told_why_a_rank_failed():
    ranks = run_ranks(bad_row, 4, store="agent")
    assert isinstance(ranks[1], LookupError)
    for rank in (0, 2, 3):
        assert isinstance(ranks[rank], tdi.DistributedDatasetError)
    # Rank 2, which rank 3 has told, may leave before rank 0 looks at what its peer says.
    assert re.search("because it failed: row 296 is bad|rank 1 left its loop", str(ranks[0]))
    assert "ranks 1, 3 of the job" in str(ranks[3])


# The digest


def batches():
    shapes = st.lists(st.integers(0, 5), min_size=1, max_size=3)
    dtypes = st.sampled_from([torch.uint8, torch.int64, torch.float32, torch.bool, torch.complex64, torch.bfloat16])
    tensors = st.builds(
        lambda shape, dtype, seed: torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(seed)).to(dtype),
        shapes,
        dtypes,
        st.integers(0, 3),
    )
    leaves = tensors | st.text(max_size=3) | st.integers(-5, 5) | st.none()
    return st.recursive(
        leaves, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=2), inside, max_size=3)
    )


def same(one, other):
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and same(list(one.values()), list(other.values()))
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@settings(max_examples=300, deadline=None)
@given(batches(), batches())
def test_digests_are_equal_for_equal_batches_only(one, other):
    assert (BatchDigest(one).value() == BatchDigest(other).value()) == same(one, other)


def test_digests_look_at_all_parts_of_large_tensors():
    rows = torch.arange(100 * 1000, dtype=torch.float32).reshape(100, 1000)
    digest = BatchDigest(rows).value()
    assert digest == BatchDigest(rows.t().contiguous().t()).value()
    for row in range(100):
        changed = rows.clone()
        changed[row] += 1
        assert BatchDigest(changed).value() != digest


def test_digests_tell_orders_apart():
    rows = torch.arange(12).reshape(4, 3)
    for other in (rows.flip(0), rows.flip(1), rows[[1, 0, 2, 3]]):
        assert BatchDigest(other).value() != BatchDigest(rows).value()
    assert BatchDigest([rows, rows + 1]).value() != BatchDigest([rows + 1, rows]).value()


def test_digests_of_other_layouts():
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)], layout=torch.jagged)
    other = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    assert BatchDigest(ragged).value() != BatchDigest(other).value()
    sparse = torch.eye(3).to_sparse()
    assert BatchDigest(sparse).value() != BatchDigest(2 * sparse).value()
    assert BatchDigest(sparse).value() == BatchDigest(torch.eye(3).to_sparse()).value()


# The check alone, over a store in this process


class TwoPeers:
    """As `Peers`, of rank `rank` of two."""

    def __init__(self, store, rank):
        self.ranks, self.rank, self.next_store = (0, 1), rank, lambda: store


def step(number):
    return tdi.StepInfo(0, number, 2 * number, (2,), 2, 1, (1.0,), False, (True,))


def take_steps(count, store, rank):
    check = PeerCheck(TwoPeers(store, rank), 20)
    for number in range(count):
        check.after_step(step(number), torch.tensor([number]))
    return check


def test_a_peer_that_leaves_its_loop_is_not_waited_for():
    store = dist.HashStore()
    take_steps(5, store, 1).leave()
    begin = time.monotonic()
    with pytest.raises(tdi.DistributedDatasetError, match="rank 1: no step after 5 steps, digest"):
        take_steps(64 + 1, store, 0).at_end()
    assert time.monotonic() - begin < 10


def test_a_peer_may_be_less_than_32_steps_behind():
    store = dist.HashStore()
    behind = take_steps(33, store, 1)
    ahead = take_steps(65, store, 0)  # does not wait, although nobody else has come so far
    for number in range(33, 65):
        behind.after_step(step(number), torch.tensor([number]))
    with ThreadPoolExecutor(2) as threads:
        for ended in [threads.submit(check.at_end) for check in (ahead, behind)]:
            ended.result(20)


def test_an_iterator_leaves_few_keys_however_many_steps_it_has():
    store = dist.HashStore()
    with ThreadPoolExecutor(2) as threads:
        for taken in [threads.submit(take_steps, 32 * 40, store, rank) for rank in (0, 1)]:
            taken.result(20).leave()
    assert store.num_keys() <= 2 * 7
