# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Processes that share a cache of remote bytes: several at a time, killed ones, limits, and disks that fail."""

import random
import shutil
import signal
import subprocess
import time

import pytest
from cache_readers import BLOCKS, Readers, blocks_of, bytes_sent, files_of, result, rows, sent
from places import SUPPORT
from remote_store import HEAD, twice


@pytest.fixture
def start():
    """`cache_readers.Readers.start`."""
    with Readers() as readers:
        yield readers.start


@pytest.fixture
def cache(tmp_path, monkeypatch):
    for name in ("TDI_CACHE", "TDI_CACHE_BYTES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TDI_CACHE_FREE", "0")
    return tmp_path / "cache"


def taken(cache):
    """Bytes that the files take of the disk, but for a page each with which the file system finds them."""
    total = 0
    for path in (cache / "v1").glob("??/*/*"):
        try:
            total += path.stat().st_blocks * 512 - 4096
        except FileNotFoundError:
            continue
    return total


def test_eight_processes_download_each_byte_once(http_store, cache, start):
    url = http_store.put("rows", rows())
    for reader in [start(url, cache, seed=4 * number, FORKS="4") for number in range(2)]:
        result(reader)
    # A busy machine may have been late, so that a request was doubled.
    assert bytes_sent(http_store) <= 1.1 * len(rows())
    assert twice(sent(http_store)) <= 0.1 * len(rows())
    assert blocks_of(cache) == BLOCKS


def test_killed_readers_leave_nothing_that_others_wait_for(http_store, relay, cache, start):
    path = http_store.object("rows")
    http_store.put("rows", rows())
    relay.shape(bandwidth=20e6, total_bandwidth=20e6)
    dice = random.Random(1)
    for seed in range(4):
        reader = start(f"{relay.url}/{path}", cache, seed)
        assert reader.stdout.readline() == b"begun\n"
        time.sleep(dice.random() * 0.2)  # it is killed anywhere in its reading
        reader.send_signal(signal.SIGKILL)
        reader.communicate()
    result(start(f"{relay.url}/{path}", cache, 7))
    assert blocks_of(cache) == BLOCKS


def test_a_stopped_reader_holds_nobody_up(http_store, relay, cache, start):
    path = http_store.object("rows")
    http_store.put("rows", rows())
    relay.shape(bandwidth=5e6, total_bandwidth=5e6)
    stopped = start(f"{relay.url}/{path}", cache)
    assert stopped.stdout.readline() == b"begun\n"
    while not files_of(cache):
        time.sleep(0.001)
    stopped.send_signal(signal.SIGSTOP)
    relay.shape()
    result(start(f"{relay.url}/{path}", cache, 1))
    stopped.send_signal(signal.SIGCONT)
    result(stopped)


def test_the_limit_holds_while_processes_write(http_store, cache, start):
    url = http_store.put("rows", rows())
    limit = 3 << 20
    readers = [start(url, cache, 2 * number, TDI_CACHE_BYTES=str(limit), FORKS="2") for number in range(2)]
    while any(reader.poll() is None for reader in readers):
        assert taken(cache) <= limit
        time.sleep(0.002)
    for reader in readers:
        assert "has no room left" in result(reader)[1]
    assert 2 << 20 < taken(cache) <= limit


def test_without_locks_each_process_has_a_cache_of_its_own(http_store, cache, start, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path / "no_locks.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SUPPORT / "no_locks.c"], check=True)
    url = http_store.put("rows", rows())
    for _ in range(2):
        found, _ = result(start(url, cache, before=["env", f"LD_PRELOAD={library}"]))
        assert "its file system has no locks" in found["explained"]
    assert bytes_sent(http_store) >= 2 * len(rows()) - 2 * HEAD
    assert [path.name for path in (cache / "v1").iterdir()] == ["usage"]


# Disks that fail


def mounted(options, then, cache):
    """The beginning of a command that runs with a file system of its own at `cache`."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    script = f'mount -t tmpfs -o {options} tmpfs {cache} && {then} && exec "$@"'
    before = ["unshare", "-m", "sh", "-c", script, "sh"]
    if subprocess.run([*before, "true"], capture_output=True).returncode != 0:
        pytest.skip("this user may not mount file systems")
    return before


def test_a_full_disk_is_told_once(http_store, cache, start):
    cache.mkdir()
    found, warnings = result(
        start(http_store.put("rows", rows()), cache, before=mounted("size=2m,mode=0700", "true", cache))
    )
    assert warnings.count("has no room left") == 1
    assert f"cache: {cache} has" in found["explained"]


def test_a_disk_for_reading_only_is_told_once(http_store, cache, start):
    cache.mkdir()
    remount = f"mount -o remount,ro tmpfs {cache}"
    found, warnings = result(start(http_store.put("rows", rows()), cache, before=mounted("size=2m", remount, cache)))
    assert warnings.count("is off") == 1 and "Read-only" in warnings
    assert "cache: off" in found["explained"]


def test_a_folder_that_cannot_be_is_told_once(http_store, start):
    found, warnings = result(start(http_store.put("rows", rows()), "/dev/null/cache"))
    assert warnings.count("is off") == 1
    assert "cache: off" in found["explained"] and "Not a directory" in found["explained"]


def test_a_cache_that_somebody_removes_is_no_error(http_store, relay, cache, start):
    path = http_store.object("rows")
    http_store.put("rows", rows())
    relay.shape(bandwidth=20e6, total_bandwidth=20e6)
    reader = start(f"{relay.url}/{path}", cache)
    while not list(cache.glob("v1/*/*/*")):
        time.sleep(0.001)
    shutil.rmtree(cache, ignore_errors=True)
    result(reader)
