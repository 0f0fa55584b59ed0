# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(share=)`: peers get what they get without it, and each row is read once a host."""

import itertools
import multiprocessing
import os
import re
import signal

import numpy
import pytest
import torch
import torch.distributed as dist
from network_hosts import network
from ranks import GONE, returned, run_ranks
from torch_datasets import Indices

import torch_distinput as tdi
from torch_distinput.loader.sharing import _network_link
from torch_distinput.loader.state._check import STATE

ROWS, BATCH = 23, 2
KINDS = ("python", "rows", "pipeline", "stream")


class Rows(Indices):
    """Rows of each kind of value; `reads` counts them. `bad`: the row that fails; `strange`: the one whose value cannot
    be shared."""

    def __init__(self, size=ROWS, bad=None, strange=None):
        super().__init__(size)
        self.reads, self.bad, self.strange = [], bad, strange

    def __getitem__(self, row):
        self.reads.append(row)
        if row == self.bad:
            raise KeyError(f"row {row} is bad")
        value = object() if row == self.strange else None
        return {
            "row": row,
            "x": torch.full((3,), float(row)),
            "name": f"row {row}",
            "bytes": b"%d" % row,
            "value": value,
        }


def collated(samples):
    names = tuple(sample["name"] for sample in samples)
    values = [sample["value"] for sample in samples]
    rows = numpy.array([sample["row"] for sample in samples])
    return {"x": torch.stack([sample["x"] for sample in samples]), "rows": rows, "names": (names, values)}


def dataset(kind):
    if kind == "python":
        return Rows()
    if kind == "rows":
        return [torch.arange(ROWS), torch.arange(2 * ROWS).reshape(ROWS, 2)]
    numbered = tdi.Dataset.range(ROWS).map(lambda row: {"row": row, "twice": 2 * row})
    return numbered.filter(lambda element: True) if kind == "stream" else numbered.shuffle()


def loader(kind, share, mesh, **arguments):
    data = dataset(kind)
    arguments = {"batch_size": BATCH, "seed": 5, "peer_timeout": 20} | arguments
    if kind == "rows":
        data = torch.utils.data.TensorDataset(*data)
    if kind in ("pipeline", "stream"):
        arguments["shuffle"] = None
    elif not arguments.get("shuffle"):
        arguments["seed"] = None
    if kind == "python":
        arguments["collate_fn"] = collated
    return data, tdi.DataLoader(data, distributed=mesh, share=share, **arguments)


def plain(value):
    if isinstance(value, (torch.Tensor, numpy.ndarray)):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def state_of(each):
    """The state, without the seeds that ranks draw where the user gives none."""
    return re.sub(r"'seed': \d+", "", str(each.state_dict()))


def taken(each, steps=None):
    return [(plain(batch), each.last_info, state_of(each)) for batch in itertools.islice(each, steps)]


def both(program, world, *args, **options):
    """What `program` returns without and with `share`."""
    return [returned(run_ranks(program, world, share, *args, store="agent", **options)) for share in (None, "node")]


def two_epochs_and_a_resume(rank, share, kind, settings):
    """Of each setting: the steps, then those after the state of step 2; and what torch's generator draws next."""
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    seen = []
    for setting in settings:
        torch.manual_seed(7)
        data, each = loader(kind, share, mesh, **setting)
        steps = taken(each) + taken(each)
        reads = sorted(data.reads) if kind == "python" else None
        _, again = loader(kind, share, mesh, **setting)
        first = taken(again, 2)
        state = again.state_dict()
        again.close()
        _, resumed = loader(kind, share, mesh, **setting)
        resumed.load_state_dict(state)
        seen.append((steps, first, taken(resumed), each.cardinality(), torch.rand(1).item(), reads))
    return seen


