# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What only the Hub does: redirects to other servers, revisions, limits of requests, tokens in files."""

import pytest
from object_server import TOKEN
from store_kinds import KINDS, Bucket, versions_of

from torch_distinput import _C

HF = next(kind for kind in KINDS if kind.name == "hf")
DATA = bytes(range(256)) * 4000


@pytest.fixture
def bucket(object_server):
    return Bucket(HF, object_server)


def test_a_file_lies_elsewhere_and_the_token_does_not_go_there(bucket, object_server):
    bucket.put({"x.bin": DATA})
    file = bucket.open("x.bin")
    assert file.read_at(0, len(DATA)) == DATA and file.read_at(900_000, 10) == DATA[900_000:900_010]
    resolved, *read = object_server.requests()
    assert (resolved.operation, "authorization" in resolved.headers) == ("resolve", True)
    assert {request.dialect for request in read} == {"cdn"}
    assert not any("authorization" in request.headers for request in read)


def test_a_small_text_lies_at_the_hub_which_wants_the_token_again(bucket, object_server):
    bucket.put({"README.md": DATA})
    assert bucket.read("README.md") == DATA
    resolved, *read = object_server.requests()
    assert resolved.status == 307 and {request.dialect for request in read} == {"hub"}
    assert all("authorization" in request.headers for request in read)


def test_addresses_that_expire_are_asked_for_again_and_again(bucket, object_server):
    bucket.put({"x.bin": DATA})
    object_server.set_signed_lifetime(60)
    file = bucket.open("x.bin")
    for turn in range(4):
        object_server.set_clock(100 * turn)
        assert file.read_at(200_000 * turn, 10) == DATA[200_000 * turn :][:10]
    assert len(object_server.requests(operation="resolve")) == 4


def test_a_file_that_was_replaced_is_read_as_it_was_until_its_address_expires(bucket, object_server):
    bucket.put({"x.bin": DATA})
    object_server.set_signed_lifetime(60)
    file = bucket.open("x.bin")
    bucket.put({"x.bin": DATA[::-1]})
    assert file.read_at(0, 1000) == DATA[:1000]
    object_server.set_clock(61)
    with pytest.raises(_C.RemoteError) as caught:
        file.read_at(900_000, 10)
    wanted, found = versions_of(caught.value)
    assert wanted in file.version() and found in bucket.open("x.bin").version()
    assert bucket.read("x.bin") == DATA[::-1]


def test_another_tag_at_the_same_address_is_another_version(bucket, object_server):
    bucket.put({"x.bin": DATA})
    file = bucket.open("x.bin")
    file.read_at(0, 10)
    object_server.fail(dialect="cdn", headers={"ETag": '"other"'})
    with pytest.raises(_C.RemoteError) as caught:
        file.read_at(900_000, 10)
    assert versions_of(caught.value)[1] == '"other"'


@pytest.mark.parametrize(
    "kind, objects", [("", "models/owner/name"), ("spaces/", "spaces/owner/name"), ("datasets/", "owner/name")]
)
def test_models_spaces_and_data_sets_have_files(object_server, kind, objects):
    url = f"hf://{kind}owner/name"
    _C.set_storage_options(url, {"endpoint_url": object_server.url("hub"), "token": TOKEN})
    object_server.put_all({f"{objects}/d/x y": b"1", f"{objects}/d/z": b"22"})
    assert dict(_C.list_objects(f"{url}/d/")) == {f"{url}/d/x y": 1, f"{url}/d/z": 2}
    assert dict(_C.list_objects(f"{url}@main/d/z")) == {f"{url}@main/d/z": 2}
    assert _C.InputFile(f"{url}@main/d/z", "test").read_at(0, 5) == b"22"


def test_a_revision_that_is_not_there_is_told(bucket):
    bucket.put({"x": DATA})
    for url in (
        bucket.url.replace("/data/", "/data@refs/convert/parquet/x"),
        bucket.url.replace("/data/", "/data@v2/x"),
    ):
        with pytest.raises(_C.NotFoundError, match="RevisionNotFound"):
            _C.InputFile(url, "test")
        with pytest.raises(_C.NotFoundError, match="RevisionNotFound"):
            _C.list_objects(url)


def test_a_list_goes_on_at_the_same_server_only(bucket, object_server):
    bucket.put({"x": DATA})
    link = f'<{object_server.url("cdn")}/next>; rel="next"'
    object_server.fail(operation="list", headers={"Link": link})
    with pytest.raises(_C.RemoteError, match="lies on another server"):
        bucket.list()


def test_the_limit_of_requests_is_waited_for(bucket, object_server):
    bucket.put({"a": b"1", "b": b"2"})
    object_server.limit_rate("resolvers", requests=1, seconds=1)
    assert bucket.read("a") + bucket.read("b") == b"12"
    assert [request.status for request in object_server.requests(operation="resolve")] == [302, 429, 302]


def test_the_hub_is_not_written_to(bucket):
    with pytest.raises(_C.RemoteError, match="^write_object: hf://.* cannot be written to: the Hub takes commits"):
        _C.write_object(bucket.url + "x", b"")


def test_a_url_without_a_repository_is_refused(bucket):
    for url in ("hf://datasets/owner", "hf://owner", "hf://datasets/owner/@main/x", "hf://datasets//name/x"):
        with pytest.raises(_C.RemoteError, match=r"must be hf://datasets/owner/name\[@revision\]/path"):
            _C.InputFile(url, "test")


@pytest.mark.parametrize("place", ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "XDG_CACHE_HOME", "HOME"])
def test_the_token_is_where_huggingface_hub_has_it(object_server, place, monkeypatch, tmp_path):
    files = {"HF_TOKEN_PATH": "mine", "HF_HOME": "token", "XDG_CACHE_HOME": "huggingface/token"}
    file = tmp_path / files.get(place, ".cache/huggingface/token")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{TOKEN}\n")
    values = {"HF_TOKEN": TOKEN, "HF_TOKEN_PATH": str(file)}
    monkeypatch.setenv(place, values.get(place, str(tmp_path)))
    monkeypatch.setenv("HF_ENDPOINT", object_server.url("hub"))
    bucket = Bucket(HF, object_server)
    bucket.put({"x": b"1"})
    _C.set_storage_options(bucket.url, {})
    assert bucket.read("x") == b"1"
