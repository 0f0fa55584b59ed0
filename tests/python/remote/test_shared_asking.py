# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the ranks of a job on one host ask a store for once: lists, versions, indexes; and how many requests open a data
set of many files."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from processes import run_script
from sample_files import tf_records

from torch_distinput import _C
from torch_distinput.cli import main

FILES = 12
ROWS = 300

BEGIN = """
import json, os
from host_ranks import run_together
from torch_distinput import _C
options, pattern, names = json.loads(os.environ["ASKED"])
_C.set_storage_options(*options)
"""


def records(number):
    return tf_records([b"%02d" % number * 500] * ROWS)


@pytest.fixture
def files(s3_store):
    return s3_store.put_all({f"{number:02}.tfrecord": records(number) for number in range(FILES)})


@pytest.fixture
def run(s3_store, files, tmp_path, monkeypatch):
    """Runs a program with a share of its own and an empty cache folder, over the files as `pattern` and `names`.
    Returns what it prints, as JSON. The server has forgotten the requests before."""
    parent = tempfile.mkdtemp(prefix="tdi-tests-", dir="/dev/shm")
    monkeypatch.setenv("TORCH_DISTINPUT_HOST_SHARE", str(Path(parent) / "share"))
    monkeypatch.setenv("ASKED", json.dumps([s3_store.options, s3_store.url("*.tfrecord"), files]))
    caches = iter(range(100))

    def run_program(body):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache-{next(caches)}"))
        s3_store.server.forget_requests()
        ran = run_script(BEGIN + body, timeout=90)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    yield run_program
    shutil.rmtree(parent)


def requests(store, ending="", **members):
    entries = store.server.requests(**members)
    return len([entry for entry in entries if entry.object.endswith(ending)])


def test_the_indexes_of_a_folder_are_one_object(run, s3_store):
    main(["index", s3_store.url() + "/"])
    assert run("print(tdi.TFRecordDataset(pattern).cardinality())") == FILES * ROWS
    # The list tells the versions of the files and that of the manifest.
    assert requests(s3_store, operation="list") == 1
    assert requests(s3_store, ".tdi-manifest") == 1
    assert len(s3_store.server.requests()) == 2


def test_a_manifest_has_no_say_about_replaced_objects(run, s3_store, files):
    main(["index", s3_store.url() + "/"])
    s3_store.put("03.tfrecord", tf_records([b"new" * 400] * 1000))
    assert run("print(tdi.TFRecordDataset(pattern).cardinality())") == (FILES - 1) * ROWS + 1000
    assert sum(end - begin for begin, end in s3_store.reads("02.tfrecord")) == 0
    main(["index", s3_store.url() + "/"])
    assert run("print(tdi.TFRecordDataset(pattern).cardinality())") == (FILES - 1) * ROWS + 1000
    assert len(s3_store.server.requests()) == 2


@pytest.mark.parametrize("content", [b"", b"TDIMANI1", b"x" * 100])
def test_a_damaged_manifest_is_as_none(run, s3_store, content):
    main(["index", s3_store.url() + "/"])
    good = s3_store.server.get(s3_store.object(".records.tdi-manifest"))
    s3_store.put(".records.tdi-manifest", content or good[:-9] + b"x" + good[-8:])
    assert run("print(tdi.TFRecordDataset(pattern).cardinality())") == FILES * ROWS
    assert sum(end - begin for begin, end in s3_store.reads("02.tfrecord")) == 0


RANKS = """
os.environ.update(WORLD_SIZE="4")
ranks = run_together([lambda: {}] * 4)
print(json.dumps([found for found, _ in ranks]))
"""


def test_ranks_of_a_host_list_once_and_read_each_index_once(run, s3_store):
    for one in range(FILES):
        main(["index", s3_store.url(f"{one:02}.tfrecord")])
    assert run(RANKS.format("tdi.TFRecordDataset(pattern).cardinality()")) == [FILES * ROWS] * 4
    assert requests(s3_store, operation="list") == 1
    assert requests(s3_store, ".tfrecord", operation="read") == 0
    for one in range(FILES):
        assert requests(s3_store, f"/.{one:02}.tfrecord.records.tdi-index") == 1
    assert requests(s3_store, ".tdi-manifest") == 1  # there is none


def test_ranks_of_a_host_read_a_manifest_once(run, s3_store):
    main(["index", s3_store.url() + "/"])
    assert run(RANKS.format("tdi.TFRecordDataset(pattern).cardinality()")) == [FILES * ROWS] * 4
    assert len(s3_store.server.requests()) == 2


def test_ranks_of_a_host_ask_for_versions_once(run, s3_store):
    main(["index", s3_store.url() + "/"])
    assert run(RANKS.format("tdi.TFRecordDataset(names).cardinality()")) == [FILES * ROWS] * 4
    assert len(s3_store.server.requests()) == FILES + 2


def test_a_rank_that_lists_again_gets_a_new_list(run, s3_store):
    work = "(len(_C.list_objects(pattern[:-10])), _C.write_object(names[0][:-11] + '/new' + str(os.getpid()), b''), "
    work += "len(_C.list_objects(pattern[:-10])))"
    for first, _, second in run(RANKS.format(work)):
        assert first == FILES
        assert second > FILES
    assert requests(s3_store, operation="list") == 2


def test_other_programs_ask_for_themselves(run, s3_store):
    body = RANKS.replace('os.environ.update(WORLD_SIZE="4")', "")
    assert run(body.format("len(_C.list_objects(pattern[:-10]))")) == [FILES] * 4
    assert requests(s3_store, operation="list") == 4


def test_an_error_of_the_list_reaches_each_rank(run, s3_store):
    s3_store.server.fail(operation="list", status=403)
    work = "str(pytest.raises(_C.RemoteError, _C.list_objects, pattern[:-10]).value)"
    for told in run("import pytest\n" + RANKS.format(work)):
        assert "403" in told


def test_manifests_are_read_back():
    entries = {"a.tfrecord": b"x" * 1000, "b": b""}
    encoded = _C.encode_manifest(entries)
    assert _C.decode_manifest(encoded) == entries
    for place in range(0, len(encoded), 7):
        damaged = encoded[:place] + bytes([encoded[place] ^ 1]) + encoded[place + 1 :]
        assert _C.decode_manifest(damaged) is None
        assert _C.decode_manifest(encoded[:place]) is None
