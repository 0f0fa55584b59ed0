# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(share=)` of streams: peers get what they get without it, and one of them reads."""

import itertools
import os
import re
import signal

import pytest
import torch
import torch.distributed as dist
from ranks import GONE, returned, run_ranks
from torch.utils.data import IterableDataset

import torch_distinput as tdi
from torch_distinput.loader.state._check import STATE

KINDS = ("streams", "own", "sampler", "batches")
PROBED = 3  # rows that a rank of a pipeline may look at for their type
STREAMS = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS)


class Own(IterableDataset):
    """A stream of `size` rows of part `part`, with a state. `bad`: the row that fails. `strange`: what its state
    holds."""

    def __init__(self, part, size, bad=None, strange=None):
        self.rows = range(100 * part, 100 * part + size)
        self.place, self.bad, self.strange, self.reads = 0, bad, strange, []

    def __iter__(self):
        while self.place < len(self.rows):
            row = self.rows[self.place]
            self.reads.append(row)
            if row == self.bad:
                raise KeyError(f"row {row} is bad")
            self.place += 1
            yield {"row": row, "name": f"row {row}"}
        self.place = 0

    def state_dict(self):
        return {"place": self.place, "strange": self.strange}

    def load_state_dict(self, state):
        self.place = state["place"]


def numbers(reads):
    """A pipeline whose streams are 7 ranges of different lengths."""

    def counted(row):
        reads.append(int(row))
        return {"row": row, "twice": 2 * row}

    ranges = tdi.Dataset.range(7).flat_map(lambda part: tdi.Dataset.range(100 * part, 101 * part + 3))
    return ranges.filter(lambda row: row % 5 > 0).map(counted).with_options(STREAMS)


def loader(kind, share, mesh, **arguments):
    """A loader and the list of what it reads."""
    part, reads = mesh.get_local_rank("dp"), []
    arguments = {"batch_size": 2, "peer_timeout": 20, "distributed": mesh, "share": share} | arguments
    if kind == "streams":
        return tdi.DataLoader(numbers(reads), seed=3, **arguments), reads
    if kind == "own":
        stream = Own(part, 7 + 4 * part)
        return tdi.DataLoader(stream, **arguments), stream.reads
    order = list(range(part, 19, 2 + part))
    rows = [{"row": row, "x": torch.full((2,), row)} for row in range(19)]
    if kind == "sampler":
        return tdi.DataLoader(rows, sampler=order, **arguments), reads
    del arguments["batch_size"]
    return tdi.DataLoader(rows, batch_sampler=[order[:3], order[3:4], order[4:]], **arguments), reads


def plain(value):
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def taken(each, steps=None):
    """Steps with infos and states."""
    return [
        (plain(batch), each.last_info, re.sub(r"'seed': \d+", "", str(each.state_dict())))
        for batch in itertools.islice(each, steps)
    ]


def two_epochs_and_a_resume(rank, share, kind, settings):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    seen = []
    for setting in settings:
        each, reads = loader(kind, share, mesh, **setting)
        steps = taken(each) + taken(each)
        ended = re.sub(r"'seed': \d+", "", str(each.state_dict()))
        again, _ = loader(kind, share, mesh, **setting)
        first = taken(again, 2)
        state = again.state_dict()
        again.close()
        resumed, _ = loader(kind, share, mesh, **setting)
        resumed.load_state_dict(state)
        seen.append(([steps, ended, first, taken(resumed)], sorted(reads)))
    return seen


def settings_of(kind):
    tails = ("zero_rows", "padded", "until_first") + (("merge",) if kind != "streams" else ())
    for tail in tails:
        yield {"tail": tail}
    if kind == "streams":
        yield {"tail": "drop"}
    yield {"with_info": True}


@pytest.mark.parametrize("kind", KINDS)
def test_peers_get_what_they_get_without_it(kind):
    settings = list(settings_of(kind))
    alone, shared = (
        returned(run_ranks(two_epochs_and_a_resume, 4, share, kind, settings, store="agent"))
        for share in (None, "node")
    )
    for one, other in zip(alone, shared):
        for setting, (seen, _), (wanted, _) in zip(settings, other, one):
            assert seen == wanted, setting
    if kind in ("streams", "own"):
        for number, setting in enumerate(settings):
            first, second, third, fourth = (rank[number][1] for rank in shared)
            assert max(len(second), len(fourth)) <= (PROBED if kind == "streams" else 0), setting
            assert first and first == alone[0][number][1] and third == alone[2][number][1], setting


def with_workers(rank, share):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    each, _ = loader("own", share, mesh, num_workers=2)
    iterator = iter(each)
    workers = len(iterator._workers)
    return [plain(batch) for batch in iterator], workers


