# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What all kinds of stores do, against a server that refuses whatever the real ones would."""

import pytest
from object_server import TOKEN
from store_kinds import KINDS, ODD_NAMES, WRONG, Bucket, versions_of

from torch_distinput import _C

DATA = bytes(range(256)) * 40

all_kinds = pytest.mark.parametrize("kind", KINDS, ids=str)
writable = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name != "hf"], ids=str)


@all_kinds
def test_bytes_are_those_that_were_put_whatever_the_name(object_server, kind):
    bucket = Bucket(kind, object_server)
    objects = {name: name.encode() * 3 for name in ODD_NAMES}
    bucket.put(objects)
    assert {name: bucket.read(name) for name in ODD_NAMES} == objects
    file = bucket.open("plain")
    assert (file.size(), file.read_at(5, 4), file.read_at(13, 9), file.read_at(15, 9)) == (15, b"plai", b"in", b"")


@all_kinds
def test_an_empty_object_is_read(object_server, kind):
    bucket = Bucket(kind, object_server)
    bucket.put({"empty": b""})
    assert bucket.read("empty") == b""


@all_kinds
def test_the_first_bytes_come_with_the_version(object_server, kind):
    bucket = Bucket(kind, object_server)
    bucket.put({"small": b"abc", "x": DATA})
    small, file = bucket.open("small"), bucket.open("x")
    object_server.forget_requests()
    assert small.read_at(0, 10) == b"abc" and file.read_at(0, 4096) == DATA[:4096]
    assert object_server.requests() == []
    assert file.read_at(4000, 200) == DATA[4000:4200]


@all_kinds
def test_a_list_of_several_pages_has_all_names_and_sizes(object_server, kind):
    bucket = Bucket(kind, object_server)
    sizes = {name: place for place, name in enumerate(ODD_NAMES)}
    bucket.put({name: b"x" * size for name, size in sizes.items()})
    object_server.limit_pages(3)
    assert bucket.list() == {bucket.url + name: size for name, size in sizes.items()}
    assert len(object_server.requests(operation="list")) == 4
    assert bucket.list("d/") == {bucket.url + "d/a b": 1, bucket.url + "d/e/f": 2}
    assert bucket.list("d/a") == {bucket.url + "d/a b": 1}


@all_kinds
def test_what_a_list_told_of_versions_holds_for_reading(object_server, kind):
    bucket = Bucket(kind, object_server)
    bucket.put({"x": DATA, "README.md": DATA})
    bucket.list()
    object_server.forget_requests()
    assert bucket.read("x") == bucket.read("README.md") == DATA
    assert len(object_server.requests(operation="read")) == 2, "the versions were known"


@writable
def test_objects_are_written_and_replaced(object_server, kind):
    bucket = Bucket(kind, object_server)
    for name in ODD_NAMES:
        _C.write_object(bucket.url + name, name.encode())
        assert object_server.get(f"{bucket.name}/{name}") == name.encode()
    for data in (b"", DATA * 120):
        _C.write_object(bucket.url + "plain", data)
        assert object_server.get(f"{bucket.name}/plain") == bucket.read("plain") == data


@all_kinds
def test_wrong_secrets_are_refused_at_once_and_not_told(object_server, kind):
    bucket = Bucket(kind, object_server)
    bucket.put({"x": DATA})
    bucket.configure(kind.wrong)
    object_server.forget_requests()
    with pytest.raises(_C.RemoteError, match="access is denied|have expired or are not known") as caught:
        bucket.read("x")
    assert caught.value.status in (401, 403)
    assert caught.value.url == bucket.url + "x"
    assert WRONG not in str(caught.value) and TOKEN not in str(caught.value)
    with pytest.raises(_C.RemoteError, match="access is denied|have expired or are not known"):
        bucket.list()
    assert len(object_server.requests()) == 2


@all_kinds
def test_a_replaced_object_is_an_error_that_names_both_versions(object_server, kind):
    bucket = Bucket(kind, object_server)
    bucket.put({"x.txt": DATA * 100})
    file = bucket.open("x.txt")
    file.read_at(0, 10)
    bucket.put({"x.txt": b"y" * len(DATA * 100)})
    with pytest.raises(_C.RemoteError, match="was replaced while it was read") as caught:
        file.read_at(500_000, 10)
    wanted, found = versions_of(caught.value)
    assert wanted != found and wanted in file.version() and found in bucket.open("x.txt").version()
    assert bucket.read("x.txt") == b"y" * len(DATA * 100)


