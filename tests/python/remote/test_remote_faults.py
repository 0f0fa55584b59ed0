# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Faults lose and repeat nothing; what cannot be helped is one error that names the object."""

import os
import threading
import time

import pytest
from processes import ctrl_c_ends, descriptors, in_child, run_script, wait_until
from remote_sources import BUCKET, upload, use_s3, write

import torch_distinput as tdi
from torch_distinput import _C

# Enough of them that faults hit some, small enough to be quick.
ROW = 2000
MANY = 1000


@pytest.fixture
def records(object_server):
    """The URL of an object of MANY fixed records, and what they hold."""
    rows = [b"%08d" % row * (ROW // 8) for row in range(MANY)]
    object_server.put(f"{BUCKET}/rows", b"".join(rows))
    return object_server.url("http", f"{BUCKET}/rows"), rows


def open_records(url):
    return tdi.FixedLengthRecordDataset(url, ROW)


TRANSIENT = {
    "503": {"status": 503},
    "500": {"status": 500},
    "429 with Retry-After": {"status": 429, "retry_after": 0},
    "dropped": {"drop": True},
    "reset": {"reset_after": 700},
    "half closed": {"half_close_after": 0, "close": True},
    "ends early": {"length_error": 100, "close": True},
    "another place": {"headers": {"Content-Range": f"bytes 0-9/{ROW * MANY}"}},
    "garbage": {"garbage": "\x00\x01\x02"},
}


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT.keys())
def test_passing_faults_lose_and_repeat_nothing(object_server, records, fault):
    url, rows = records
    object_server.fail(object=f"{BUCKET}/rows", probability=0.03, seed=7, **fault)
    got = [bytes(row) for row in open_records(url).shuffle(MANY, seed=1)]
    assert sorted(got) == rows


def test_few_errors_cost_few_requests(object_server, records):
    url, rows = records
    object_server.fail(object=f"{BUCKET}/rows", probability=0.01, seed=3, status=503)
    assert sorted(open_records(url).shuffle(MANY, seed=2)) == rows
    answered = object_server.requests(status=206)
    assert sum(end - begin + 1 for begin, end in (entry.range for entry in answered)) <= 1.03 * ROW * MANY


def test_rows_after_the_end_of_an_overload_come(object_server, records):
    url, rows = records
    iterator = iter(open_records(url))
    first = next(iterator)
    object_server.fail(status=503)
    healer = threading.Timer(1.0, object_server.heal)
    healer.start()
    assert [first, *iterator] == rows
    healer.join()


FINAL = {
    "denied": (403, {"status": 403, "code": "AccessDenied"}, "access is denied"),
    "no credentials": (401, {"status": 401}, "access is denied"),
    "missing": (404, {"status": 404, "code": "NoSuchKey"}, "there is no such object"),
    "bad request": (400, {"status": 400, "code": "InvalidArgument"}, "the server refuses the request"),
}


@pytest.mark.parametrize("status, fault, text", FINAL.values(), ids=FINAL.keys())
def test_what_no_retry_helps_is_an_error_at_once(object_server, records, status, fault, text):
    url, _ = records
    iterator = iter(open_records(url + "?secret=hush").prefetch(0))
    next(iterator)
    object_server.fail(object=f"{BUCKET}/rows", **fault)
    object_server.forget_requests()
    begin = time.monotonic()
    with pytest.raises(OSError, match=f"FixedLengthRecordDataset: {url}: {text}") as raised:
        list(iterator)
    assert time.monotonic() - begin < 10
    assert "hush" not in str(raised.value)
    if status != 404:
        assert isinstance(raised.value, tdi.RemoteError) and raised.value.status == status
        assert raised.value.url == url


def test_a_missing_object_is_not_found(object_server):
    url = object_server.url("http", f"{BUCKET}/none")
    with pytest.raises(tdi.NotFoundError, match="there is no such object"):
        list(open_records(url))
    assert len(object_server.requests()) == 1


@pytest.mark.parametrize("scheme", ["http", "s3"])
def test_a_replaced_object_is_an_error_that_names_it(object_server, records, scheme):
    url, rows = records
    if scheme == "s3":
        use_s3(object_server.url("s3"))
        url = f"s3://{BUCKET}/rows"
    iterator = iter(open_records(url).prefetch(0))
    assert next(iterator) == rows[0]
    object_server.put(f"{BUCKET}/rows", b"x" * ROW * MANY)
    with pytest.raises(tdi.RemoteError, match=f"{url}: the object was replaced while it was read"):
        list(iterator)
    assert next(iter(open_records(url))) == b"x" * ROW


def test_a_corrupt_byte_is_found_by_the_checksum(object_server, tmp_path):
    (url,) = upload(object_server, write("tfrecord", tmp_path)[:1])
    object_server.fail(object=f"{BUCKET}/*", method="GET", nth=3, corrupt=40)
    with pytest.raises(tdi.InvalidArgumentError, match="the CRC of a record"):
        for _ in range(3):
            list(tdi.TFRecordDataset(url, index=False))


@pytest.mark.parametrize(
    ("fault", "message"),
    [({"stall_after": 0}, "no answer came"), ({"trickle": 100}, "the rest of the answer did not come")],
    ids=["nothing", "a trickle"],
)
def test_a_server_that_sends_nearly_nothing_is_an_error_after_the_timeout(fault, message, object_server, records):
    url, _ = records
    _C.set_storage_options(url, {"timeout": "1"})
    object_server.fail(object=f"{BUCKET}/rows", **fault)
    begin = time.monotonic()
    with pytest.raises(tdi.RemoteError, match=f"FixedLengthRecordDataset: {url}: {message}"):
        list(open_records(url))
    assert time.monotonic() - begin < 10


def test_rows_come_although_some_requests_stall(object_server, records):
    url, rows = records
    _C.set_storage_options(url, {"timeout": "30"})
    object_server.fail(object=f"{BUCKET}/rows", probability=0.02, seed=1, stall_after=500)
    assert sorted(open_records(url).shuffle(MANY, seed=4)) == rows


@pytest.mark.parametrize("rate", [50, 20_000])
def test_rows_come_although_some_bodies_trickle(object_server, rate):
    rows = [b"%08d" % row * 50_000 for row in range(60)]
    object_server.put(f"{BUCKET}/rows", b"".join(rows))
    url = object_server.url("http", f"{BUCKET}/rows")
    object_server.fail(object=f"{BUCKET}/rows", operation="read", nth=[30, 45], trickle=rate)
    begin = time.monotonic()
    dataset = tdi.FixedLengthRecordDataset(url, 400_000)
    iterator = iter(dataset.shuffle(60, seed=4))
    assert sorted(iterator) == rows
    assert time.monotonic() - begin < 15  # at that rate it takes 20 s, or 8,000
    reached = 1 if iterator.stats().network.hedges == 0 else 0  # a doubled request asks for all of its range
    asked = [entry for entry in object_server.requests(operation="read") if "trickle" in entry.faults]
    again = [entry.range for entry in object_server.requests(operation="read") if not entry.faults]
    for entry in asked:
        first, last = entry.range
        assert any(first + reached <= begin and end == last for begin, end in again), "it goes on where it was"


# Forks, ends


def test_forked_children_read_before_during_and_after(object_server, records):
    url, rows = records
    assert in_child(lambda: sorted(open_records(url)) == rows) == "True"
    dataset = open_records(url).shuffle(MANY, seed=3)
    iterator = iter(dataset)
    got = [next(iterator) for _ in range(10)]
    for _ in range(5):
        assert in_child(lambda: sorted(dataset) == rows) == "True"
        got += [next(iterator) for _ in range(10)]
    got += iterator
    assert sorted(got) == rows
    assert in_child(lambda: sorted(dataset) == rows) == "True"


def test_aborted_epochs_leave_nothing(object_server, records):
    url, _ = records
    dataset = open_records(url)
    for turn in range(200):
        iterator = iter(dataset.shuffle(MANY, seed=turn))
        next(iterator)
        if turn == 20:
            del iterator
            threads, files = tasks(), descriptors()
    iterator.close()
    del iterator
    wait_until(lambda: tasks() <= threads)
    assert descriptors() <= files + 100  # connections that are kept; fewer than epochs


def tasks():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.parametrize("use", ["close", "del", "Ctrl-C"])
def test_waits_for_a_server_that_hangs_end_at_once(object_server, records, use):
    url, _ = records
    iterator = iter(open_records(url).shuffle(MANY, seed=1))
    next(iterator)
    object_server.fail(object=f"{BUCKET}/rows", stall_after=0)
    begin = time.monotonic()
    if use == "Ctrl-C":
        with ctrl_c_ends(after=0.5):
            list(iterator)
    if use == "del":
        del iterator
    else:
        iterator.close()
    assert time.monotonic() - begin < 15  # the server hangs for longer


def test_a_process_ends_while_a_server_hangs(object_server, records):
    url, _ = records
    object_server.fail(object=f"{BUCKET}/rows", covers=ROW * 100, stall_after=0)
    begin = time.monotonic()
    ended = run_script(
        f"""
        iterator = iter(tdi.FixedLengthRecordDataset({url!r}, {ROW}))
        next(iterator)
        print("read")
        """
    )
    assert ended.returncode == 0 and ended.stdout == "read\n", ended.stderr
    assert time.monotonic() - begin < 15


def test_tls_servers_are_checked(tls_object_server, certificate, tmp_path):
    (name,) = [os.path.basename(path) for path in write("text", tmp_path)[:1]]
    tls_object_server.put(f"{BUCKET}/{name}", (tmp_path / name).read_bytes())
    url = tls_object_server.url("http", f"{BUCKET}/{name}")
    read = f"print(len(list(tdi.TextLineDataset({url!r}, storage_options={{'timeout': 2}}))))"
    os.environ["SSL_CERT_FILE"] = str(certificate.authority)
    try:
        assert run_script(read).stdout == "23\n"
    finally:
        del os.environ["SSL_CERT_FILE"]
    refused = run_script(read)
    assert refused.returncode == 1 and "RemoteError" in refused.stderr and "certificate" in refused.stderr
