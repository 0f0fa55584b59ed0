# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The cache of remote bytes on local disk: what it saves, what it never does, and what users see of it."""

import os
import random
import re
import stat

import pytest
from cache_readers import blocks_of, files_of
from processes import descriptors, in_child, wait_until
from remote_store import RemoteStore

import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput.cli import main

ROW = 1000
MANY = 3000
BLOCK = 256 << 10


def rows(first=0, many=MANY):
    return b"".join(b"%08d" % number * (ROW // 8) for number in range(first, first + many))


def open_rows(url, cache, **options):
    return tdi.FixedLengthRecordDataset(url, ROW, cache_dir=cache, **options)


def read(dataset):
    return [bytes(row) for row in dataset]


def as_rows(data):
    return [data[at : at + ROW] for at in range(0, len(data), ROW)]


def sent(store, name):
    """Bytes of an object that the server sent, but for those that tell its version."""
    return sum(end - begin for begin, end in store.reads(name))


@pytest.fixture
def cache(tmp_path, monkeypatch, object_server):
    for name in ("TDI_CACHE", "TDI_CACHE_BYTES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TDI_CACHE_FREE", "0")
    yield tmp_path / "cache"
    _C.set_object_cache(object_server.url("http"), "")  # other tests read from this server, too


def kept(dataset):
    """Reads an epoch until all that it has brought is kept; its rows and its statistics."""
    iterator = iter(dataset)
    found = read(iterator)
    return found, iterator.stats().network


def settle(cache, blocks):
    """Waits until so many blocks are kept, which happens beside the reading."""
    wait_until(lambda: blocks_of(cache) == blocks)


BLOCKS = -(-ROW * MANY // BLOCK)


# What it saves


@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_a_second_epoch_asks_no_server(store, cache, shuffled):
    data = open_rows(store.put("rows", rows()), cache)
    data = data.shuffle(seed=1) if shuffled else data
    first, network = kept(data)
    settle(cache, BLOCKS)
    assert sorted(first) == as_rows(rows()) and network.cached_blocks == BLOCKS
    assert sent(store, "rows") <= len(rows())
    store.server.forget_requests()
    second, network = kept(data)
    assert sorted(second) == as_rows(rows())
    assert store.server.requests() == [] or not sent(store, "rows")
    assert network.cached_bytes == len(rows()) and network.bytes == 0
    assert "from the cache" in repr(network)


def test_nothing_is_kept_unless_it_is_asked_for(store, cache):
    read(tdi.FixedLengthRecordDataset(store.put("rows", rows()), ROW))
    assert not cache.exists()


def test_the_variable_is_enough(object_server, cache, monkeypatch):
    monkeypatch.setenv("TDI_CACHE", str(cache))
    store = RemoteStore(object_server, "s3")  # a bucket that was not read before
    read(tdi.FixedLengthRecordDataset(store.put("rows", rows()), ROW))
    settle(cache, BLOCKS + 1)  # and the one with which the store was tried


def test_a_replaced_object_is_read_anew(s3_store, cache):
    s3_store.put("rows", rows())
    pattern = s3_store.url("row*")  # a list tells the version that there is
    assert read(open_rows(pattern, cache)) == as_rows(rows())
    settle(cache, BLOCKS)
    s3_store.put("rows", rows(first=MANY))
    assert read(open_rows(pattern, cache)) == as_rows(rows(first=MANY))
    settle(cache, 2 * BLOCKS)
    s3_store.server.forget_requests()
    assert read(open_rows(pattern, cache)) == as_rows(rows(first=MANY))
    assert sent(s3_store, "rows") == 0


def test_an_object_that_is_replaced_while_it_is_read_is_an_error(s3_store, cache):
    url = s3_store.put("rows", rows())
    read(open_rows(url, cache).take(10))
    s3_store.put("rows", rows(first=MANY))
    with pytest.raises(tdi.RemoteError, match="replaced"):
        read(open_rows(url, cache))
    assert read(open_rows(url, cache)) == as_rows(rows(first=MANY))


def test_rows_far_apart_bring_their_blocks_only(store, cache):
    url = store.put("large", bytes(8 << 20))
    tdi.FixedLengthRecordDataset(url, 1 << 20, cache_dir=cache)
    file = _C.InputFile(url, "test")
    for offset in (BLOCK + 1000, 5 * BLOCK - 500):
        assert file.read_at(offset, ROW) == bytes(ROW)
    settle(cache, 3)
    assert sent(store, "large") == 3 * BLOCK


def test_folders_and_files_are_of_this_user_alone(store, cache):
    read(open_rows(store.put("rows", rows()), cache))
    settle(cache, BLOCKS)
    for path in (cache, cache / "v1", *(cache / "v1").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_no_secret_is_stored(object_server, cache):
    object_server.put("bucket/rows", rows())
    url = object_server.url("http", "bucket/rows") + "?signature=verysecret"
    assert read(open_rows(url, cache)) == as_rows(rows())
    settle(cache, BLOCKS)
    assert not any(b"verysecret" in path.read_bytes() for path in files_of(cache))
    assert any(b"bucket/rows" in path.read_bytes()[:400] for path in files_of(cache))


# What goes wrong


def flip(path, dice):
    data = bytearray(path.read_bytes())
    data[dice.randrange(BLOCK, len(data))] ^= 1 << dice.randrange(8)  # before it lie a head and a hole
    path.write_bytes(data)


DAMAGES = {
    "a flipped bit": flip,
    "a torn file": lambda path, dice: os.truncate(path, dice.randrange(path.stat().st_size)),
    "an empty file": lambda path, dice: os.truncate(path, 0),
    "other bytes": lambda path, dice: path.write_bytes(dice.randbytes(path.stat().st_size)),
    "a longer file": lambda path, dice: path.write_bytes(path.read_bytes() + b"x"),
    "a link": lambda path, dice: (path.unlink(), path.symlink_to("/etc/passwd")),
    "a folder": lambda path, dice: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_blocks_are_asked_for_again(s3_store, cache, damage):
    right = rows(many=6 * MANY)
    blocks = -(-len(right) // BLOCK)
    data = open_rows(s3_store.put("rows", right), cache)
    read(data)
    settle(cache, blocks)
    assert len(files_of(cache)) == 5
    dice = random.Random(damage)
    for path in dice.sample(files_of(cache), 4):
        DAMAGES[damage](path, dice)
    s3_store.server.forget_requests()

    def epoch():
        found, network = kept(data.shuffle(seed=2))
        return sorted(found) == as_rows(right), network.damaged_blocks >= 4

    assert in_child(epoch) == "(True, True)"  # this process may have the files open
    assert 0 < sent(s3_store, "rows") <= (5 * BLOCK if damage == "a flipped bit" else len(right))
    assert sorted(read(data)) == as_rows(right)
    if damage != "a folder":
        settle(cache, blocks)
        s3_store.server.forget_requests()
        assert sorted(read(data)) == as_rows(right) and sent(s3_store, "rows") == 0


def test_aborted_epochs_lose_nothing_and_leave_nothing(s3_store, cache):
    data = open_rows(s3_store.put("rows", rows()), cache)
    before = descriptors()
    for seed in range(200):
        iterator = iter(data.shuffle(seed=seed).batch(10))
        for _ in range(seed % 3):
            next(iterator)
        del iterator
    assert sorted(read(data.shuffle(seed=0))) == as_rows(rows())
    settle(cache, BLOCKS)
    assert sent(s3_store, "rows") <= len(rows())
    assert descriptors() <= before + 40  # connections, and the file


def test_an_aborted_epoch_goes_on_from_its_state(s3_store, cache):
    tdi.testing.assert_resumable(open_rows(s3_store.put("rows", rows(many=40)), cache).shuffle(seed=1).batch(3))


def test_workers_share_what_was_read(s3_store, cache):
    data = open_rows(s3_store.put("rows", rows()), cache).map(lambda row: row)
    read(data)
    settle(cache, BLOCKS)
    s3_store.server.forget_requests()
    assert in_child(lambda: sorted(read(data)) == as_rows(rows())) == "True"
    assert sent(s3_store, "rows") == 0


# What users see


def test_explain_tells_what_is_there(s3_store, cache):
    data = open_rows(s3_store.put("rows", rows()), cache, cache_bytes=10_000_000)
    assert f"cache: {cache} has 0 B of 10 MB" in str(data.explain())
    read(data)
    settle(cache, BLOCKS)
    assert re.search(rf"cache: {cache} has 3\.\d+ MB of 10 MB", str(data.explain()))


def test_the_command_lists_warms_and_trims(s3_store, cache, capsys, monkeypatch):
    monkeypatch.setenv("TDI_CACHE", str(cache))
    names = s3_store.put_all({"a": rows(), "b": rows(many=10)})
    main(["cache", "warm", s3_store.url("*")])
    assert capsys.readouterr().out == "2 object(s), 3.01 MB\n"
    settle(cache, BLOCKS + 1)
    main(["cache", "--dir", str(cache), "list"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("2 object(s), 3.") and {line.split()[-2] for line in lines[:-1]} == set(names)
    s3_store.server.forget_requests()
    assert read(tdi.FixedLengthRecordDataset(names[0], ROW)) == as_rows(rows())
    assert sent(s3_store, "a") == 0
    main(["cache", "trim", "0"])
    assert capsys.readouterr().out == "0 B remain\n" and files_of(cache) == []


def test_the_command_names_what_is_wrong(cache, capsys, monkeypatch):
    for arguments, problem in (
        (["list"], "name the folder"),
        (["--dir", str(cache), "list"], "cannot be used: No such file"),
        (["--dir", str(cache), "trim", "many"], "BYTES must be a number"),
    ):
        with pytest.raises(SystemExit, match=problem):
            main(["cache", *arguments])
    assert not cache.exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"cache_bytes": 5}, "`cache_bytes` is for `cache_dir`"),
        ({"cache_dir": "x", "cache_bytes": 0}, "`cache_bytes` must be at least 1"),
        ({"cache_dir": ""}, "`cache_dir` must be the path of a folder"),
        ({"cache_dir": "x", "filesystem": object()}, "`cache_dir` is for stores"),
    ],
)
def test_arguments_that_cannot_work_are_errors(options, problem):
    with pytest.raises(ValueError, match=problem):
        tdi.TextLineDataset("s3://bucket/lines", **options)


def test_a_cache_is_for_objects():
    with pytest.raises(ValueError, match="`cache_dir` says how URLs are read"):
        tdi.TextLineDataset("lines.txt", cache_dir="x")
    with pytest.raises(ValueError, match="give `cache_dir` to the `list_files`"):
        tdi.TextLineDataset(tdi.Dataset.range(1).map(str), cache_dir="x")


def test_a_variable_that_is_no_number_is_an_error(s3_store, cache, monkeypatch):
    monkeypatch.setenv("TDI_CACHE_BYTES", "5 GB")
    with pytest.raises(tdi.InvalidArgumentError, match='TDI_CACHE_BYTES must be a number of bytes, but is "5 GB"'):
        open_rows(s3_store.put("rows", rows()), cache)
