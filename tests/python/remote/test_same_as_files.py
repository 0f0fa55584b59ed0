# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Random pipelines over stores and networks that fail do what they do over the same files: rows, order, states, errors.

`HYPOTHESIS_PROFILE=search` looks for new cases.
"""

import functools
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remote_sources import SOURCES, plain, write
from store_kinds import KINDS, Bucket, Kind

import torch_distinput as tdi

HTTP = Kind("http", "http", "", "", {}, {})

FAULTS = {
    "503": {"status": 503},
    "429": {"status": 429, "retry_after": 0},
    "500": {"status": 500},
    "drop": {"drop": True},
    "reset": {"reset_after": 150},
    "half close": {"half_close_after": 100, "close": True},
    "ends early": {"length_error": 100, "close": True},
    "garbage": {"garbage": "\x00\x01\x02"},
    "late": {"first_byte_delay": 0.1},
    "partial as 200": {"operation": "read", "partial_as_200": True},
}
CUTS = ["reset", "close", "half_close"]
INDEXED = ("tfrecord", "text", "tar", "parquet", "csv", "jsonl")


def twice(*row):
    return tdi.Dataset.from_tensors(row if len(row) > 1 else row[0]).repeat(2)


OPS = {
    "shuffle": lambda ds, k: ds.shuffle(7 if ds.cardinality() == tdi.UNKNOWN else None, seed=k),
    "window": lambda ds, k: ds.shuffle(1 + 4 * k, seed=3),
    "take": lambda ds, k: ds.take(12 * k),
    "skip": lambda ds, k: ds.skip(6 * k),
    "shard": lambda ds, k: ds.shard(2, k % 2),
    "repeat": lambda ds, k: ds.repeat(1 + k % 2),
    "interleave": lambda ds, k: ds.interleave(twice, cycle_length=1 + k, block_length=1 + k % 2),
    "filter": lambda ds, k: ds.filter(lambda *row: True),
    "prefetch": lambda ds, k: ds.prefetch(k),
}


@dataclass(frozen=True)
class Case:
    source: str
    store: Kind
    through_relay: bool
    faults: list
    cut: str | None
    latency: float
    damage: tuple | None  # a file, what happens to it, and where
    skips_errors: bool
    by_file: bool  # interleaves datasets of one file each
    index: bool
    ops: list
    batch: int
    split: str
    lives: list  # replicas of each; the later ones go on where the one before stopped
    steps: int  # of each life but the last
    threads: int
    seed: int


CASES = st.builds(
    Case,
    source=st.sampled_from(sorted(SOURCES)),
    store=st.sampled_from([HTTP, *KINDS]),
    through_relay=st.booleans(),
    faults=st.lists(st.sampled_from(sorted(FAULTS)), max_size=4, unique=True),
    cut=st.sampled_from([None, *CUTS]),
    latency=st.sampled_from([0.0, 0.001, 0.004]),
    damage=st.none() | st.tuples(st.sampled_from([0, 2, 3]), st.sampled_from(["cut", "flip", "gone"]), st.floats(0, 1)),
    skips_errors=st.booleans(),
    by_file=st.booleans(),
    index=st.booleans(),
    ops=st.lists(st.tuples(st.sampled_from(sorted(OPS)), st.integers(1, 4)), max_size=3),
    batch=st.integers(1, 9),
    split=st.sampled_from(["tf", "balanced"]),
    lives=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    steps=st.integers(0, 6),
    threads=st.integers(1, 3),
    seed=st.integers(0, 1000),
)


class Site:
    """A folder of a web server that no test has used before."""

    _numbers = itertools.count()

    def __init__(self, endpoint, server):
        self._server, self._name = server, f"site-{os.getpid()}-{next(self._numbers)}"
        self.url = f"{endpoint}/{self._name}/"

    def put(self, objects):
        self._server.put_all({f"{self._name}/{name}": data for name, data in objects.items()})


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """The bytes of a source's files by their names."""
    folder = tmp_path_factory.mktemp("files")
    known = {}

    def of(source):
        if source not in known:
            known[source] = {Path(path).name: Path(path).read_bytes() for path in write(source, folder)}
        return known[source]

    return of