def settings_of(kind):
    for shuffle, split, tail in itertools.product((False, True), ("balanced", "tf"), ("zero_rows", "padded", "drop")):
        yield {"shuffle": shuffle, "split": split, "tail": tail}
    yield {"tail": "repeat", "batch_size": 3}
    if kind != "stream":
        yield {"tail": "merge", "global_batch_size": 11, "batch_size": 1}
    if kind in ("pipeline", "rows"):
        yield {"num_workers": 2, "prefetch_factor": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_peers_get_what_they_get_without_it(kind):
    settings = list(settings_of(kind))
    alone, shared = both(two_epochs_and_a_resume, 4, kind, settings)
    for one, other in zip(alone, shared):
        for setting, (*seen, _), (*wanted, _) in zip(settings, other, one):
            assert seen == wanted, setting
    if kind == "python":
        for number, setting in enumerate(settings):
            first, second, third, fourth = (rank[number][-1] for rank in shared)
            assert second == [] == fourth, setting
            assert first == alone[0][number][-1] and third == alone[2][number][-1], setting


def with_workers(rank, share):
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(7)
    _, each = loader("python", share, mesh, num_workers=2)
    iterator = iter(each)
    first = plain(next(iterator))
    workers = len(multiprocessing.active_children())
    return [first, *map(plain, iterator)], torch.rand(1).item(), workers


def test_peers_of_a_reader_have_no_workers_and_draw_the_same_numbers():
    alone, shared = both(with_workers, 2, may_fork=True)
    assert [(steps, drawn) for steps, drawn, _ in shared] == [(steps, drawn) for steps, drawn, _ in alone]
    assert [workers for *_, workers in alone] == [2, 2] and [workers for *_, workers in shared] == [2, 0]


def reads_of_all_peers(rank, share):
    mesh = dist.init_device_mesh("cpu", (1, 4), mesh_dim_names=("dp", "tp"))
    data, each = loader("python", share, mesh, shuffle=True)
    steps = taken(each) + taken(each)
    made = []

    def counted(row):
        made.append(int(row))
        return row

    for numbers in (tdi.Dataset.range(ROWS).shuffle(), tdi.Dataset.range(ROWS).filter(lambda row: row >= 0)):
        numbered = tdi.DataLoader(numbers.map(counted), BATCH, distributed=mesh, share=share, seed=5, peer_timeout=20)
        steps += taken(numbered)
        rows = set(made)
        data.reads += rows if len(rows) > PROBED else ()
        made.clear()
    return steps, sorted(data.reads), str(each.explain())


PROBED = 3  # rows that each rank of a pipeline looks at, to compare its data with that of other ranks
EACH_ROW = sorted([*range(ROWS)] * 4)  # in two epochs of one loader, and one of two others


@pytest.mark.parametrize(
    ("share", "per_host", "readers"),
    [
        ("node", 2, [0, 2]),
        ("node", 1, [0, 1, 2, 3]),
        ("broadcast", 2, [0]),
        ("broadcast", 1, [0]),
        ("broadcast", 4, [0]),
    ],
)
def test_who_reads(share, per_host, readers):
    ranks = returned(run_ranks(reads_of_all_peers, 4, share, per_host=per_host, store="agent"))
    assert all(steps == ranks[0][0] for steps, *_ in ranks)
    assert [reads for _, reads, _ in ranks] == [EACH_ROW if rank in readers else [] for rank in range(4)]
    told = "read once on each host" if share == "node" else "read once for all of them"
    assert f"ranks 0, 1, 2, 3 get the same ones, {told}\n" in ranks[0][2]


def test_batches_go_over_a_network():
    with network(2) as hosts:
        ranks = returned(
            run_ranks(
                reads_of_all_peers,
                4,
                "broadcast",
                per_host=2,
                network=hosts,
                store="rank 0",
                GLOO_SOCKET_IFNAME="eth0",
            )
        )
    assert all(steps == ranks[0][0] for steps, *_ in ranks)
    assert [reads for _, reads, _ in ranks] == [EACH_ROW, [], [], []]


def reads_without_a_way(rank):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_network_link, "own_hosts", lambda store: ())
        return reads_of_all_peers(rank, "broadcast")


def test_a_host_that_cannot_be_reached_reads():
    ranks = returned(run_ranks(reads_without_a_way, 4, per_host=2, store="agent"))
    assert all(steps == ranks[0][0] for steps, *_ in ranks)
    assert [reads for _, reads, _ in ranks] == [EACH_ROW, [], EACH_ROW, []]


# Who leaves


def leaving(rank, kind, who, after, share="node"):
    """The steps of both peers where rank `who` leaves its loop after `after` steps."""
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    data, each = loader(kind, share, mesh, peer_timeout=60)
    steps = after if rank == who else len(each)
    batches = [plain(batch) for batch in itertools.islice(each, steps)]
    if rank != who:
        batches += [each.state_dict()[STATE]["batches"]]
    return batches, getattr(data, "reads", None)


@pytest.mark.parametrize(("kind", "share"), [("python", "node"), ("pipeline", "node"), ("python", "broadcast")])
@pytest.mark.parametrize("who", [0, 1])
def test_a_peer_that_leaves_early_does_not_keep_the_other(kind, share, who):
    whole = returned(run_ranks(leaving, 2, kind, None, 0, store="agent"))[0][0]
    per_host = 1 if share == "broadcast" else 2
    ranks = returned(run_ranks(leaving, 2, kind, who, 2, share, store="agent", per_host=per_host))
    assert ranks[who][0] == whole[:2] and ranks[1 - who][0] == whole
    if kind == "python" and who == 0:
        assert ranks[1][1] == list(range(2 * BATCH, ROWS))


