# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How a user says with which options, credentials or file system URLs are read."""

import os
from pathlib import Path

import pytest
from object_server import S3_KEY, S3_SECRET
from processes import in_child
from remote_sources import BUCKET, ROWS, SOURCES, elements, upload, write

import torch_distinput as tdi

KEYS = {"key": S3_KEY, "secret": S3_SECRET}


@pytest.fixture
def s3(object_server, tmp_path):
    """The S3 dialect, and a text object in it."""
    upload(object_server, write("text", tmp_path))
    return object_server.url("s3")


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch, tmp_path):
    """None from this machine, and none from the network."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_sources_and_list_files_take_options(s3, tmp_path):
    options = KEYS | {"endpoint_url": s3, "timeout": 30}
    expected = elements(tdi.TextLineDataset(write("text", tmp_path)))
    names = tdi.Dataset.list_files(f"s3://{BUCKET}/text-*", shuffle=False, storage_options=options)
    assert elements(tdi.TextLineDataset(names)) == expected
    assert elements(tdi.TextLineDataset(list(names), storage_options=options)) == expected


def test_the_usual_variables_are_read(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", S3_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", S3_SECRET)
    assert tdi.TextLineDataset(f"s3://{BUCKET}/text-0.data", storage_options={}).cardinality() == 23


def test_a_function_gives_credentials_and_is_asked_again_when_they_expire(object_server, s3):
    object_server.allow_s3_key("old", "oldsecret")
    given = [{"key": "old", "secret": "oldsecret"}, {"key": S3_KEY, "secret": S3_SECRET}]
    asked = []

    def credentials(url):
        asked.append(url)
        return given[min(len(asked), len(given)) - 1]

    options = {"endpoint_url": s3, "credentials": credentials}
    dataset = tdi.TextLineDataset(f"s3://{BUCKET}/text-0.data", storage_options=options, index=False)
    iterator = iter(dataset)
    next(iterator)
    object_server.expire("s3", "old")
    assert len(elements(tdi.TextLineDataset(f"s3://{BUCKET}/text-2.data"))) == 41
    assert len(asked) == 2 and asked[0].startswith(f"s3://{BUCKET}")


def test_what_a_credentials_function_raises_is_named(s3):
    def credentials(url):
        raise RuntimeError("the vault is sealed")

    options = {"endpoint_url": s3, "credentials": credentials}
    with pytest.raises(tdi.RemoteError, match=r"TextLineDataset: s3://bucket/text-0.data: .*the vault is sealed"):
        list(tdi.TextLineDataset(f"s3://{BUCKET}/text-0.data", storage_options=options))


def test_botocore_is_asked_where_nothing_else_has_credentials(s3, monkeypatch, tmp_path):
    pytest.importorskip("botocore")
    script = tmp_path / "credentials.sh"
    script.write_text(
        f'#!/bin/sh\necho \'{{"Version": 1, "AccessKeyId": "{S3_KEY}", "SecretAccessKey": "{S3_SECRET}"}}\'\n'
    )
    script.chmod(0o755)
    config = tmp_path / "config"
    config.write_text(f"[default]\ncredential_process = {script}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    dataset = tdi.TextLineDataset(f"s3://{BUCKET}/text-0.data", storage_options={"endpoint_url": s3})
    assert len(list(dataset)) == 23


@pytest.mark.parametrize(
    "options, text",
    [
        ({"endpoint": "x"}, '"endpoint" is not an option of s3'),
        ({"addressing_style": "odd"}, '"addressing_style" must be "path" or "virtual", but is "odd"'),
        ({"timeout": -1}, '"timeout" must be a number of seconds above 0, but is "-1"'),
    ],
)
def test_wrong_options_are_named(options, text):
    with pytest.raises(tdi.InvalidArgumentError, match=text):
        tdi.TextLineDataset("s3://bucket/x", storage_options=options)


def test_options_of_other_types_are_refused_without_their_values():
    with pytest.raises(TypeError, match=r"`storage_options` must be a dict from names to values, but is a list"):
        tdi.TextLineDataset("s3://b/x", storage_options=["hush"])
    with pytest.raises(TypeError, match=r"`storage_options\['secret'\]` must be a text") as raised:
        tdi.TextLineDataset("s3://b/x", storage_options={"secret": b"hush"})
    assert "hush" not in str(raised.value)
    with pytest.raises(TypeError, match="must be a function of a URL"):
        tdi.TextLineDataset("s3://b/x", storage_options={"credentials": "hush"})


def test_options_for_paths_or_a_dataset_of_names_are_refused():
    with pytest.raises(ValueError, match="`storage_options` says how URLs are read, but the files are paths"):
        tdi.NumpyDataset("x.npy", storage_options={})
    names = tdi.Dataset.from_tensor_slices(["s3://b/x"])
    with pytest.raises(ValueError, match="to the `list_files` that names the files"):
        tdi.NumpyDataset(names, storage_options={})


def test_secrets_are_in_no_repr_and_no_error(s3):
    options = {"endpoint_url": s3, "key": "AKIDUNKNOWN", "secret": "hushhush"}
    dataset = tdi.TextLineDataset(f"s3://{BUCKET}/text-0.data", storage_options=options)
    with pytest.raises(tdi.RemoteError) as raised:
        list(dataset)
    assert raised.value.status == 403 and raised.value.code == "InvalidAccessKeyId"
    assert "hushhush" not in repr(dataset) + str(raised.value) + str(vars(raised.value))


# File systems of fsspec


@pytest.fixture
def memory(tmp_path):
    """A file system in memory with the files of each source."""
    files = pytest.importorskip("fsspec").filesystem("memory")
    for kind in SOURCES:
        for path in write(kind, tmp_path):
            files.pipe_file(f"/data/{os.path.basename(path)}", Path(path).read_bytes())
    yield files
    files.rm("/data", recursive=True)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_file_system_of_fsspec_yields_the_same_rows(kind, memory, tmp_path):
    paths = write(kind, tmp_path)
    names = [f"/data/{os.path.basename(path)}" for path in paths]
    assert elements(SOURCES[kind].open(names, filesystem=memory)) == elements(SOURCES[kind].open(paths))


def test_a_file_system_lists_files(memory):
    names = tdi.Dataset.list_files("/data/text-*", shuffle=False, filesystem=memory)
    assert list(names) == [f"memory:///data/text-{number}.data" for number in range(4)]
    assert tdi.TextLineDataset(names).cardinality() == ROWS
    with pytest.raises(tdi.NotFoundError, match="no object matches the pattern `memory:///data/none-"):
        tdi.Dataset.list_files("/data/none-*", filesystem=memory)


def test_a_missing_file_of_a_file_system_is_named(memory):
    with pytest.raises(tdi.NotFoundError, match="TextLineDataset: memory:///data/none: there is no such object"):
        list(tdi.TextLineDataset("/data/none", filesystem=memory))


def test_a_forked_process_is_refused_its_parents_file_system(memory):
    dataset = tdi.TextLineDataset("/data/text-0.data", filesystem=memory)
    assert len(list(dataset)) == 23
    assert "given before this process was forked" in in_child(lambda: list(dataset))


def test_what_is_no_file_system_is_refused():
    with pytest.raises(TypeError, match="`filesystem` must be one of fsspec, but a dict has no `info`"):
        tdi.TextLineDataset("x", filesystem={})
    with pytest.raises(ValueError, match="give one of them"):
        tdi.TextLineDataset("x", filesystem={}, storage_options={})


def test_a_scheme_without_a_store_is_named():
    with pytest.raises(OSError, match="the scheme of `hdfs://x/y` is not one of http, .* nor was a file system given"):
        list(tdi.TextLineDataset("hdfs://x/y"))
