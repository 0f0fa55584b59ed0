# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`cache(shared=True)`: the ranks of a host keep one copy of the rows together. Ranks are real processes that start
together, with a share of their own."""

import json
import shutil
import tempfile
import textwrap
from pathlib import Path

import pytest
import torch
from processes import run_script

import torch_distinput as tdi

pytestmark = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="the share is a folder in memory")

# `rows(dataset, rank)`: of three epochs, each of which deals the rows in another order, the rows of one rank. As in
# training, an epoch begins when all ranks have ended the one before.
BEGIN = """
import json, os, pathlib, sys, time, torch
from host_ranks import run_together

RANKS, ROWS = 4, 60
os.environ["WORLD_SIZE"] = str(RANKS)
meetings = {}

def meet(name, rank):
    meetings[name] = meetings.get(name, 0) + 1
    folder = pathlib.Path(os.environ["MEET"])
    (folder / f"{name}-{meetings[name]}-{rank}").touch()
    while len(list(folder.glob(f"{name}-{meetings[name]}-*"))) < RANKS:
        time.sleep(0.002)

class Counted(torch.utils.data.Dataset):
    def __init__(self, row):
        self.row, self.made = row, []
    def __len__(self):
        return ROWS
    def __getitem__(self, index):
        self.made.append(index)
        return self.row(index)

def value(leaf):
    return leaf.tolist() if isinstance(leaf, torch.Tensor) else leaf

def rows(cached, rank):
    found = []
    for epoch in range(3):
        order = cached.shuffle(seed=epoch).shard(RANKS, rank)
        found += [{name: value(leaf) for name, leaf in row.items()} for row in order]
        meet("epoch", rank)
    return found

def checked(found, row):
    seen = sorted(row["i"] for rank in found for row in rank)
    assert seen == sorted(list(range(ROWS)) * 3), "every row once an epoch"
    for rank in found:
        for found_row in rank:
            wanted = {name: value(leaf) for name, leaf in row(found_row["i"]).items()}
            assert found_row == wanted, (found_row, wanted)

def mapped_bytes():
    # The resident bytes of the memory that ranks share, and this process's part of them.
    sizes, here = {"Rss": 0, "Pss": 0}, False
    for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(":")
        if "-" in name.split()[0]:
            here = "memfd:torch_distinput" in line
        elif here and name in sizes:
            sizes[name] += int(rest.split()[0]) << 10
    return sizes
