# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Users of one host who name the same folder for a cache: a group's, another user's, and everybody's."""

import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from cache_readers import BLOCK, BLOCKS, Readers, blocks_of, bytes_sent, files_of, result, rows

GROUP = 54_320
ADA, BO = 54_321, 54_322

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")


@pytest.fixture
def place(monkeypatch):
    """A folder of root that all users can see."""
    for name in ("TDI_CACHE", "TDI_CACHE_BYTES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TDI_CACHE_FREE", "0")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def start():
    """Starts a process of a user, who is a member of GROUP, that reads all rows."""
    with Readers() as readers:

        def start_reader(user, url, cache, umask="077"):
            return readers.start(url, cache, USER_ID=str(user), GROUP_ID=str(GROUP), UMASK=umask)

        yield start_reader


def folder_of(user, group, mode, path):
    path.mkdir()
    os.chown(path, user, group)
    path.chmod(mode)
    return path


def all_may_read(folder):
    subprocess.run(["chmod", "-R", "go+rX", folder], check=True)


def once():
    """Bytes that one download takes at most: on a busy machine, requests are doubled."""
    return 1.1 * len(rows())


@pytest.mark.parametrize("mode", [0o2770, 0o770])
def test_a_group_that_may_write_to_the_folder_shares_one_cache(http_store, place, start, mode):
    url = http_store.put("rows", rows())
    cache = folder_of(ADA, GROUP, mode, place / "cache")
    readers = [start(ADA, url, cache, umask="022"), start(BO, url, cache, umask="077")]
    warnings = [result(reader)[1] for reader in readers]
    assert not any("cache of remote bytes" in text for text in warnings)
    assert bytes_sent(http_store) <= once()
    assert blocks_of(cache) == BLOCKS
    assert {path.stat().st_gid for path in files_of(cache)} == {GROUP}
    assert not any(path.stat().st_mode & stat.S_IRWXO for path in cache.rglob("*"))


def test_what_a_killed_user_was_about_to_write_is_taken_over_by_another(http_store, relay, place, start):
    path = http_store.object("rows")
    http_store.put("rows", rows())
    relay.shape(bandwidth=5e6, total_bandwidth=5e6)
    cache = folder_of(0, GROUP, 0o2770, place / "cache")
    killed = start(ADA, f"{relay.url}/{path}", cache)
    while not files_of(cache):
        time.sleep(0.001)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    relay.shape()
    result(start(BO, f"{relay.url}/{path}", cache))
    assert blocks_of(cache) == BLOCKS


def test_a_cache_that_its_owner_lets_others_read_is_read(http_store, place, start):
    url = http_store.put("rows", rows())
    cache = folder_of(ADA, ADA, 0o755, place / "cache")
    result(start(ADA, url, cache))
    all_may_read(cache)
    kept = blocks_of(cache)
    files_of(cache)[0].unlink()
    before = bytes_sent(http_store)
    found, warnings = result(start(BO, url, cache))
    # Where nothing is kept, a row is asked for by itself.
    assert bytes_sent(http_store) - before <= 1.1 * (len(rows()) - blocks_of(cache) * BLOCK)
    assert 0 < blocks_of(cache) < kept == BLOCKS
    assert warnings.count("what it does not hold is not kept") == 1
    assert "what it does not hold is not kept" in found["explained"]


def test_where_the_cache_is_of_another_user_there_is_one_for_each(http_store, place, start):
    url = http_store.put("rows", rows())
    cache = folder_of(0, 0, 0o1777, place / "cache")
    result(start(ADA, url, cache))
    for expected in (once(), 0):
        before = bytes_sent(http_store)
        found, warnings = result(start(BO, url, cache))
        assert bytes_sent(http_store) - before <= expected
        assert warnings.count("this user has a cache of its own") == 1
        assert f"this user has a cache of its own in v1-{BO}" in found["explained"]
    assert blocks_of(cache) == blocks_of(cache, f"v1-{BO}") == BLOCKS


@pytest.mark.parametrize("mode", [0o2770, 0o755])
def test_nothing_is_believed_that_strangers_may_have_put_there(http_store, place, start, mode):
    url = http_store.put("rows", rows())
    everybodys = folder_of(0, 0, 0o1777, place / "everybodys")
    cache = folder_of(ADA, GROUP, mode, everybodys / "cache")
    result(start(ADA, url, cache))
    all_may_read(cache)
    before = bytes_sent(http_store)
    _, warnings = result(start(BO, url, cache))
    assert bytes_sent(http_store) - before >= 0.9 * len(rows())
    assert "others than its user may have written it" in warnings


def test_a_folder_that_nobody_else_may_read_is_told_once(http_store, place, start):
    cache = folder_of(ADA, ADA, 0o700, place / "cache")
    found, warnings = result(start(BO, http_store.put("rows", rows()), cache))
    assert warnings.count("is off") == 1 and "Permission denied" in warnings
    assert "cache: off" in found["explained"]
