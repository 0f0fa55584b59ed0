# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What users are told about remote reads: `stats()` and `verdict()` while they run, `explain()` before."""

import dataclasses
import io
import json
import math
import os

import pytest
import torch
from remote_sources import BUCKET, SOURCES, upload, write
from remote_store import HEAD, twice
from sample_files import tf_records

import torch_distinput as tdi
from torch_distinput.cli import main
from torch_distinput.cli._report import page_of
from torch_distinput.monitoring.tensorboard import Scalars
from torch_distinput.observe._stats import verdict_over_ranks
from torch_distinput.observe._units import bytes_text

ROW = 2000
MANY = 1000


def put_rows(server, name, row=ROW, many=MANY):
    """An object of fixed records; its path at the server."""
    server.put(f"{BUCKET}/{name}", b"".join(b"%08d" % number * (row // 8) for number in range(many)))
    return f"{BUCKET}/{name}"


def stats_of_epoch(dataset):
    iterator = iter(dataset)
    for _ in iterator:
        pass
    return iterator.stats()


# stats()


def test_counts_are_those_of_the_server(object_server):
    path = put_rows(object_server, "counted")
    dataset = tdi.FixedLengthRecordDataset(object_server.url("http", path), ROW).shuffle(MANY, seed=1).batch(50)
    dataset.cardinality()
    object_server.forget_requests()
    network = stats_of_epoch(dataset).network
    asked = object_server.requests(object=path)
    again = network.hedges + network.retries  # of a busy machine; they may end before the server sees them
    assert network.requests - again <= len(asked) <= network.requests
    ranges = [(entry.range[0], entry.range[1] + 1) for entry in asked]
    # A row that came between others before anybody wanted it may be asked for again; doubled requests count once.
    sent = sum(end - begin for begin, end in ranges)
    assert sent - twice(ranges) <= network.bytes <= sent
    assert network.wasted_bytes == network.bytes - ROW * MANY < 0.2 * ROW * MANY
    assert network.throttled == 0
    assert 0 < network.answer_p50 <= network.answer_p99 < 5 and network.limit >= 16
    assert 0 < network.busy_seconds <= network.request_seconds
    assert 0 < network.answer_seconds <= network.request_seconds


def test_times_to_the_first_byte_are_those_of_the_way(object_server, relay):
    path = put_rows(object_server, "far")
    relay.shape(latency=0.03)
    dataset = tdi.FixedLengthRecordDataset(f"{relay.url}/{path}", ROW).shuffle(MANY, seed=1).batch(50)
    network = stats_of_epoch(dataset).network
    assert 0.9 * 0.06 <= network.answer_p50 <= 2 * 0.06
    assert network.answer_p50 <= network.answer_p99


def test_repetitions_and_refusals_are_counted(object_server):
    path = put_rows(object_server, "refused")
    object_server.fail(object=path, probability=0.1, seed=5, status=503)
    dataset = tdi.FixedLengthRecordDataset(object_server.url("http", path), ROW).shuffle(MANY, seed=1).batch(50)
    network = stats_of_epoch(dataset).network
    refused = len(object_server.requests(object=path, status=503))
    # Of a doubled request one answer counts.
    assert 0 < refused - network.hedges <= network.throttled <= refused
    assert network.retries > 0 and network.wasted_bytes > 0


def test_what_reads_no_object_has_no_network(object_server):
    remote = tdi.FixedLengthRecordDataset(object_server.url("http", put_rows(object_server, "elsewhere")), ROW)
    local = iter(tdi.Dataset.range(4))
    assert stats_of_epoch(remote).network is not None
    assert list(local) and local.stats().network is None and tdi.Stats().network is None


def test_what_was_counted_can_be_kept_sent_and_read(object_server, tmp_path):
    remote = tdi.FixedLengthRecordDataset(object_server.url("http", put_rows(object_server, "kept")), ROW).batch(50)
    loader = tdi.DataLoader(remote, batch_size=None)
    with tdi.trace(tmp_path / "run.json", loader):
        for _ in loader:
            pass
    stats = loader.stats()
    text = repr(stats.network)
    assert "\n" not in text and f"in {stats.network.requests} requests" in text and text in repr(stats)
    saved = json.loads((tmp_path / "run.json").read_text())
    assert saved["otherData"]["stats"]["network"] == dataclasses.asdict(stats.network)
    assert f"in {stats.network.requests} requests" in page_of(saved, "run")


def test_monitors_show_it(object_server):
    prometheus = pytest.importorskip("torch_distinput.monitoring.prometheus")
    from prometheus_client import CollectorRegistry, generate_latest

    remote = tdi.FixedLengthRecordDataset(object_server.url("http", put_rows(object_server, "shown")), ROW).batch(50)
    loaders = {"far": tdi.DataLoader(remote, batch_size=None), "near": tdi.DataLoader(torch.arange(8))}
    registry = CollectorRegistry()
    prometheus.StatsCollector(loaders, registry)
    for loader in loaders.values():
        list(loader)
    text = generate_latest(registry).decode()
    requests = loaders["far"].stats().network.requests
    assert f'torch_distinput_network_requests_total{{loader="far"}} {requests:.1f}' in text
    assert 'torch_distinput_network_requests_total{loader="near"}' not in text
    written = {}

    class Writer:
        def add_scalar(self, tag, value, step):
            written[tag] = value

    Scalars(Writer(), loaders["far"]).write(1)
    assert written["input/network/limit"] == loaders["far"].stats().network.limit


def test_rows_in_order_take_few_requests(object_server):
    path = put_rows(object_server, "in order", row=100_000)
    rows = tdi.FixedLengthRecordDataset(object_server.url("http", path), 100_000).batch(8)
    rows.cardinality()
    object_server.forget_requests()
    assert sum(1 for _ in rows) == MANY / 8
    asked = [entry.range for entry in object_server.requests(object=path)]
    later = [last + 1 - first for first, last in asked if first > 100_000 * MANY / 2]
    most = min(max(max(later), 1 << 20), 8 << 20)  # bytes of a request, which follow from what a connection brings
    # Until the horizon is reached, each announcement is twice as large as the one before; eight threads begin.
    start = 8 + math.ceil(math.log2(most / 800_000))
    assert len(set(asked)) <= 1.2 * 100_000 * MANY / most + start


# verdict()


def test_few_requests_that_wait_for_answers_are_bound_by_latency(object_server, relay):
    path = put_rows(object_server, "latency")
    relay.shape(latency=0.03)
    dataset = tdi.FixedLengthRecordDataset(f"{relay.url}/{path}", ROW).shuffle(MANY, seed=1).take(48).batch(4)
    loader = tdi.DataLoader(dataset, batch_size=None, prefetch_bytes=2 * 4 * ROW)
    for _ in loader:
        pass
    verdict = loader.verdict()
    assert verdict.bound == "latency", verdict
    assert "first byte" in verdict.advice and "`prefetch_bytes=" in verdict.advice
    advised = int(verdict.advice.partition("`prefetch_bytes=")[2].partition("`")[0])
    better = tdi.DataLoader(dataset, batch_size=None, prefetch_bytes=advised)
    for _ in better:
        pass
    assert better.stats().network.concurrency > loader.stats().network.concurrency


def test_a_narrow_link_is_bound_by_its_bytes(object_server, relay):
    path = put_rows(object_server, "narrow", row=100_000, many=100)
    relay.shape(total_bandwidth=20e6)
    dataset = tdi.FixedLengthRecordDataset(f"{relay.url}/{path}", 100_000).shuffle(100, seed=1).batch(5)
    stats = stats_of_epoch(dataset)
    verdict = stats.verdict()
    assert verdict.bound == "network", verdict
    assert 0.5 * 20e6 < stats.network.bytes_per_second < 1.5 * 20e6 and "MB a second" in verdict.advice


def test_servers_that_refuse_are_named_throttled(object_server):
    path = put_rows(object_server, "throttled")
    dataset = tdi.FixedLengthRecordDataset(object_server.url("http", path), ROW).shuffle(MANY, seed=1).batch(50)
    dataset.cardinality()
    object_server.fail(object=path, probability=0.1, seed=5, status=503)
    stats = stats_of_epoch(dataset)
    verdict = stats.verdict()
    assert verdict.bound == "throttled", verdict
    assert f"{stats.network.throttled} of {stats.network.requests} requests" in verdict.advice


def test_a_program_that_is_slow_itself_is_not_bound_by_the_network():
    network = tdi.NetworkStats(requests=10, wait_seconds=0.9, busy_seconds=1.0, request_seconds=2.0)
    stats = tdi.Stats(batches=9, wait_seconds=1.0, consumer_seconds=1.0, read_seconds=1.0, network=network)
    assert stats.verdict().bound == "network"
    assert dataclasses.replace(stats, consumer_seconds=99.0).verdict().bound == "consumer"
    assert dataclasses.replace(stats, build_seconds=2.0).verdict().bound == "decode"
    of_files = dataclasses.replace(network, wait_seconds=0.1)
    assert dataclasses.replace(stats, network=of_files).verdict().bound == "read"
    fast = tdi.Stats(batches=9, wait_seconds=0.01, consumer_seconds=1.0)
    assert verdict_over_ranks([fast, stats, fast]).bound == "network"


@pytest.mark.parametrize(
    "answer_seconds, full_seconds, throttled, bound",
    [
        (1.8, 0.0, 0, "latency"),
        (1.8, 0.9, 0, "network"),  # as many run as may
        (0.2, 0.0, 0, "network"),
        (1.8, 0.0, 3, "throttled"),
        (1.8, 0.0, 2, "latency"),  # an accident
    ],
)
def test_counters_decide(answer_seconds, full_seconds, throttled, bound):
    network = tdi.NetworkStats(
        requests=100,
        bytes=1000,
        wait_seconds=1.0,
        busy_seconds=1.0,
        request_seconds=2.0,
        answer_seconds=answer_seconds,
        full_seconds=full_seconds,
        throttled=throttled,
        limit=16,
    )
    stats = tdi.Stats(batches=9, wait_seconds=1.0, consumer_seconds=1.0, read_seconds=1.0, network=network)
    assert stats.verdict().bound == bound


# explain()


def network_fact(explained):
    return next(fact for fact in explained.facts if fact.startswith("network: "))


def predicted(explained):
    words = network_fact(explained).split()
    return int(words[words.index("requests") - 1])


def index_requests(explained):
    fact = next(fact for fact in explained.facts if fact.startswith("index: "))
    words = fact.split()
    return int(words[words.index("requests,") - 1])


PIPELINES = {
    "batches of shuffled rows": lambda rows: rows.shuffle(MANY, seed=1).batch(50),
    "batches of few bytes ahead": lambda rows: (
        rows.shuffle(MANY, seed=1).batch(50).with_options(tdi.Options(prefetch_bytes=1 << 20))
    ),
    "shuffled rows": lambda rows: rows.shuffle(MANY, seed=1),
    "rows in order": lambda rows: rows,
    "some batches in order": lambda rows: rows.batch(20).take(10),
    "a stream": lambda rows: rows.filter(lambda row: True).batch(50),
}


@pytest.mark.parametrize("row", [ROW, 100_000])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_requests_are_predicted(object_server, pipeline, row):
    path = put_rows(object_server, "predicted", row=row)
    dataset = PIPELINES[pipeline](tdi.FixedLengthRecordDataset(object_server.url("http", path), row))
    explained = dataset.explain()
    assert network_fact(explained).startswith(f"network: 1 file, {row * MANY / 1e6:.3g} MB; about ")
    assert "at $0.40 a million" in network_fact(explained)
    object_server.forget_requests()
    for _ in dataset:
        pass
    made = len(object_server.requests(object=path, operation="read"))
    # Those of the first elements, before one was measured, depend on which thread begins first.
    assert made / 1.5 - 5 <= predicted(explained) <= 1.5 * made + 5


def test_a_loader_tells_what_its_pipeline_reads(object_server):
    url = object_server.url("http", put_rows(object_server, "loaded"))
    dataset = tdi.FixedLengthRecordDataset(url, ROW).shuffle(MANY, seed=1).batch(50)
    facts = tdi.DataLoader(dataset, batch_size=None).explain().facts
    assert network_fact(dataset.explain()) in facts and "steps: 20" in facts
    strategy = tdi.OneDeviceStrategy("cpu")
    assert any(fact.startswith("network: 1 file, 2 MB; about ") for fact in dataset.explain(strategy).facts)


def test_a_missing_index_is_told_and_not_made(object_server):
    records = tf_records([b"x" * 700 for _ in range(MANY)])
    object_server.put(f"{BUCKET}/unindexed", records)
    dataset = tdi.TFRecordDataset(object_server.url("http", f"{BUCKET}/unindexed")).shuffle(MANY, seed=1).batch(50)
    loader = tdi.DataLoader(dataset, batch_size=None)
    object_server.forget_requests()
    for explained in (dataset.explain(), loader.explain()):
        assert index_requests(explained) > 0 and "distinput index URL" in explained
        assert "requests" not in network_fact(explained) and "not known before there is an index" in explained
    assert "steps: not known" in loader.explain().facts
    assert sum(entry.sent for entry in object_server.requests(object=f"{BUCKET}/unindexed")) == HEAD
    assert len(dataset) == 20
    assert (
        "index: " not in dataset.explain() and predicted(dataset.explain()) > 0 and "20 elements" in dataset.explain()
    )


def csv_lines(rows):
    return b"".join([b"number,text\n", *(b"%d,%b\n" % (row, b"x" * 200) for row in range(rows))])


def json_lines(rows):
    return b"".join(b'{"number": %d, "text": "%b"}\n' % (row, b"x" * 200) for row in range(rows))


TABLES = {"csv": (tdi.CsvDataset, csv_lines), "jsonl": (tdi.JsonLinesDataset, json_lines)}


@pytest.mark.parametrize("kind", TABLES)
def test_text_tables_without_an_index_are_not_read_through(object_server, kind):
    pytest.importorskip("pyarrow")
    opener, lines = TABLES[kind]
    rows = 40_000
    content = lines(rows)
    name = f"{BUCKET}/unread.{kind}"
    object_server.put(name, content)
    dataset = opener(object_server.url("http", name)).shuffle(rows, seed=1).batch(100)
    loaders = [
        tdi.DataLoader(dataset, batch_size=None),
        tdi.DataLoader(dataset, batch_size=None, distributed=True),
        tdi.DataLoader(opener(object_server.url("http", name)), batch_size=100, distributed=True),
    ]
    object_server.forget_requests()
    strategy = tdi.OneDeviceStrategy("cpu")
    for explained in (dataset.explain(), dataset.explain(strategy), *(loader.explain() for loader in loaders)):
        assert network_fact(explained) == f"network: 1 file, {bytes_text(len(content))}"
        assert index_requests(explained) > 0 and "int64[" in explained
    sent = sum(entry.sent for entry in object_server.requests(object=name))
    assert sent <= 2 * 2.1 * 2**20 < len(content)  # the first block, for each of two readers
    predicted_for_index = index_requests(dataset.explain())
    object_server.forget_requests()
    assert len(dataset) == rows // 100
    made = len(object_server.requests(object=name, operation="read"))
    assert made / 1.5 - 5 <= predicted_for_index <= 1.5 * made + 5
    assert "index: " not in dataset.explain() and predicted(dataset.explain()) > 0


def test_rows_of_files_have_no_facts(tmp_path):
    (tmp_path / "rows").write_bytes(bytes(80))
    dataset = tdi.FixedLengthRecordDataset(str(tmp_path / "rows"), 8)
    assert dataset.explain().facts == []


def test_a_file_system_of_python_is_named(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.pipe("/explained/rows", bytes(8 * 100))
    dataset = tdi.FixedLengthRecordDataset("memory://explained/rows", 8, filesystem=files)
    explained = dataset.explain()
    assert network_fact(explained) == "network: 1 file, 800 B"
    assert any(fact.startswith("file system: Python reads 1 file; slower") for fact in explained.facts)


@pytest.mark.parametrize("kind", SOURCES)
def test_each_source_tells_its_objects(object_server, tmp_path, kind):
    paths = write(kind, tmp_path)
    dataset = SOURCES[kind].open(upload(object_server, paths))
    dataset.cardinality()
    explained = dataset.explain()
    size = sum(os.path.getsize(path) for path in paths)
    assert network_fact(explained).startswith(f"network: {len(paths)} files, {bytes_text(size)}; about ")
    object_server.forget_requests()
    for _ in dataset:
        pass
    made = len(object_server.requests(operation="read"))
    # Small objects came whole with their heads.
    assert made / 1.5 - 5 <= predicted(explained) <= 1.5 * made + 20


@pytest.mark.parametrize("columns", [None, ["a", "c"]])
def test_blocks_of_tables_are_predicted(http_store, columns):
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    rows = 20 * 2000
    table = pyarrow.table({name: torch.rand(rows).numpy() for name in "abcdefgh"})
    file = io.BytesIO()
    parquet.write_table(table, file, row_group_size=2000, use_dictionary=False, compression=None)
    url = http_store.put("table", file.getvalue())
    dataset = tdi.ParquetDataset(url, columns=columns).shuffle(rows, seed=1).batch(100)
    explained = dataset.explain()
    http_store.server.forget_requests()
    for _ in dataset:
        pass
    made = len(http_store.reads("table"))
    # How much one request asks for follows from what was measured, meanwhile too.
    assert made / 2 - 5 <= predicted(explained) <= 2 * made + 5


def test_images_are_a_request_each(s3_store):
    picture = b"a picture that nobody opens"
    s3_store.put_all({f"pets/{name}/{number}.jpg": picture for name in ("cat", "dog") for number in range(30)})
    dataset = tdi.ImageFolder(s3_store.url("pets"))
    s3_store.server.forget_requests()
    assert network_fact(dataset.explain()).startswith("network: 60 files, 1.62 kB; about 60 requests an epoch")
    assert s3_store.server.requests(operation="read") == []


def test_the_command_prints_it(object_server, tmp_path, capsys):
    url = object_server.url("http", put_rows(object_server, "commanded"))
    script = tmp_path / "train.py"
    script.write_text(
        f"import torch_distinput as tdi\nloader = tdi.DataLoader(tdi.FixedLengthRecordDataset({url!r}, {ROW}))\n"
    )
    main(["explain", f"{script}:loader"])
    assert "network: 1 file, 2 MB; about " in capsys.readouterr().out
