# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The object server's S3: the signatures that AWS's documentation computes, and botocore's where it is installed."""

import io
import time
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from http_client import Client
from object_server import S3_KEY, S3_SECRET
from s3_client import s3_client

# "Examples: signature calculations" of the Amazon S3 API reference.
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
HOST = "examplebucket.s3.amazonaws.com"
AT = 1369353600  # 2013-05-24, 0 h UTC
SCOPE = f"AWS4-HMAC-SHA256 Credential={KEY}/20130524/us-east-1/s3/aws4_request"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
GET = {
    "Host": HOST,
    "Range": "bytes=0-9",
    "x-amz-content-sha256": EMPTY,
    "x-amz-date": "20130524T000000Z",
    "Authorization": f"{SCOPE},SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
    "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
}
PUT = {
    "Host": HOST,
    "Date": "Fri, 24 May 2013 00:00:00 GMT",
    "x-amz-content-sha256": "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
    "x-amz-date": "20130524T000000Z",
    "x-amz-storage-class": "REDUCED_REDUNDANCY",
    "Authorization": f"{SCOPE},SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,"
    "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
}
QUERY = (
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
    "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
)


@pytest.fixture
def store(object_server):
    """A server at the time and with the key of the documentation."""
    object_server.allow_s3_key(KEY, SECRET)
    object_server.set_clock(AT - time.time())
    object_server.put("examplebucket/test.txt", b"0123456789abc")
    return object_server


@pytest.fixture
def client(store):
    client = Client(store.url("s3"))
    yield client
    client.close()


def code(body):
    return ElementTree.fromstring(body).findtext("Code")


def test_documented_signatures_are_right(store, client):
    assert client.get("/test.txt", **GET)[::2] == (206, b"0123456789")
    response = client.ask("/test%24file.text", method="PUT", body=b"Welcome to Amazon S3.", **PUT)
    assert response.read() == b"" and response.status == 200
    assert store.get("examplebucket/test$file.text") == b"Welcome to Amazon S3."
    assert client.get(f"/test.txt?{QUERY}", Host=HOST)[::2] == (200, b"0123456789abc")