def test_peers_of_a_reader_have_no_workers():
    each = [returned(run_ranks(with_workers, 4, share, store="agent", may_fork=True)) for share in (None, "node")]
    alone, shared = each
    assert [steps for steps, _ in shared] == [steps for steps, _ in alone]
    assert [workers for _, workers in shared] == [2, 0, 2, 0]


def over_hosts(rank, share, shape, timeout=20):
    mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    each, reads = loader("own", share, mesh, peer_timeout=timeout)
    try:
        return [plain(batch) for batch in each], len(reads) > 0
    except tdi.DistributedDatasetError as error:
        return str(error)


@pytest.mark.parametrize(
    ("share", "per_host", "readers"),
    [("node", 2, [0, 2]), ("node", 1, [0, 1, 2, 3]), ("broadcast", 2, [0]), ("broadcast", 1, [0])],
)
def test_who_reads(share, per_host, readers):
    ranks = returned(run_ranks(over_hosts, 4, share, (1, 4), store="agent", per_host=per_host))
    assert [reads for _, reads in ranks] == [rank in readers for rank in range(4)]
    assert all(steps == ranks[0][0] for steps, _ in ranks)


def test_hosts_that_hold_peers_in_different_ways_are_refused():
    # The peers of ranks 0 and 1 are on one host, those of ranks 2 and 3 on two.
    ranks = returned(run_ranks(over_hosts, 4, "node", (2, 2), 2, store="agent", per_host=3))
    assert "rank 1 takes and rank 3 reads" in ranks[1] and "rank 3 reads and rank 1 takes" in ranks[3]
    assert "within 2 s (`peer_timeout`) not all of them took step" in ranks[0]
    assert "within 2 s (`peer_timeout`) not all of them took step" in ranks[2]


# Who leaves, and what fails


def leaving(rank, kind, share, who, after, steps=None):
    """The steps of both peers, of which rank `who` takes `after` and the other `steps`; and how the other ends."""
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    each, _ = loader(kind, share, mesh, peer_timeout=30)
    batches = []
    try:
        for batch in itertools.islice(each, after if rank == who else steps):
            batches.append(plain(batch))
    except tdi.DistributedDatasetError as error:
        return batches, str(error), each.state_dict()[STATE]["batches"]
    if rank == who:
        each.close()
    return batches, None, None


@pytest.mark.parametrize("share", ["node", "broadcast"])
@pytest.mark.parametrize("kind", ["streams", "own"])
def test_who_takes_streams_ends_with_the_reader(kind, share):
    whole = returned(run_ranks(leaving, 2, kind, None, None, 0, store="agent"))[0][0]
    per_host = 1 if share == "broadcast" else 2
    for who in (0, 1):
        ranks = returned(run_ranks(leaving, 2, kind, share, who, 2, len(whole), store="agent", per_host=per_host))
        batches, error, position = ranks[1 - who]
        if who == 1:
            assert batches == whole and error is None
        else:
            assert batches == whole[:2] and position == 2
            assert "nobody else can read the rest of them, but rank 0 has left its loop or ended" in error


def killed(rank, kind):
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    each, _ = loader(kind, "node", mesh, peer_timeout=60)
    iterator, batches = iter(each), []
    try:
        for number in itertools.count():
            if rank == 0 and number == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            batches.append(next(iterator))
    except tdi.DistributedDatasetError as error:
        return len(batches), str(error)


@pytest.mark.parametrize("kind", ["streams", "own"])
def test_a_killed_reader_is_an_error_at_once(kind):
    gone, (steps, error) = run_ranks(killed, 2, kind, store="agent", limit=30)
    assert gone == GONE and steps == 2 and "rank 0 has left its loop or ended" in error


def failing(rank, share):
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    each = tdi.DataLoader(Own(0, 9, bad=5), 2, distributed=mesh, share=share, peer_timeout=20)
    batches = []
    try:
        for batch in each:
            batches.append(plain(batch))
    except Exception as error:  # noqa: BLE001 - it is the result
        return batches, type(error).__name__, str(error)


@pytest.mark.parametrize(("share", "per_host"), [("node", 2), ("broadcast", 1)])
def test_a_row_that_fails_is_told(share, per_host):
    (first, kind, text), (second, other, told) = run_ranks(failing, 2, share, store="agent", per_host=per_host)
    assert first == second and len(first) == 2
    assert kind == "KeyError" and "row 5 is bad" in text
    assert other == "SharingError" and "but rank 0 failed: " in told and "row 5 is bad" in told


def strange(rank):
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    each = tdi.DataLoader(Own(0, 9, strange=object()), 2, distributed=mesh, share="node", peer_timeout=20)
    with pytest.raises(TypeError) as error:
        next(iter(each))
    return str(error.value)


def test_a_state_that_cannot_be_shared_is_named():
    one, other = returned(run_ranks(strange, 2, store="agent"))
    assert one == other and "but position['inner']" in one and "is a builtins.object, which cannot:" in one
