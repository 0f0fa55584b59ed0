# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The object server's Azure Blob Storage, by hand, and by azure-storage-blob where it is installed."""

import time
from email.utils import formatdate
from xml.etree import ElementTree

import pytest
from http_client import Client
from object_server import AZURE_ACCOUNT, AZURE_KEY, TOKEN

BLOB = f"/{AZURE_ACCOUNT}/box/x"
KNOWN = {"Authorization": f"Bearer {TOKEN}", "x-ms-version": "2023-11-03"}
SAS = "sv=2023-11-03&se=2100-01-01T00%3A00%3A00Z&sr=c&sp=rl&sig=a%2Bb%2Fc%3D"


@pytest.fixture
def client(object_server):
    object_server.put("box/x", b"0123456789")
    client = Client(object_server.url("azure"))
    yield client
    client.close()


def refusal(answer):
    status, headers, _ = answer
    return status, headers["x-ms-error-code"]


def test_blobs_come_in_ranges_bound_to_their_tag(object_server, client):
    status, headers, body = client.get(BLOB, x_ms_range="bytes=2-4", Range="bytes=0-0", **KNOWN)
    assert (status, body, headers["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    tag = headers["ETag"]
    assert client.get(BLOB, If_Match=tag, Range="bytes=9-", **KNOWN)[2] == b"9"
    object_server.put("box/x", b"0123456789")
    assert refusal(client.get(BLOB, If_Match=tag, **KNOWN)) == (412, "ConditionNotMet")
    assert refusal(client.get(BLOB, Range="bytes=10-", **KNOWN)) == (416, "InvalidRange")
    assert refusal(client.get(BLOB, Range="bytes=-2", **KNOWN)) == (400, "InvalidHeaderValue")
    assert refusal(client.get(f"{BLOB}y", **KNOWN)) == (404, "BlobNotFound")
    assert client.get("/box/x", Host=f"{AZURE_ACCOUNT}.blob.core.windows.net", **KNOWN)[2] == b"0123456789"


def test_a_shared_access_signature_must_be_whole_and_may_expire(object_server, client):
    object_server.allow_sas(SAS)
    assert client.get(f"{BLOB}?{SAS}")[2] == b"0123456789"
    for changed in (SAS.replace("sp=rl", "sp=rwl"), SAS.replace("sp=rl&", ""), SAS.replace("%3D", "")):
        assert refusal(client.get(f"{BLOB}?{changed}")) == (403, "AuthenticationFailed")
    object_server.set_clock(80 * 365 * 86400)
    assert refusal(client.get(f"{BLOB}?{SAS}")) == (403, "AuthenticationFailed")


def test_requests_without_credentials_or_with_wrong_ones_are_refused(client):
    assert refusal(client.get(BLOB)) == (401, "NoAuthenticationInformation")
    assert refusal(client.get(BLOB, Authorization="Bearer other")) == (401, "InvalidAuthenticationInfo")
    signed = {"Authorization": f"SharedKey {AZURE_ACCOUNT}:wrong", "x-ms-version": "2023-11-03"}
    now, old = formatdate(usegmt=True), formatdate(time.time() - 1000, usegmt=True)
    answer = client.get(BLOB, x_ms_date=now, **signed)
    assert refusal(answer) == (403, "AuthenticationFailed") and b"MAC signature" in answer[2]
    assert b"too old" in client.get(BLOB, x_ms_date=old, **signed)[2]
    assert b"is a date" in client.get(BLOB, **signed)[2]


def tree(answer):
    return ElementTree.fromstring(answer[2].decode("utf-8-sig"))


def test_pages_of_a_list_follow_each_other(object_server, client):
    object_server.put_all({f"many/{name}": b"1" for name in ("a&", "b/c", "b/d", "z ü")})
    path, found, marker = f"/{AZURE_ACCOUNT}/many?restype=container&comp=list", [], ""
    for _ in range(2):
        root = ElementTree.fromstring(
            client.get(f"{path}&maxresults=2&marker={marker}", **KNOWN)[2].decode("utf-8-sig")
        )
        found += [each.text for each in root.iterfind("Blobs/Blob/Name")]
        marker = root.findtext("NextMarker")
    assert found == ["a&", "b/c", "b/d", "z ü"] and not marker
    root = tree(client.get(f"{path}&delimiter=/", **KNOWN))
    assert [each.text for each in root.iterfind("Blobs/BlobPrefix/Name")] == ["b/"]


def service(server, credential):
    blob = pytest.importorskip("azure.storage.blob")
    url = server.url("azure", AZURE_ACCOUNT)
    return blob.BlobServiceClient(url, credential=credential, retry_total=0, read_timeout=10)


def test_azures_client_writes_reads_and_lists_with_its_key(object_server):
    container = service(object_server, {"account_name": AZURE_ACCOUNT, "account_key": AZURE_KEY}).get_container_client(
        "box"
    )
    for name in ("plain", "d/a b+c=ä&(1)"):
        container.upload_blob(name, name.encode())
        assert object_server.get(f"box/{name}") == name.encode()
        assert container.download_blob(name, offset=1, length=2).readall() == name.encode()[1:3]
    pages = [list(page) for page in container.list_blobs(name_starts_with="", results_per_page=1).by_page()]
    assert [[blob.name for blob in page] for page in pages] == [["d/a b+c=ä&(1)"], ["plain"]]
    etag = container.get_blob_client("plain").get_blob_properties().etag
    object_server.put("box/plain", b"new")
    from azure.core import MatchConditions, exceptions

    with pytest.raises(exceptions.ResourceModifiedError):
        container.download_blob("plain", etag=etag, match_condition=MatchConditions.IfNotModified)


# As azure-storage-blob 12 signs them.
SIGNED_GET = "1S1jU+hv2XyAQJX/Yl0lw8Wq4ELdg4MTiMl4rgU0lWU="
SIGNED_LIST = "oYNv8SZTSesC9/lHJTmGdUi+tL6ANGFtPyjxc+ykaAg="
SIGNED_AT = 1782864000


def test_shared_keys_are_checked_as_azures_client_signs(object_server, client):
    def ask(path, signature, **headers):
        signed = {"x-ms-date": "Wed, 01 Jul 2026 00:00:00 GMT", "x-ms-version": "2023-11-03"} | headers
        return client.get(path, Authorization=f"SharedKey {AZURE_ACCOUNT}:{signature}", **signed)

    object_server.set_clock(SIGNED_AT - time.time())
    listing = f"/{AZURE_ACCOUNT}/box?restype=container&comp=list&prefix=a%20b%2Fc&maxresults=2"
    assert ask(BLOB, SIGNED_GET, x_ms_range="bytes=2-4")[2] == b"234"
    assert ask(listing, SIGNED_LIST)[0] == 200
    assert refusal(ask(BLOB, SIGNED_GET, x_ms_range="bytes=2-5")) == (403, "AuthenticationFailed")
    assert refusal(ask(f"{listing}0", SIGNED_LIST)) == (403, "AuthenticationFailed")
    assert refusal(ask(f"{BLOB}y", SIGNED_GET, x_ms_range="bytes=2-4")) == (403, "AuthenticationFailed")
    object_server.set_clock(SIGNED_AT + 1000 - time.time())
    assert refusal(ask(BLOB, SIGNED_GET, x_ms_range="bytes=2-4")) == (403, "AuthenticationFailed")


def test_azures_client_meets_a_wrong_key(object_server):
    wrong = {"account_name": AZURE_ACCOUNT, "account_key": AZURE_KEY.swapcase()}
    container = service(object_server, wrong).get_container_client("box")
    from azure.core import exceptions

    with pytest.raises(exceptions.ClientAuthenticationError, match="AuthenticationFailed"):
        container.download_blob("x")


def test_azures_client_reads_with_a_shared_access_signature(object_server):
    object_server.put("box/x y", b"0123456789")
    object_server.allow_sas(SAS)
    container = service(object_server, SAS).get_container_client("box")
    assert container.download_blob("x y").readall() == b"0123456789"