def killed(rank, kind, share):
    """The steps of a peer whose reader is killed while it reads step 3."""
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    _, each = loader(kind, share, mesh, peer_timeout=60)
    batches = []
    for number in range(len(each)):
        if number == 0:
            iterator = iter(each)
        if rank == 0 and number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        batches.append(plain(next(iterator)))
    return batches


@pytest.mark.parametrize(("kind", "share"), [("python", "node"), ("pipeline", "node"), ("pipeline", "broadcast")])
def test_peers_of_a_killed_reader_go_on(kind, share):
    whole = returned(run_ranks(leaving, 2, kind, None, 0, store="agent"))[0][0]
    per_host = 1 if share == "broadcast" else 2
    gone, batches = run_ranks(killed, 2, kind, share, store="agent", limit=30, per_host=per_host)
    assert gone == GONE and batches == whole[:-1]


# What fails


def failing(rank, fault, share):
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    rows = Rows(**{fault: 9})
    each = tdi.DataLoader(rows, BATCH, distributed=mesh, share=share, collate_fn=collated, peer_timeout=20)
    seen = []
    try:
        for batch in each:
            seen.append(batch["rows"].tolist())
    except Exception as error:  # noqa: BLE001 - it is the result
        return seen, type(error).__name__, str(error)


@pytest.mark.parametrize(("share", "per_host"), [("node", 2), ("broadcast", 1)])
def test_a_row_that_fails_is_the_same_error_for_all_peers(share, per_host):
    ranks = returned(run_ranks(failing, 2, "bad", share, store="agent", per_host=per_host))
    assert ranks[0] == ranks[1]
    assert ranks[0][0] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert ranks[0][1] == "KeyError" and "row 9 is bad" in ranks[0][2]


@pytest.mark.parametrize(("share", "per_host"), [("node", 2), ("broadcast", 1)])
def test_a_leaf_that_cannot_be_shared_is_named_for_all_peers(share, per_host):
    ranks = returned(run_ranks(failing, 2, "strange", share, store="agent", per_host=per_host))
    assert ranks[0] == ranks[1]
    assert ranks[0][1] == "TypeError" and "batch['names'][1][1] is a builtins.object," in ranks[0][2]


class Stop(Exception):
    pass


def interrupted(rank):
    """Rank 1 is interrupted while it waits for rank 0, and then goes on."""
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    store = dist.distributed_c10d._get_default_store()
    data, each = loader("python", "node", mesh)
    iterator, batches = iter(each), []
    batches.append(plain(next(iterator)))
    if rank == 0:
        store.wait(["interrupted"])
    else:

        def stop(*_):
            raise Stop

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Stop):
            next(iterator)
        store.set("interrupted", "")
    return batches + [plain(batch) for batch in iterator], len(data.reads)


def test_a_wait_for_the_reader_can_be_interrupted():
    (first, reads), (second, none) = returned(run_ranks(interrupted, 2, store="agent"))
    assert first == second and (reads, none) == (ROWS, 0)


# What a position can do


def moved(rank, share):
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    mixed = tdi.Dataset.sample_from_datasets([tdi.Dataset.range(40), tdi.Dataset.range(100, 140)], [1, 1], seed=1)
    seen = []
    for data in (mixed, Rows(40)):
        each = tdi.DataLoader(
            data,
            BATCH,
            distributed=mesh,
            share=share,
            peer_timeout=20,
            collate_fn=collated if data is not mixed else None,
        )
        each.seek(2)
        for number, batch in enumerate(each):
            seen.append((plain(batch), each.last_info, state_of(each)))
            if number == 2 and data is mixed:
                each.set_weights([1, 0])
            if number == 3:
                each.exclude([8, 9, 17])
    return seen


def test_positions_can_be_changed():
    alone, shared = both(moved, 2)
    assert alone == shared


# The argument


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"share": "host"}, '`share` must be None, "node" or "broadcast", but is \'host\''),
        ({"share": "node", "distributed": None}, "`share` needs `distributed=True`, but is 'node' without it"),
        ({"share": "node", "on_error": "skip"}, "`share='node'` excludes `on_error=\"skip\"`"),
    ],
)
def test_what_cannot_be_shared_is_refused(arguments, rule):
    with pytest.raises(ValueError, match="DataLoader: ") as error:
        tdi.DataLoader(Rows(), **{"distributed": True} | arguments)
    assert rule in str(error.value)


def test_without_peers_it_changes_nothing():
    each = tdi.DataLoader(torch.arange(5), 2, distributed=True, share="node")
    assert [batch.tolist() for batch in each] == [[0, 1], [2, 3], [4]]
