# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Patterns of URLs, in list_files and where a source is given one."""

import pytest
from sample_files import tf_records, write_tar

import torch_distinput as tdi
from torch_distinput import _C


def records(*rows):
    return tf_records(row.encode() for row in rows)


@pytest.fixture
def shards(s3_store):
    """Three files of a row each, and one that no pattern of `train` matches."""
    s3_store.put_all({f"a/train-{number:03}": records(f"row {number}") for number in (2, 0, 1)})
    s3_store.put("a/other", records("other"))
    return s3_store


def test_a_glob_in_a_source_stands_for_the_objects_that_match_sorted(shards):
    dataset = tdi.TFRecordDataset(shards.url("a/train-*"))
    assert list(dataset) == [b"row 0", b"row 1", b"row 2"] and len(dataset) == 3
    assert list(tdi.TFRecordDataset([shards.url("a/other"), shards.url("a/train-00[!1]")])) == [
        b"other",
        b"row 0",
        b"row 2",
    ]


def test_a_glob_lists_once_and_asks_no_object_for_its_version(shards):
    shards.server.forget_requests()
    assert len(list(tdi.TFRecordDataset(shards.url("a/train-*")))) == 3
    asked = shards.server.requests()
    assert [entry.operation for entry in asked].count("list") == 1
    assert all("if-match" in entry.headers for entry in asked if entry.operation == "read")


def test_braces_in_a_source_stand_for_names_in_their_order(store):
    store.put_all({f"train-{number:03}": records(f"row {number}") for number in range(12)})
    found = list(tdi.TFRecordDataset(store.url("train-{011..009}")))
    assert found == [b"row 11", b"row 10", b"row 9"]
    assert list(tdi.TFRecordDataset(store.url("{train,train}-00{1,0}"))) == [b"row 1", b"row 0"] * 2


def test_braces_name_archives(store, tmp_path):
    for number in range(3):
        write_tar(tmp_path / "t.tar", [(f"{number}.cls", b"%d" % number)])
        store.put(f"shard-{number:06}.tar", (tmp_path / "t.tar").read_bytes())
    found = list(tdi.TarDataset(store.url("shard-{000000..000002}.tar")))
    assert [row["cls"] for row in found] == [b"0", b"1", b"2"]


def test_list_files_knows_wildcards_and_braces(shards):
    def listed(*patterns):
        return list(tdi.Dataset.list_files([shards.url(pattern) for pattern in patterns], shuffle=False))

    def urls(*names):
        return [shards.url(name) for name in names]

    shards.put("b/deep/train-000", b"")
    assert listed("a/train-{001,000}", "a/*-001") == urls("a/train-000", "a/train-001")
    assert listed("{a,b/deep}/train-*0") == urls("a/train-000", "b/deep/train-000")
    assert listed("**0") == urls("a/train-000", "b/deep/train-000")


def test_list_files_looks_for_the_names_of_braces(store):
    store.put("a", b"")
    with pytest.raises(tdi.NotFoundError, match="list_files: .*b: "):
        tdi.Dataset.list_files(store.url("{a,b}"))


def test_keys_that_were_listed_are_no_patterns(s3_store):
    s3_store.put_all({"a[1]{2}": records("brackets"), "a1": records("another")})
    assert list(tdi.TFRecordDataset(s3_store.url("a[[]*"))) == [b"brackets"]
    assert list(tdi.TFRecordDataset(tdi.Dataset.list_files(s3_store.url("a[[]*")))) == [b"brackets"]


def test_a_pattern_without_a_match_is_an_error(shards):
    with pytest.raises(tdi.NotFoundError, match=r"files: no object matches the pattern `s3://.*/a/test-\*`"):
        tdi.TFRecordDataset(shards.url("a/test-*"))
    with pytest.raises(tdi.InvalidArgumentError, match="files: braces in the pattern `.*` must come in pairs"):
        tdi.TFRecordDataset(shards.url("a/{0"))


def test_web_servers_have_no_lists(http_store):
    for make in (tdi.TFRecordDataset, tdi.Dataset.list_files):
        with pytest.raises(_C.RemoteError, match="web servers have no lists") as raised:
            make(http_store.url("a/*"))
        assert raised.value.url.startswith("http://")


def test_queries_have_no_patterns_and_are_shown_nowhere(http_store):
    http_store.put("a", records("row"))
    dataset = tdi.TFRecordDataset(http_store.url("a") + "?signature={secret*,x}")
    assert list(dataset) == [b"row"]
    assert "secret" not in repr(dataset) + str(dataset.explain())


def test_a_position_holds_where_a_url_is_signed_anew(http_store):
    http_store.put("a", records("0", "1", "2"))
    iterator = iter(tdi.TFRecordDataset(http_store.url("a") + "?signature=1"))
    next(iterator)
    again = iter(tdi.TFRecordDataset(http_store.url("a") + "?signature=2"))
    again.load_state_dict(iterator.state_dict())
    assert list(again) == [b"1", b"2"]


def test_patterns_of_paths_are_names_as_before(tmp_path):
    (tmp_path / "a{0}*").write_bytes(records("literal"))
    assert list(tdi.TFRecordDataset(tmp_path / "a{0}*")) == [b"literal"]


def test_the_first_bytes_of_a_thousand_objects_are_kept_until_they_are_opened(http_store):
    names = [f"part-{number}" for number in range(1030)]
    urls = http_store.put_all({name: name.encode() for name in names})
    assert list(tdi.Dataset.list_files(urls, shuffle=False)) == sorted(urls)
    http_store.server.forget_requests()
    assert _C.InputFile(urls[-1], "test").read_at(0, 20) == b"part-1029"
    assert http_store.server.requests() == []
    assert _C.InputFile(urls[0], "test").read_at(0, 20) == b"part-0"
    assert len(http_store.server.requests()) == 1