"""


@pytest.fixture
def run(monkeypatch, tmp_path):
    parent = tempfile.mkdtemp(prefix="tdi-tests-", dir="/dev/shm")
    monkeypatch.setenv("TORCH_DISTINPUT_HOST_SHARE", str(Path(parent) / "share"))
    monkeypatch.setenv("MEET", str(tmp_path))

    def run_program(body):
        ran = run_script(BEGIN + textwrap.dedent(body), timeout=90)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return json.loads(ran.stdout or "null")

    yield run_program
    shutil.rmtree(parent)


SAME_SHAPE = 'lambda i: {"i": torch.tensor(i), "x": torch.full((3, 5), float(i))}'
LENGTHS = 'lambda i: {"i": torch.tensor(i), "x": torch.arange(i % 7, dtype=torch.int16), "text": "row %d é" % i}'


@pytest.mark.parametrize("row", [SAME_SHAPE, LENGTHS], ids=["same_shape", "lengths_and_text"])
def test_each_row_is_made_once_on_a_host_and_kept_for_all_ranks(run, row):
    run(f"""
    row = {row}
    def work(rank):
        dataset = Counted(row)
        found = rows(tdi.Dataset.from_torch(dataset).cache(shared=True), rank)
        return [found, dataset.made]
    ranks = [found for found, _ in run_together([lambda rank=rank: work(rank) for rank in range(RANKS)])]
    checked([found for found, _ in ranks], row)
    made = sum(len(made) for _, made in ranks)
    # A look at the types, and at one row of each other rank.
    assert ROWS <= made <= ROWS + RANKS * RANKS, made
    """)


def test_rows_of_native_code_are_kept_in_one_copy(run):
    sizes = run("""
    def work(rank):
        cached = tdi.Dataset.from_tensor_slices(torch.ones(ROWS, 1 << 18, dtype=torch.uint8)).cache(shared=True)
        for _ in range(2):  # a row that another rank was making is read from its memory the second time
            for _ in cached:
                pass
            meet("read", rank)
        sizes = mapped_bytes()
        meet("measured", rank)
        return sizes
    print(json.dumps([found for found, _ in run_together([lambda rank=rank: work(rank) for rank in range(RANKS)])]))
    """)
    one_copy = 60 * (1 << 18)
    assert sum(size["Pss"] for size in sizes) <= 1.05 * one_copy, sizes
    assert all(size["Rss"] >= one_copy for size in sizes), sizes


@pytest.mark.parametrize("row", [SAME_SHAPE, LENGTHS], ids=["same_shape", "lengths_and_text"])
def test_ranks_that_make_other_rows_are_an_error(run, row):
    errors = run(f"""
    row = {row}
    def work(rank):
        other = lambda i: row(i) | {{"x": row(i)["x"] + rank}}
        dataset = tdi.Dataset.from_torch(Counted(other)).cache(shared=True)
        for row_number in range(rank, ROWS, RANKS):
            next(iter(dataset.skip(row_number)))
        meet("filled", rank)
        told, iterator = [], iter(dataset)
        for _ in range(2):  # an error does not make the rows of the others right
            try:
                list(iterator)
            except ValueError as error:
                told.append(str(error))
        return told
    print(json.dumps([found for found, _ in run_together([lambda rank=rank: work(rank) for rank in range(RANKS)])]))
    """)
    assert all(len(told) == 2 for told in errors), errors
    assert all("is another one in another rank of this host" in text for told in errors for text in told), errors


def test_the_second_of_two_caches_is_another_memory(run):
    run("""
    def work(rank):
        found = []
        for scale in (1, 10):
            data = tdi.Dataset.from_torch(Counted(lambda i: {"i": torch.tensor(i), "x": torch.tensor(i * scale)}))
            found.append(rows(data.cache(shared=True), rank))
        return found
    ranks = [found for found, _ in run_together([lambda rank=rank: work(rank) for rank in range(RANKS)])]
    for number, scale in enumerate((1, 10)):
        checked([found[number] for found in ranks], lambda i: {"i": torch.tensor(i), "x": torch.tensor(i * scale)})
    """)


def test_ranks_without_a_share_keep_their_own_rows(run, monkeypatch):
    monkeypatch.setenv("TORCH_DISTINPUT_HOST_SHARE", "")
    run(f"""
    row = {LENGTHS}
    ranks = run_together(
        [lambda rank=rank: rows(tdi.Dataset.from_torch(Counted(row)).cache(shared=True), rank) for rank in range(RANKS)]
    )
    checked([found for found, _ in ranks], row)
    """)


def test_a_rank_that_is_killed_while_it_makes_rows_stops_nobody(run):
    run(f"""
    import signal
    row = {SAME_SHAPE}
    def dies(rank):
        def make(i):
            if i == 20:
                os.kill(os.getpid(), signal.SIGKILL)
            return row(i)
        list(tdi.Dataset.from_torch(Counted(make)).cache(shared=True).batch(8))
    victim = os.fork()
    if victim == 0:
        dies(0)
    os.waitpid(victim, 0)
    ranks = run_together(
        [lambda rank=rank: rows(tdi.Dataset.from_torch(Counted(row)).cache(shared=True), rank) for rank in range(RANKS)]
    )
    checked([found for found, _ in ranks], row)
    """)


def test_one_process_shares_with_those_it_forks():
    made = []

    def note(x: torch.Tensor) -> torch.Tensor:
        made.append(int(x))
        return x * 2

    cached = tdi.Dataset.range(20).map(note).cache(shared=True)
    first = [int(x) for x in cached]
    assert first == [int(x) for x in cached] == list(range(0, 40, 2))
    assert sorted(made)[-20:] and len(made) <= 21


def test_what_cannot_be_shared_is_refused():
    with pytest.raises(ValueError, match="cache: `shared` needs random access, but `filter"):
        list(tdi.Dataset.range(4).filter(lambda x: x > 1).cache(shared=True))
    objects = tdi.Dataset.from_torch([{"o": object()} for _ in range(3)]).cache(shared=True)
    with pytest.raises(TypeError, match="cache: .*o.*share"):
        list(objects)
    with pytest.raises(TypeError, match="shared"):
        tdi.Dataset.range(4).cache(shared=1.5)


def test_states_of_shared_and_own_caches_are_the_same():
    own, shared = tdi.Dataset.range(10).cache(), tdi.Dataset.range(10).cache(shared=True)
    iterator = iter(own.batch(3))
    next(iterator)
    other = iter(shared.batch(3))
    other.load_state_dict(iterator.state_dict())
    assert [x.tolist() for x in other] == [[3, 4, 5], [6, 7, 8], [9]]
    tdi.testing.assert_resumable(shared.shuffle(seed=2).batch(3))
