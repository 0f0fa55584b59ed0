# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What only Azure Blob Storage does: accounts, connection strings, signatures that expire."""

import pytest
from object_server import AZURE_ACCOUNT, AZURE_KEY
from store_kinds import KINDS, SAS, Bucket

from torch_distinput import _C

AZ = next(kind for kind in KINDS if kind.name == "az-key")
DATA = bytes(range(256)) * 40


@pytest.fixture
def bucket(object_server):
    bucket = Bucket(AZ, object_server)
    bucket.put({"x": DATA})
    object_server.allow_sas(SAS)
    return bucket


def connection(server, *parts):
    return ";".join([f"BlobEndpoint={server.url('azure', AZURE_ACCOUNT)}/", *parts, ""])


def test_variables_name_the_account_and_its_key_or_signature(bucket, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", AZURE_ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_KEY", AZURE_KEY)
    bucket.configure({})
    assert bucket.read("x") == DATA
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", SAS)
    monkeypatch.setenv("AZURE_STORAGE_KEY", "AAAA")
    bucket.configure({})
    assert bucket.list() == {bucket.url + "x": len(DATA)}


def test_a_connection_string_has_it_all(bucket, object_server, monkeypatch):
    for parts in ([f"AccountName={AZURE_ACCOUNT}", f"AccountKey={AZURE_KEY}"], [f"SharedAccessSignature={SAS}"]):
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection(object_server, *parts))
        _C.set_storage_options(bucket.url, {})
        assert bucket.list() == {bucket.url + "x": len(DATA)}


def test_an_account_is_needed(bucket):
    with pytest.raises(ValueError, match='az needs "account"'):
        _C.set_storage_options(bucket.url, {"key": AZURE_KEY})
    with pytest.raises(ValueError, match='"key" of az needs "account"'):
        bucket.configure({"key": AZURE_KEY})
    with pytest.raises(ValueError, match='"key" of az must be base64') as caught:
        bucket.configure({"account": AZURE_ACCOUNT, "key": "s3cret!"})
    assert "s3cret" not in str(caught.value)


def test_a_signature_that_has_expired_is_replaced_by_the_callback(bucket, object_server):
    old, new = (f"sv=1&se={year}-01-01T00%3A00%3A00Z&sig=of{year}" for year in (2001, 2100))
    object_server.allow_sas(old)
    object_server.allow_sas(new)
    bucket.configure({"sas_token": old})
    with pytest.raises(_C.RemoteError, match="have expired"):
        bucket.read("x")
    bucket.configure({"sas_token": old}, lambda url: {"sas_token": new})
    assert bucket.read("x") == DATA


def test_a_clock_that_is_wrong_is_an_error_at_once(bucket, object_server):
    object_server.set_clock(3600)
    with pytest.raises(_C.RemoteError, match="AuthenticationFailed"):
        bucket.read("x")
    assert len(object_server.requests()) == 1


def test_errors_have_a_code_a_sentence_and_a_request(bucket):
    bucket.configure({"account": AZURE_ACCOUNT, "key": "AAAA"})
    with pytest.raises(_C.RemoteError) as caught:
        bucket.read("x")
    assert caught.value.code == "AuthenticationFailed" and len(caught.value.request_id) == 36
    text = str(caught.value)
    assert "Server failed to authenticate the request" in text and "RequestId" not in text and "MAC" not in text


def test_folders_of_a_list_are_no_objects(bucket, object_server):
    blob = "<Blob><Name>%s</Name><Properties><Etag>0x1</Etag><Content-Length>%d</Content-Length>%s</Properties></Blob>"
    blobs = blob % ("d", 0, "<ResourceType>directory</ResourceType>") + blob % ("d/x", 3, "")
    text = f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>"
    object_server.fail(operation="list", text=text)
    assert bucket.list() == {bucket.url + "d/x": 3}
