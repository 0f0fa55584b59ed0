# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Parquet, CSV and JSON lines over a network: the rows of the local files, what is asked for and when, errors."""

import io
import json
import multiprocessing
import time

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import ctrl_c_ends
from remote_store import HEAD, twice

import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput.tables import _text_records, _text_tables

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

FILES, ROWS, GROUP = 3, 40, 8


def table(first, rows):
    numbers = np.arange(first, first + rows)
    return pa.table(
        {
            "i": numbers,
            "x": np.sin(numbers).astype(np.float32),
            "s": [f"row {number}" * (number % 3) for number in numbers],
            "l": [list(range(number % 4)) for number in numbers],
        }
    )


def parquet_bytes(data, **options):
    file = io.BytesIO()
    parquet.write_table(data, file, **options)
    return file.getvalue()


def csv_bytes(first, rows):
    lines = [f"{number},{number / 2},row {number}\n" for number in range(first, first + rows)]
    return "".join(["i,x,s\n", *lines]).encode()


def json_bytes(first, rows):
    return "".join(
        json.dumps({"i": number, "l": [number] * 2, "s": "é"}) + "\n" for number in range(first, first + rows)
    ).encode()


FORMATS = {
    "parquet": (
        tdi.ParquetDataset,
        lambda first, rows: parquet_bytes(table(first, rows), row_group_size=GROUP),
        ["x", "i"],
    ),
    "csv": (tdi.CsvDataset, csv_bytes, ["i", "s"]),
    "jsonl": (tdi.JsonLinesDataset, json_bytes, ["l", "i"]),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch, tmp_path):
    """Of texts. Their indexes are stored in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_text_tables, "BLOCK_BYTES", 200)


def plain(element):
    """An element as lists, for comparison."""
    if isinstance(element, dict):
        return {name: plain(part) for name, part in element.items()}
    if isinstance(element, torch.Tensor):
        return element.tolist()
    return list(element) if isinstance(element, (list, tuple)) else element


def both(store, folder, kind):
    """URLs of tables, and paths of the same tables."""
    _, make, _ = FORMATS[kind]
    contents = {f"{number}.{kind}": make(number * ROWS, ROWS) for number in range(FILES)}
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return store.put_all(contents), [str(folder / name) for name in contents]


OPS = {
    "shuffle": lambda ds, k: ds.shuffle(seed=k),
    "window": lambda ds, k: ds.shuffle(1 + 5 * k, seed=3),
    "take": lambda ds, k: ds.take(11 * k),
    "skip": lambda ds, k: ds.skip(7 * k),
    "shard": lambda ds, k: ds.shard(2, k % 2),
    "repeat": lambda ds, k: ds.repeat(1 + k % 2),
    "filter": lambda ds, k: ds.filter(lambda row: int(row["i"]) % 3 != k % 3),
    "prefetch": lambda ds, k: ds.prefetch(k),
}


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ops=st.lists(st.tuples(st.sampled_from(sorted(OPS)), st.integers(1, 6)), max_size=4),
    batch=st.integers(0, 30),
    index=st.booleans(),
    threads=st.integers(1, 3),
)
def test_rows_and_order_are_those_of_the_local_files(store, tmp_path, kind, ops, batch, index, threads):
    remote, local = both(store, tmp_path, kind)
    make, _, columns = FORMATS[kind]

    def rows(files):
        dataset = make(files, columns=columns if batch else None, index=index)
        for name, k in ops:
            windowed = name == "shuffle" and dataset.cardinality() == tdi.UNKNOWN
            dataset = OPS["window" if windowed else name](dataset, k)
        dataset = dataset.batch(batch) if batch else dataset
        return list(map(plain, dataset.with_options(tdi.Options(num_threads=threads))))

    assert rows(remote) == rows(local)


@pytest.mark.parametrize("kind", FORMATS)
def test_laws_of_remote_tables(store, tmp_path, kind):
    remote, _ = both(store, tmp_path, kind)
    make, _, columns = FORMATS[kind]
    dataset = make(remote, columns).shuffle(12, seed=3).batch(7)
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_paths_agree(dataset)


@pytest.mark.parametrize("filters", [[("i", ">", 20)], [("x", "<", 0.0), ("i", "<", 100)]])
def test_filters_keep_the_rows_of_the_local_files(store, tmp_path, filters):
    remote, local = both(store, tmp_path, "parquet")
    rows = [list(map(plain, tdi.ParquetDataset(files, ["s"], filters))) for files in (remote, local)]
    assert rows[0] == rows[1] and 0 < len(rows[0]) < FILES * ROWS


@pytest.mark.parametrize("kind", FORMATS)
def test_files_without_rows_are_passed_over_in_a_stream(store, kind):
    make, rows_of, _ = FORMATS[kind]
    urls = store.put_all({f"{number}.{kind}": rows_of(0, rows) for number, rows in enumerate([3, 0, 0])})
    dataset = make(urls, columns=["i"], index=False).filter(lambda row: True)
    assert [int(row["i"]) for row in dataset] == [0, 1, 2]


# What is asked for


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_text_without_an_index_is_downloaded_once(store, kind, monkeypatch):
    monkeypatch.setattr(_text_tables, "BLOCK_BYTES", 1 << 17)
    make, rows_of, _ = FORMATS[kind]
    data = rows_of(0, 60_000)
    names = [f"{number}.{kind}" for number in range(2)]
    urls = store.put_all(dict.fromkeys(names, data))
    dataset = make(urls, columns=["i"], index=False).batch(1000)
    assert sum(len(batch["i"]) for batch in dataset) == 120_000
    first, second = (HEAD + sum(end - begin for begin, end in store.reads(name)) for name in names)
    assert second == len(data) <= first < 1.3 * len(data), "the first blocks of the first file tell types, too"


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_blocks_of_text_share_no_byte(store, kind, monkeypatch):
    monkeypatch.setattr(_text_tables, "BLOCK_BYTES", 1 << 17)
    make, rows_of, _ = FORMATS[kind]
    data = rows_of(0, 20_000)
    url = store.put(f"rows.{kind}", data)
    dataset = make(url, columns=["i"])
    assert len(dataset) == 20_000 and dataset.element_spec is not None  # types are those of the first block
    store.server.forget_requests()
    assert sum(len(batch["i"]) for batch in dataset.batch(1000)) == 20_000
    reads = store.reads(f"rows.{kind}")
    assert twice(reads) == 0 and min(end - begin for begin, end in reads) > 1


WIDE = {"compression": "none", "use_dictionary": False, "row_group_size": 4096}


def wide_table(rows=5 * 4096):
    random = np.random.default_rng(0)
    return pa.table({name: random.integers(0, 2**62, rows) for name in "abcd"})


def test_blocks_ask_for_the_columns_that_are_wanted_and_no_byte_twice(store):
    data = parquet_bytes(wide_table(), **WIDE)
    url = store.put("wide", data)
    dataset = tdi.ParquetDataset(url, ["d", "a"])
    assert len(dataset) == 5 * 4096
    footer = store.reads("wide")
    assert footer == [(len(data) - (64 << 10), len(data))]
    store.server.forget_requests()
    assert len(list(dataset.batch(1000))) == 21
    reads = store.reads("wide")
    assert twice(reads) == 0
    sizes = [end - begin for begin, end in reads]
    column = 4096 * 8
    assert 10 * column < HEAD + sum(sizes) < 10.5 * column + (64 << 10)


def test_the_columns_of_a_block_are_asked_for_side_by_side(store):
    """Both requests are on their way before the first byte of either comes: a block is one round trip."""
    url = store.put("wide", parquet_bytes(wide_table(), **WIDE))
    dataset = tdi.ParquetDataset(url, ["a", "d"]).take(1).with_options(tdi.Options(num_threads=1, prefetch=0))
    assert dataset.cardinality() == 1
    store.server.forget_requests()
    store.server.fail(operation="read", first_byte_delay=0.1)
    assert next(iter(dataset)).keys() == {"a", "d"}
    assert store.server.counters()["most_requests"] >= 2 == len(store.reads("wide"))


@pytest.mark.parametrize("index", [True, False])
def test_blocks_are_asked_for_before_they_are_read(store, index):
    url = store.put("wide", parquet_bytes(wide_table(40 * 4096), **WIDE))
    dataset = tdi.ParquetDataset(url, ["a"], index=index).batch(4096)
    store.server.fail(operation="read", first_byte_delay=0.05)
    assert len(list(dataset)) == 40
    assert store.server.counters()["most_requests"] >= 5
    assert twice(store.reads("wide")[1:]) == 0


def test_a_shuffle_reads_each_block_once(store):
    url = store.put("wide", parquet_bytes(wide_table(40 * 4096), **WIDE))
    dataset = tdi.ParquetDataset(url, ["a"]).shuffle(3 * 4096, seed=1).batch(512)
    assert len(list(dataset)) == 320
    assert twice(store.reads("wide")[1:]) == 0


@pytest.mark.parametrize("columns", [None, ["a", "b"], ["c", "a"], ["b", "d"]])
@pytest.mark.parametrize("rows", [7, 300, 4096])
def test_columns_that_are_near_to_each_other_are_read_once(http_store, columns, rows):
    """pyarrow reads them together."""
    data = parquet_bytes(wide_table(5 * rows), compression="none", use_dictionary=False, row_group_size=rows)
    dataset = tdi.ParquetDataset(http_store.put("wide", data), columns).batch(100)
    dataset.cardinality()
    http_store.server.forget_requests()
    read = list(dataset)
    assert twice(http_store.reads("wide")) == 0
    expected = wide_table(5 * rows).to_pydict()
    for name in columns or "abcd":
        assert torch.cat([batch[name] for batch in read]).tolist() == expected[name]


def test_a_shuffle_of_blocks_reads_each_once_an_epoch(store):
    url = store.put("wide", parquet_bytes(wide_table(160 * 1024), **WIDE | {"row_group_size": 1024}))
    dataset = tdi.ParquetDataset(url, ["a"]).shuffle(seed=1, blocks=1)
    loader = tdi.DataLoader(dataset.batch(512), batch_size=None, distributed=True, split="lanes")
    assert sum(len(batch["a"]) for batch in loader) == 160 * 1024
    reads = store.reads("wide")
    assert twice(reads[1:]) == 0
    assert sum(end - begin for begin, end in reads) > 160 * 1024 * 8


@pytest.mark.parametrize("index", [True, False])
def test_waits_for_blocks_are_those_of_the_network(http_store, index):
    url = http_store.put("wide", parquet_bytes(wide_table(), **WIDE))
    dataset = tdi.ParquetDataset(url, ["a"], index=index).batch(512).with_options(tdi.Options(num_threads=0))
    dataset.cardinality()
    http_store.server.fail(operation="read", first_byte_delay=0.05)
    begin = time.perf_counter()
    iterator = iter(dataset)
    for _ in iterator:
        pass
    elapsed = time.perf_counter() - begin
    stats = iterator.stats()
    assert stats.network.requests >= 5 and stats.network.wait_seconds > 0
    # One thread does all, so that no moment is counted twice: a wait is not work besides.
    assert stats.network.wait_seconds <= stats.read_seconds
    assert stats.read_seconds + stats.build_seconds + stats.python_seconds <= elapsed


@pytest.mark.parametrize("use", ["close", "del"])
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_readers_of_blocks_leave_a_server_that_hangs(http_store, form, use):
    """They wait on a thread of the library, in Python code that has called the library again."""
    if form == "parquet":
        rows = tdi.ParquetDataset(http_store.put("t", parquet_bytes(wide_table(40 * 4096), **WIDE)), ["a"])
    else:
        rows = tdi.CsvDataset(http_store.put("t", csv_bytes(0, 40_000)))
    iterator = iter(rows.shuffle(len(rows), seed=1).batch(512))
    http_store.server.fail(object=http_store.object("t"), stall_after=0)
    begin = time.monotonic()
    with ctrl_c_ends(after=0.5):
        next(iterator)
    if use == "close":
        iterator.close()
    else:
        del iterator
    assert time.monotonic() - begin < 15  # the server hangs for longer


def test_filters_read_the_columns_of_their_condition_ahead(store):
    url = store.put("wide", parquet_bytes(wide_table(40 * 4096), **WIDE))
    dataset = tdi.ParquetDataset(url, ["b"], [("a", ">", 2**61)])
    store.server.fail(operation="read", first_byte_delay=0.05)
    assert 0 < len(dataset) < 40 * 4096
    assert store.server.counters()["most_requests"] >= 5
    reads = store.reads("wide")[1:]
    assert twice(reads) == 0 and sum(end - begin for begin, end in reads) < 1.1 * 40 * 4096 * 8


def test_small_blocks_are_asked_for_together(store):
    data = csv_bytes(0, 4000)
    url = store.put("t.csv", data)
    dataset = tdi.CsvDataset(url)
    assert len(dataset) == 4000
    store.server.forget_requests()
    assert len(list(dataset)) == 4000
    reads = store.reads("t.csv")
    blocks = len(data) // 200
    assert blocks > 300 and len(reads) < blocks / 20
    assert twice(reads) <= len(reads)  # the byte before a block tells that its records begin there


def test_an_index_reads_each_byte_of_a_text_once(store, monkeypatch):
    monkeypatch.setattr(_text_records, "_CHUNK_BYTES", 1 << 17)
    data = csv_bytes(0, 40_000)
    url = store.put("t.csv", data)
    assert len(tdi.CsvDataset(url)) == 40_000
    reads = store.reads("t.csv")
    assert twice(reads) == 0 and HEAD + sum(end - begin for begin, end in reads) == len(data)


def test_a_stored_index_takes_the_place_of_a_pass(store, monkeypatch):
    monkeypatch.setattr(_text_tables, "BLOCK_BYTES", 1 << 17)
    data = csv_bytes(0, 40_000)
    url = store.put("t.csv", data)
    assert len(tdi.CsvDataset(url)) == 40_000
    store.server.forget_requests()
    dataset = tdi.CsvDataset(url)
    assert len(dataset) == 40_000
    assert sum(end - begin for begin, end in store.reads("t.csv")) < 3 << 16  # the head and the last block


def test_a_footer_longer_than_the_guess_is_read_once(store):
    columns = {f"column {number:05} " + "x" * 200: np.arange(4) for number in range(400)}
    data = parquet_bytes(pa.table(columns))
    needed = int.from_bytes(data[-8:-4], "little") + 8
    url = store.put("long", data)
    dataset = tdi.ParquetDataset(url)
    assert needed > 64 << 10 and len(dataset) == 4
    reads = store.reads("long")
    assert len(reads) == 2 and twice(reads) == 0
    assert next(iter(dataset)).keys() == columns.keys()


# Errors


@pytest.mark.parametrize("kind", FORMATS)
def test_a_missing_object_is_named(store, kind):
    make = FORMATS[kind][0]
    with pytest.raises(tdi.NotFoundError, match=f"{make.__name__}: .*/missing.{kind}: "):
        next(iter(make(store.url(f"missing.{kind}"))))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_refusal_is_a_remote_error_with_what_the_store_said(store, kind):
    make, data, _ = FORMATS[kind]
    url = store.put(f"t.{kind}", data(0, ROWS))
    dataset = make(url)
    assert len(dataset) == ROWS
    store.server.fail(object=store.object(f"t.{kind}"), status=403, code="AccessDenied")
    with pytest.raises(_C.RemoteError, match=f"{make.__name__}: .*t.{kind}.*403") as raised:
        list(dataset)
    assert raised.value.status == 403 and raised.value.url == url


@pytest.mark.parametrize("kind", FORMATS)
def test_an_object_that_is_replaced_between_blocks_is_an_error(store, kind):
    make, data, _ = FORMATS[kind]
    url = store.put(f"t.{kind}", data(0, 4000))
    iterator = iter(make(url).with_options(tdi.Options(num_threads=1, prefetch=0)))
    next(iterator)
    store.put(f"t.{kind}", data(1, 4000))
    with pytest.raises(_C.RemoteError, match=f"{make.__name__}: .*t.{kind}: .*replaced"):
        while True:
            next(iterator)
    assert len(list(make(url).take(1))) == 1  # the next one reads the new version


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("parquet", b"", "file size is 0 bytes"),
        ("csv", b"", "it is empty"),
        ("jsonl", b"", "it has no rows"),
        ("parquet", parquet_bytes(table(0, ROWS))[:-20], "magic bytes not found"),
        ("csv", csv_bytes(0, ROWS) + b'1,2,"', "a quote that is never closed"),
        ("jsonl", json_bytes(0, ROWS)[:-9], "row 39"),
    ],
)
def test_bad_contents_are_named_without_the_query(http_store, tmp_path, kind, data, message):
    make = FORMATS[kind][0]
    (tmp_path / f"t.{kind}").write_bytes(data)
    url = http_store.put(f"t.{kind}", data)
    found = []
    for name in (f"{url}?signature=secret", str(tmp_path / f"t.{kind}")):
        with pytest.raises(tdi.InvalidArgumentError, match=message) as raised:
            list(make(name))
        found.append(str(raised.value).replace(name.partition("?")[0], "NAME"))
    assert found[0] == found[1] and "NAME: " in found[0] and "secret" not in found[0]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_body_that_is_cut_off_is_asked_for_again(store, kind):
    make, data, _ = FORMATS[kind]
    url = store.put(f"t.{kind}", data(0, 400))
    expected = [plain(row) for row in make(url)]
    store.server.fail(operation="read", nth=[1, 3, 5], reset_after=10)
    store.server.fail(operation="read", nth=[2, 4], status=503)
    assert [plain(row) for row in make(url)] == expected and len(expected) == 400


# Processes


def read_all(options, kind, url, results):
    if options:
        _C.set_storage_options(*options)
    results.put([plain(row) for row in FORMATS[kind][0](url)])


def assert_workers_read(context, store, kind):
    """Two processes read what this one has read, while more is on its way to this one."""
    make, data, _ = FORMATS[kind]
    url = store.put(f"t.{kind}", data(0, 400))
    dataset = make(url)
    expected = [plain(row) for row in dataset]
    next(iter(dataset))
    results = context.SimpleQueue()
    workers = [
        context.Process(target=read_all, args=(store.options, kind, url, results), daemon=True) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    assert [results.get() for _ in workers] == [expected] * 2
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0


@pytest.mark.parametrize("kind", FORMATS)
def test_forked_processes_read_what_their_parent_reads(store, kind):
    assert_workers_read(multiprocessing.get_context("fork"), store, kind)


def test_processes_that_are_no_forks_of_it_read_what_a_process_reads(s3_store):
    assert_workers_read(multiprocessing.get_context("forkserver"), s3_store, "parquet")


class Rows(torch.utils.data.IterableDataset):
    """Rows of a dataset, of which each worker reads its share."""

    def __init__(self, dataset):
        self._dataset = dataset

    def __iter__(self):
        return (row["i"] for row in self._dataset)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("loader", [tdi.DataLoader, torch.utils.data.DataLoader])
def test_forked_workers_of_a_loader_share_a_remote_table(store, kind, loader):
    make, data, _ = FORMATS[kind]
    dataset = make(store.put(f"t.{kind}", data(0, 400)), columns=["i"])
    assert len(dataset) == 400
    batches = list(loader(Rows(dataset), batch_size=20, num_workers=2, multiprocessing_context="fork"))
    assert sorted(int(row) for batch in batches for row in batch) == list(range(400))
