# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What only Google Cloud Storage does: the user of Application Default Credentials, emulators."""

import json

import pytest
from object_server import TOKEN
from store_kinds import KINDS, Bucket

from torch_distinput import _C

GS = next(kind for kind in KINDS if kind.name == "gs")
DATA = bytes(range(256)) * 40
CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"


@pytest.fixture
def bucket(object_server):
    bucket = Bucket(GS, object_server)
    bucket.put({"x": DATA})
    return bucket


def user_file(server, path, **members):
    user = {
        "type": "authorized_user",
        "client_id": "id.apps",
        "client_secret": "s3cret&=",
        "refresh_token": "1//r+e",
        "token_uri": server.url("gcs", "token"),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(user | members))
    return str(path)


@pytest.mark.parametrize("place", [CREDENTIALS, "CLOUDSDK_CONFIG", "HOME"])
def test_the_user_of_application_default_credentials_gets_tokens(bucket, object_server, place, monkeypatch, tmp_path):
    object_server.allow_refresh_token("1//r+e", "id.apps", "s3cret&=")
    name = "application_default_credentials.json"
    file = user_file(object_server, tmp_path / (f".config/gcloud/{name}" if place == "HOME" else name))
    monkeypatch.setenv(place, file if place == CREDENTIALS else str(tmp_path))
    bucket.configure({})
    assert bucket.read("x") == DATA and bucket.list() == {bucket.url + "x": len(DATA)}
    assert [request.operation for request in object_server.requests()].count("token") == 1


def test_a_token_that_expires_is_replaced_by_the_user(bucket, object_server, monkeypatch, tmp_path):
    object_server.allow_refresh_token("1//r+e", "id.apps", "s3cret&=")
    monkeypatch.setenv(CREDENTIALS, user_file(object_server, tmp_path / "user"))
    bucket.configure({})
    file = bucket.open("x")
    object_server.set_clock(4000)
    assert file.read_at(5000, 10) == DATA[5000:5010]
    assert [request.operation for request in object_server.requests()].count("token") == 2


def test_a_refresh_token_that_is_refused_is_told_without_secrets(bucket, object_server, monkeypatch, tmp_path):
    monkeypatch.setenv(CREDENTIALS, user_file(object_server, tmp_path / "user"))
    bucket.configure({})
    with pytest.raises(_C.RemoteError) as caught:
        bucket.read("x")
    assert "/token" in str(caught.value) and caught.value.status == 400
    assert "s3cret" not in str(caught.value) and "r+e" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"type": "service_account", "private_key": "x"}'])
def test_credentials_of_another_kind_are_left_to_the_callback(bucket, monkeypatch, tmp_path, text):
    (tmp_path / "file").write_text(text)
    monkeypatch.setenv(CREDENTIALS, str(tmp_path / "file"))
    bucket.configure({}, lambda url: {"token": TOKEN})
    assert bucket.read("x") == DATA


def test_a_token_that_will_expire_is_replaced_before(bucket, object_server):
    asked = []

    def credentials(url):
        asked.append(url)
        return {"token": TOKEN, "expires": "4102444800"}

    object_server.allow_token("old")
    bucket.configure({"token": "old", "expires": "1"}, credentials)
    object_server.expire("bearer", "old")
    assert bucket.read("x") == DATA and len(asked) == 1


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_an_emulator_is_asked_without_credentials(bucket, object_server, monkeypatch, tmp_path, scheme):
    monkeypatch.setenv(CREDENTIALS, user_file(object_server, tmp_path / "user"))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", scheme + object_server.url("gcs").removeprefix("http://"))
    object_server.allow_anonymous()
    _C.set_storage_options(bucket.url, {})
    assert bucket.read("x") == DATA
    assert not any("authorization" in request.headers for request in object_server.requests())


def test_the_reason_of_a_fault_is_its_code(bucket, object_server):
    object_server.fail(operation="list", status=403, code="insufficientPermissions")
    with pytest.raises(_C.RemoteError) as caught:
        bucket.list()
    assert (caught.value.status, caught.value.code) == (403, "insufficientPermissions")
    assert "A scripted fault" in str(caught.value)


def test_a_reason_that_asks_for_patience_is_waited_for(bucket, object_server):
    object_server.fail(operation="list", first=2, status=403, code="rateLimitExceeded")
    assert bucket.list() == {bucket.url + "x": len(DATA)}