@all_kinds
def test_what_is_not_there_is_told_with_code_and_request(object_server, kind):
    bucket = Bucket(kind, object_server)
    bucket.put({"other": b"1"})
    with pytest.raises(_C.NotFoundError, match="there is no such object") as caught:
        bucket.read("x")
    expected = {
        "s3": "NoSuchKey",
        "gs-hmac": "NoSuchKey",
        "az-key": "BlobNotFound",
        "az-sas": "BlobNotFound",
        "az-token": "BlobNotFound",
        "hf": "EntryNotFound",
        "gs": "The specified object does not exist",
    }
    assert expected[kind.name] in str(caught.value)
    assert len(object_server.requests()) == 1, "asking again is useless"


@all_kinds
def test_anonymous_requests_have_no_credentials(object_server, kind, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    bucket = Bucket(kind, object_server)
    bucket.put({"x": DATA})
    bucket.configure({"anonymous": "true"}, lambda url: kind.known, **account(kind))
    with pytest.raises(_C.RemoteError, match="access is denied"):
        bucket.read("x")
    object_server.allow_anonymous()
    assert bucket.read("x") == DATA
    assert bucket.list() == {bucket.url + "x": len(DATA)}
    assert not any("authorization" in request.headers for request in object_server.requests())


def account(kind):
    return {name: value for name, value in kind.known.items() if name == "account"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name not in ("gs-hmac", "az-key")], ids=str)
def test_a_callback_gives_credentials_and_again_when_they_expire(object_server, kind):
    bucket = Bucket(kind, object_server)
    bucket.put({str(number): DATA for number in range(4)})
    asked = []

    def credentials(url):
        asked.append(url)
        return granted(object_server, kind, len(asked))

    bucket.configure({}, credentials, **account(kind))
    assert [bucket.read(str(number)) for number in range(4)] == [DATA] * 4
    assert asked == [bucket.url] * len(asked) and len(asked) > 1


def granted(server, kind, number):
    """New credentials, good for two requests."""
    if "sas_token" in kind.known:
        server.allow_sas(f"sv=1&sig=sig{number}", requests=2)
        return {"sas_token": f"sv=1&sig=sig{number}"}
    if "token" in kind.known:
        server.allow_token(f"token{number}", requests=2)
        return {"token": f"token{number}"}
    server.allow_s3_key(f"KEY{number}", "secret", f"session{number}", requests=2)
    return {"key": f"KEY{number}", "secret": "secret", "session_token": f"session{number}"}


@all_kinds
def test_a_list_that_is_none_is_refused(object_server, kind):
    bucket = Bucket(kind, object_server, timeout="5")
    bucket.put({"x": DATA})
    for text in ("<html>hello</html>", "", "{}x", "[" * 100_000, "<a>" * 100_000, "\xff\xfe", *with_faults()):
        object_server.fail(operation="list", text=text)
        with pytest.raises(_C.RemoteError):
            bucket.list()
        object_server.heal()


def with_faults():
    """Lists in the form of each kind, without a size, or with a name that is no text."""
    yield "<ListBucketResult><Contents><Key>x</Key></Contents></ListBucketResult>"
    yield "<EnumerationResults><Blobs><Blob><Name>x</Name></Blob></Blobs></EnumerationResults>"
    yield "<ListBucketResult><Contents><Key>\xff</Key><Size>1</Size></Contents></ListBucketResult>"
    yield '{"items": [{"name": "x", "size": "1e3"}]}'
    yield '[{"type": "file", "path": "x", "size": -1}]'


def test_options_that_are_unknown_or_half_are_refused_by_their_names():
    for url in ("s3://b", "gs://b"):
        with pytest.raises(ValueError, match='"key" and "secret" must be given together'):
            _C.set_storage_options(url, {"key": "x"})
    for url, options in (("gs://b", {"region": "x"}), ("az://b", {"secret": "x"}), ("hf://datasets/o/n", {"key": "x"})):
        with pytest.raises(ValueError, match="is not an option of"):
            _C.set_storage_options(url, options)


def test_a_replaced_object_is_told_even_where_it_is_gone(object_server):
    bucket = Bucket(KINDS[0], object_server)
    bucket.put({"x": DATA * 100})
    file = bucket.open("x")
    object_server.fail(object="*/x", first=1, status=412)
    object_server.remove(f"{bucket.name}/x")
    with pytest.raises(_C.RemoteError, match="was replaced while it was read: A scripted fault") as caught:
        file.read_at(500_000, 10)
    assert caught.value.status == 412