def damaged(files, damage):
    """The files that there are, where one is cut off, has another byte, or is gone."""
    files = dict(files)
    if damage is not None:
        number, how, place = damage
        name = list(files)[number]
        data = bytearray(files.pop(name))
        at = int(place * len(data))
        if how == "cut":
            files[name] = bytes(data[:at])
        elif how == "flip" and data:
            data[min(at, len(data) - 1)] ^= 0x20
            files[name] = bytes(data)
    return files


def dataset(case, names):
    options = {"index": case.index} if case.source in INDEXED else {}

    def open_names(names):
        return SOURCES[case.source].open(names, **options)

    if case.by_file:
        ds = tdi.Dataset.from_tensor_slices(names).interleave(open_names, cycle_length=2, block_length=3)
    else:
        ds = open_names(names)
    for name, k in case.ops:
        ds = OPS[name](ds, k)
    chosen = tdi.Options(num_threads=case.threads, on_error="skip" if case.skips_errors else "raise")
    return ds.batch(case.batch).with_options(chosen)


def live(case, names, replicas, state, last):
    """The steps of one life and the state after them, or the error that ends it."""
    strategy = tdi.MirroredStrategy(["cpu"] * replicas)
    iterator, steps = None, []
    try:
        distributed = strategy.distribute_dataset(
            dataset(case, names), tdi.InputOptions(split=case.split, tail="zero_rows")
        )
        iterator = iter(distributed)
        if state is not None:
            iterator.load_state_dict(state)
        for step in itertools.islice(iterator, None if last else case.steps):
            steps.append([plain(part) for part in strategy.experimental_local_results(step)])
        return steps, iterator.state_dict()
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        return steps, error
    finally:
        if iterator is not None:
            iterator.close()


def comparable(case, outcome, prefix):
    """Without what differs by chance: the seed that was drawn, and where the files are."""
    steps, end = outcome
    if isinstance(end, dict):
        drop = {"seed", "pipeline"} if case.by_file else {"seed"}
        return steps, {name: value for name, value in end.items() if name not in drop}
    text = re.sub(r"\(after \d+ tries in .*?\)", "", str(end).replace(prefix, ""))
    missing = isinstance(end, (FileNotFoundError, tdi.NotFoundError))
    return steps, (type(end).__name__, "" if missing else text)


@pytest.fixture
def relay_of(object_server, relay_to):
    """The relay of a dialect."""
    return functools.cache(lambda dialect: relay_to(object_server.url(dialect)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=CASES)
def test_rows_order_states_and_errors_are_those_of_the_files(
    object_server, relay_of, contents, tmp_path_factory, monkeypatch, case
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    object_server.heal()
    endpoint = object_server.url(case.store.dialect, case.store.path)
    if case.through_relay:
        relay = relay_of(case.store.dialect)
        relay.heal()
        relay.shape(latency=case.latency, jitter=case.latency, seed=case.seed)
        if case.cut:
            relay.cut(case.cut, after=2000, connections=[0, 2])
        endpoint = "/".join(filter(None, [relay.url, case.store.path]))
    bucket = Site(endpoint, object_server) if case.store is HTTP else Bucket(case.store, object_server)
    if case.store is not HTTP:
        bucket.configure(case.store.known | {"endpoint_url": endpoint})
    folder = tmp_path_factory.mktemp("local")
    files = contents(case.source)
    there = damaged(files, case.damage)
    for name, data in there.items():
        (folder / name).write_bytes(data)
    bucket.put(there)
    for number, fault in enumerate(case.faults):
        object_server.fail(probability=0.06, seed=case.seed + number, **FAULTS[fault])

    ends = [f"{folder}/", bucket.url]
    names = [[end + name for name in files] for end in ends]
    states = [None, None]
    for life, replicas in enumerate(case.lives):
        last = life == len(case.lives) - 1
        local, remote = (live(case, names[i], replicas, states[i], last) for i in (0, 1))
        assert comparable(case, remote, ends[1]) == comparable(case, local, ends[0])
        if not isinstance(local[1], dict):
            break
        # The files go on from the state of the objects, and they from that of the files.
        states = [local[1], remote[1]] if case.by_file else [remote[1], local[1]]