@pytest.mark.parametrize(
    "changed, status, expected",
    [
        ({"Range": "bytes=0-8"}, 403, "SignatureDoesNotMatch"),
        ({"Host": f"another{HOST}"}, 403, "SignatureDoesNotMatch"),
        ({"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}, 403, "SignatureDoesNotMatch"),
        ({"Authorization": GET["Authorization"].replace("f0e8", "f0e9")}, 403, "SignatureDoesNotMatch"),
        ({"Authorization": GET["Authorization"].replace("host;range", "range;host")}, 403, "SignatureDoesNotMatch"),
        ({"Authorization": GET["Authorization"].replace(KEY, "AKIANOBODY")}, 403, "InvalidAccessKeyId"),
        (
            {"Authorization": GET["Authorization"].replace("us-east", "eu-west")},
            400,
            "AuthorizationHeaderMalformed",
        ),
        ({"Authorization": "Bearer x"}, 400, "AuthorizationHeaderMalformed"),
        ({"x-amz-unsigned": "1"}, 403, "AccessDenied"),
        ({"x-amz-date": "20130524T001600Z"}, 403, "RequestTimeTooSkewed"),
        ({"x-amz-date": "20130523T235900Z"}, 403, "SignatureDoesNotMatch"),
        ({"x-amz-date": "today"}, 403, "AccessDenied"),
    ],
)
def test_what_is_signed_otherwise_is_refused(client, changed, status, expected):
    got, headers, body = client.get("/test.txt", **{**GET, **changed})
    assert (got, code(body)) == (status, expected)
    assert headers["x-amz-request-id"] == ElementTree.fromstring(body).findtext("RequestId")


@pytest.mark.parametrize(
    "name, right, wrong, text",
    [
        ("Authorization", "host;range", "range;host", "must be sorted"),
        ("x-amz-date", "20130524T000000Z", "20130523T235900Z", "The scope's date"),
    ],
)
def test_what_no_signature_can_mend_is_named(client, name, right, wrong, text):
    body = client.get("/test.txt", **{**GET, name: GET[name].replace(right, wrong)})[2]
    assert text in ElementTree.fromstring(body).findtext("Message")


def test_requests_without_a_signature_are_refused_unless_all_may_read(store, client):
    assert code(client.get("/examplebucket/test.txt")[2]) == "AccessDenied"
    store.allow_anonymous()
    assert client.get("/examplebucket/test.txt")[2] == b"0123456789abc"
    assert client.get("/examplebucket/none")[0] == 404


def test_keys_and_signed_queries_expire(store, client):
    store.allow_s3_key(KEY, SECRET, requests=2)
    answers = [client.get("/test.txt", **GET) for _ in range(3)]
    assert [status for status, _, _ in answers] == [206, 206, 400]
    assert code(answers[2][2]) == "ExpiredToken"
    store.allow_s3_key(KEY, SECRET)
    store.set_clock(AT + 86401 - time.time())
    status, headers, body = client.get(f"/test.txt?{QUERY}", Host=HOST)
    assert (status, code(body)) == (403, "AccessDenied")
    status, headers, body = client.get("/test.txt", **GET)
    assert code(body) == "RequestTimeTooSkewed" and headers["Date"].startswith("Sat, 25 May 2013 00:00:0")


def test_a_body_must_be_the_signed_one(client):
    response = client.ask("/test%24file.text", method="PUT", body=b"Welcome to another.", **PUT)
    assert (response.status, code(response.read())) == (400, "XAmzContentSHA256Mismatch")


def test_pages_of_a_list_follow_each_other(store, client):
    store.allow_anonymous()
    names = [f"d/{n:02}" for n in range(7)] + ["e&/f", "z"]
    store.put_all({f"many/{name}": b"1" for name in names})
    found, token, pages = [], "", 0
    while token is not None:
        asked = f"&continuation-token={quote(token, safe='')}" if token else ""
        root = ElementTree.fromstring(client.get(f"/many?list-type=2&max-keys=4{asked}")[2])
        space = root.tag.partition("}")[0] + "}"
        found += [each.findtext(f"{space}Key") for each in root.iter(f"{space}Contents")]
        token, pages = root.findtext(f"{space}NextContinuationToken"), pages + 1
    assert (found, pages) == (names, 3)
    root = ElementTree.fromstring(client.get("/many?list-type=2&prefix=d/0&delimiter=3")[2])
    assert [each.text for each in root.iter(f"{space}Prefix")] == ["d/0", "d/03"]
    assert len(list(root.iter(f"{space}Contents"))) == 6
    assert store.requests(operation="list")[0].object == "many"


def test_errors_that_a_test_asks_for_have_the_stores_form(store, client):
    store.fail(status=503, code="SlowDown", retry_after=2)
    status, headers, body = client.get("/test.txt", **GET)
    assert (status, headers["Retry-After"], code(body)) == (503, "2", "SlowDown")


# Another client


def test_botocore_writes_reads_and_lists(object_server):
    client = s3_client(object_server.url("s3"), S3_KEY, S3_SECRET)
    for key in ("plain", "a b+c=ä/&~(1)*'!", "d/e"):
        client.put_object(Bucket="data", Key=key, Body=key.encode())
        assert object_server.get(f"data/{key}") == key.encode()
        assert client.get_object(Bucket="data", Key=key, Range="bytes=1-2")["Body"].read() == key.encode()[1:3]
    tag = client.head_object(Bucket="data", Key="plain")["ETag"]
    assert client.get_object(Bucket="data", Key="plain", IfMatch=tag)["Body"].read() == b"plain"
    pages = list(client.get_paginator("list_objects_v2").paginate(Bucket="data", PaginationConfig={"PageSize": 2}))
    names = [each["Key"] for page in pages for each in page["Contents"]]
    assert names == ["a b+c=ä/&~(1)*'!", "d/e", "plain"] and len(pages) == 2


def test_botocore_signs_queries_and_session_tokens(object_server):
    object_server.put("data/x y", b"bytes")
    client = s3_client(object_server.url("s3"), S3_KEY, S3_SECRET)
    url = client.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "x y"}, ExpiresIn=60)
    plain = Client(object_server.url("s3"))
    assert plain.get(url.removeprefix(object_server.url("s3")))[2] == b"bytes"
    object_server.allow_s3_key("TEMPORARY", "s3cret", session_token="tok/en+=", requests=1)
    temporary = object_server.url("s3"), "TEMPORARY", "s3cret"
    client = s3_client(*temporary, aws_session_token="tok/en+=")
    assert client.get_object(Bucket="data", Key="x y")["Body"].read() == b"bytes"
    with pytest.raises(client.exceptions.ClientError, match="ExpiredToken"):
        client.get_object(Bucket="data", Key="x y")
    client = s3_client(*temporary, aws_session_token="another")
    with pytest.raises(client.exceptions.ClientError, match="InvalidToken"):
        client.get_object(Bucket="data", Key="x y")


@pytest.mark.parametrize(
    "key, secret, expected",
    [(S3_KEY, "wrong", "SignatureDoesNotMatch"), ("NOBODY", S3_SECRET, "InvalidAccessKeyId")],
)
def test_botocore_meets_the_stores_errors(object_server, key, secret, expected):
    client = s3_client(object_server.url("s3"), key, secret)
    with pytest.raises(client.exceptions.ClientError, match=expected):
        client.get_object(Bucket="data", Key="x")


def test_botocore_uploads_streams_over_tls(tls_object_server, certificate):
    client = s3_client(tls_object_server.url("s3"), S3_KEY, S3_SECRET, verify=certificate.authority)
    client.put_object(Bucket="data", Key="x", Body=io.BytesIO(b"stream" * 10_000))
    assert tls_object_server.get("data/x") == b"stream" * 10_000
    assert "x-amz-trailer" in tls_object_server.requests()[0].headers, "in chunks of AWS's own"
