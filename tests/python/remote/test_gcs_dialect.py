# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The object server's Google Cloud Storage, by hand, and by google-cloud-storage where it is installed."""

import json
from urllib.parse import urlencode

import pytest
from http_client import Client
from object_server import S3_KEY, S3_SECRET, TOKEN
from s3_client import s3_client

OBJECTS = "/storage/v1/b/bucket/o"
SLASHED = f"{OBJECTS}/d%2Fx%20y"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def client(object_server):
    object_server.put("bucket/d/x y", b"0123456789")
    client = Client(object_server.url("gcs"))
    yield client
    client.close()


def asked(client, path, **headers):
    status, _, body = client.get(path, **KNOWN, **headers)
    return status, json.loads(body)


def reason(body):
    return json.loads(body)["error"]["errors"][0]["reason"]


def test_media_comes_in_ranges_bound_to_a_generation(object_server, client):
    generation = asked(client, SLASHED)[1]["generation"]
    status, headers, body = client.get(f"{SLASHED}?alt=media", Range="bytes=2-4", **KNOWN)
    assert (status, body, headers["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    assert headers["x-goog-generation"] == generation
    bound = f"{SLASHED}?alt=media&ifGenerationMatch={generation}"
    assert client.get(bound, **KNOWN)[2] == b"0123456789"
    object_server.put("bucket/d/x y", b"new")
    status, headers, body = client.get(bound, **KNOWN)
    assert (status, headers.get_content_type()) == (412, "text/html") and b"pre-conditions" in body
    assert client.get(f"{SLASHED}?alt=media&generation={generation}", **KNOWN)[0] == 404
    status, headers, _ = client.get(f"{SLASHED}?alt=media", Range="bytes=3-", **KNOWN)
    assert (status, headers["Content-Range"]) == (416, "bytes */3")


def test_tokens_are_asked_for_and_expire(object_server, client):
    status, headers, body = client.get(SLASHED)
    assert (status, reason(body)) == (401, "authError") and headers["WWW-Authenticate"].startswith("Bearer")
    assert client.get(SLASHED, Authorization="Bearer other")[0] == 401
    object_server.allow_token("short", requests=2)
    assert [client.get(SLASHED, Authorization="Bearer short")[0] for _ in range(3)] == [200, 200, 401]
    object_server.expire("bearer", TOKEN)
    assert client.get(SLASHED, **KNOWN)[0] == 401
    object_server.allow_anonymous()
    assert client.get(SLASHED)[0] == 200


def test_pages_of_a_list_follow_each_other(object_server, client):
    object_server.put_all({f"many/{name}": b"1" for name in ("a&", "b/c", "b/d", "z ü")})
    found, token = [], ""
    for _ in range(4):
        _, page = asked(client, f"/storage/v1/b/many/o?maxResults=1&prefix=&pageToken={token}")
        found += [item["name"] for item in page["items"]]
        token = page.get("nextPageToken", "").replace("%", "%25")
    assert found == ["a&", "b/c", "b/d", "z ü"] and not token
    _, page = asked(client, "/storage/v1/b/many/o?delimiter=/")
    assert (page["prefixes"], [item["name"] for item in page["items"]]) == (["b/"], ["a&", "z ü"])
    assert asked(client, "/storage/v1/b/none/o") == (200, {"kind": "storage#objects"})


def test_pages_may_be_limited(object_server, client):
    object_server.put_all({f"many/{number}": b"1" for number in range(3)})
    object_server.limit_pages(2)
    _, page = asked(client, "/storage/v1/b/many/o")
    assert len(page["items"]) == 2 and page["nextPageToken"]


def test_what_is_no_number_or_no_upload_is_refused(client):
    assert asked(client, "/storage/v1/b/many/o?maxResults=many")[0] == 400
    path = "/upload/storage/v1/b/bucket/o?uploadType=multipart"
    assert client.ask(path, method="POST", body=b"abc", **KNOWN).status == 404
    client.close()
    assert client.get("/elsewhere", **KNOWN)[0] == 404


def test_refresh_tokens_are_exchanged(object_server, client):
    object_server.allow_refresh_token("again", "id", "secret")

    def exchange(**fields):
        body = urlencode({"grant_type": "refresh_token", "client_id": "id"} | fields)
        answer = client.ask("/token", method="POST", body=body)
        return answer.status, json.loads(answer.read())

    status, answer = exchange(client_secret="secret", refresh_token="again")
    assert (status, answer["expires_in"]) == (200, 3599)
    new = {"Authorization": f"Bearer {answer['access_token']}"}
    assert client.get(SLASHED, **new)[0] == 200
    assert exchange(client_secret="secret", refresh_token="other")[0] == 400
    assert exchange(client_secret="other", refresh_token="again")[0] == 401
    object_server.set_clock(3601)
    assert client.get(SLASHED, **new)[0] == 401


def test_keys_are_good_for_the_interface_that_is_like_s3s(object_server):
    object_server.put("bucket/x", b"0123456789")
    client = s3_client(object_server.url("gcs"), S3_KEY, S3_SECRET, region="auto")
    assert client.get_object(Bucket="bucket", Key="x", Range="bytes=2-4")["Body"].read() == b"234"
    client = s3_client(object_server.url("gcs"), S3_KEY, "wrong", region="auto")
    with pytest.raises(client.exceptions.ClientError, match="SignatureDoesNotMatch"):
        client.get_object(Bucket="bucket", Key="x")


def test_uploads_make_objects(object_server, client):
    path = "/upload/storage/v1/b/bucket/o?uploadType=media&name=d%2Fnew"
    assert client.ask(f"{path}&ifGenerationMatch=0", method="POST", body=b"abc", **KNOWN).read()
    assert object_server.get("bucket/d/new") == b"abc"
    response = client.ask(f"{path}&ifGenerationMatch=0", method="POST", body=b"abcd", **KNOWN)
    assert (response.status, reason(response.read())) == (412, "conditionNotMet")


def test_googles_client_writes_reads_and_lists(object_server):
    storage = pytest.importorskip("google.cloud.storage")
    from google.api_core.client_options import ClientOptions
    from google.oauth2.credentials import Credentials

    options = ClientOptions(api_endpoint=object_server.url("gcs"))
    client = storage.Client(project="rig", credentials=Credentials(TOKEN), client_options=options)
    bucket = client.bucket("data")
    for name in ("plain", "d/a b+c=ä"):
        bucket.blob(name).upload_from_string(name.encode(), timeout=10, retry=None)
        assert object_server.get(f"data/{name}") == name.encode()
        assert bucket.blob(name).download_as_bytes(timeout=10, retry=None) == name.encode()
        assert bucket.blob(name).download_as_bytes(start=1, end=2, timeout=10, retry=None) == name.encode()[1:3]
    names = [blob.name for blob in client.list_blobs("data", page_size=1, timeout=10, retry=None)]
    assert names == ["d/a b+c=ä", "plain"]
