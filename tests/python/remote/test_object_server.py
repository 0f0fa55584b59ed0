# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The object server itself: what it serves, the faults that tests ask for and its log, as `http.client` sees them."""

import http.client
import os
import signal
import socket
import ssl
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest
from http_client import Client
from object_server import ObjectServer
from processes import is_alive, least, wait_until

DATA = bytes(range(256)) * 40


def exchange(url, text):
    """All bytes that come back for `text`, until the server ends the connection."""
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=10) as connection:
        connection.sendall(text.encode())
        return connection.makefile("rb").read()


@pytest.fixture
def client(object_server):
    object_server.put("bucket/x", DATA)
    client = Client(object_server.url("http"))
    yield client
    client.close()


# HTTP


@pytest.mark.parametrize(
    "asked, first, end",
    [("0-9", 0, 10), ("100-", 100, 10240), ("-5", 10235, 10240), ("-99999", 0, 10240), ("10230-99999", 10230, 10240)],
)
def test_ranges_come_as_206_with_their_place(client, asked, first, end):
    status, headers, body = client.get("/bucket/x", Range=f"bytes={asked}")
    assert (status, body) == (206, DATA[first:end])
    assert headers["Content-Range"] == f"bytes {first}-{end - 1}/10240"


def test_a_range_behind_the_end_is_416_and_names_the_size(client):
    for asked in ("10240-", "99999-100000", "-0"):
        status, headers, _ = client.get("/bucket/x", Range=f"bytes={asked}")
        assert (status, headers["Content-Range"]) == (416, "bytes */10240")


def test_a_range_of_another_form_is_ignored(client):
    for asked in ("bytes=5-3", "bytes=0-1,4-5", "rows=0-1", "bytes=-"):
        assert client.get("/bucket/x", Range=asked)[::2] == (200, DATA)


def test_the_tag_follows_the_bytes_and_binds_reads(client, object_server):
    _, headers, _ = client.get("/bucket/x")
    tag = headers["ETag"]
    assert client.get("/bucket/x", If_Match=tag)[0] == 200
    assert object_server.put("bucket/x", b"new") != tag
    assert client.get("/bucket/x", If_Match=tag, Range="bytes=0-0")[0] == 412
    assert client.get("/bucket/x", If_Match='"other", *')[0] == 412
    assert client.get("/bucket/x", If_Match="*")[2] == b"new"


def test_head_tells_the_size_without_bytes(client):
    response = client.ask("/bucket/x", method="HEAD")
    assert (response.status, response.headers["Content-Length"], response.read()) == (200, "10240", b"")
    assert client.get("/bucket/x", Range="bytes=0-0")[0] == 206, "the connection is in order"


def test_names_are_percent_encoded_in_paths(client, object_server):
    object_server.put("bucket/a b+c=ä?", b"odd")
    assert client.get("/bucket/a%20b+c=%C3%A4%3F")[::2] == (200, b"odd")
    assert client.get("/bucket/none")[0] == 404


@pytest.mark.parametrize(
    "text",
    ["GET /x HTTP/1.0\r\nHost: a\r\n\r\n", "GET /x HTTP/1.1\r\n\r\n", "GET /x HTTP/1.1\nHost: a\n\n", "hello\r\n"],
)
def test_what_is_no_http_is_refused(object_server, text):
    assert exchange(object_server.url("http"), text).startswith(b"HTTP/1.1 400 ")


# Faults


def test_the_nth_request_fails_with_a_status(client, object_server):
    object_server.fail(object="bucket/x", nth=2, status=503, retry_after=1)
    assert [client.get("/bucket/x")[0] for _ in range(3)] == [200, 503, 200]
    assert object_server.requests(status=503)[0].faults == ["status", "retry_after"]
    object_server.fail(nth=1, status=429, retry_after=7)
    assert client.get("/bucket/x")[1]["Retry-After"] == "7"


def test_rules_choose_by_object_method_range_and_count(client, object_server):
    object_server.put("bucket/y", DATA)
    object_server.fail(object="*/y", status=500)
    object_server.fail(method="HEAD", status=404)
    object_server.fail(object="bucket/x", method="GET", covers=100, first=1, status=401)
    object_server.fail(object="bucket/x", method="GET", covers=200, after=1, status=403)
    assert client.get("/bucket/y")[0] == 500
    assert client.ask("/bucket/x", method="HEAD").read() == b""
    assert object_server.requests()[-1].status == 404
    spans = ["0-99", "100-100", "100-100", "200-", "200-", "0-199"]
    assert [client.get("/bucket/x", Range=f"bytes={span}")[0] for span in spans] == [206, 401, 206, 206, 403, 206]
    object_server.heal()
    assert client.get("/bucket/y")[0] == 200


def test_a_probability_hits_the_same_requests_for_the_same_seed(object_server):
    def statuses(seed):
        client = Client(object_server.url("http"))
        object_server.heal()
        object_server.fail(probability=0.3, seed=seed, status=503)
        return [client.get("/bucket/x")[0] for _ in range(100)]

    object_server.put("bucket/x", DATA)
    hit = statuses(1)
    assert 15 < hit.count(503) < 45
    assert statuses(1) == hit != statuses(2)


def test_a_reset_comes_after_so_many_bytes(client, object_server):
    object_server.fail(nth=1, reset_after=5000)
    response = client.ask("/bucket/x")
    assert response.read(5000) == DATA[:5000]
    with pytest.raises(ConnectionResetError):
        response.read()
    client.close()
    assert client.get("/bucket/x")[2] == DATA
    assert [entry.sent for entry in object_server.requests()] == [5000, 10240]


def test_a_half_close_ends_the_bytes_without_a_reset(client, object_server):
    object_server.fail(nth=1, half_close_after=5000)
    with pytest.raises(http.client.IncompleteRead) as caught:
        client.get("/bucket/x")
    assert caught.value.partial == DATA[:5000]


def test_a_stall_holds_the_rest_back(client, object_server):
    def until_the_stall():
        object_server.heal()
        object_server.fail(nth=1, stall_after=100, stall=0.3)
        begin = time.monotonic()
        response = client.ask("/bucket/x")
        assert response.read(100) == DATA[:100]
        stalled = time.monotonic() - begin
        assert response.read() == DATA[100:]
        assert time.monotonic() - begin >= 0.3
        return stalled

    assert least(0.25, until_the_stall) < 0.25


def test_a_stall_without_end_ends_with_the_client(client, object_server):
    object_server.fail(stall_after=0)
    client.ask("/bucket/x")
    assert object_server.counters()["most_connections"] == 1
    client.close()
    object_server.heal()
    assert client.get("/bucket/x")[2] == DATA
    wait_until(lambda: object_server.requests()[0].sent == 0)


def test_a_slow_first_byte_and_a_trickle_take_their_time(client, object_server):
    def seconds(**fault):
        object_server.heal()
        object_server.fail(nth=1, **fault)
        begin = time.monotonic()
        assert client.get("/bucket/x")[2] == DATA
        return time.monotonic() - begin

    assert 0.2 <= least(0.4, lambda: seconds(first_byte_delay=0.2)) < 0.4
    assert 0.19 <= least(0.39, lambda: seconds(trickle=50_000)) < 0.39


def test_a_wrong_length_is_short_or_long(client, object_server):
    object_server.fail(nth=1, length_error=10)
    object_server.fail(nth=2, length_error=-10)
    with pytest.raises(http.client.IncompleteRead):
        client.get("/bucket/x")
    client.close()
    answer = exchange(object_server.url("http"), "GET /bucket/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert b"Content-Length: 10230\r\n" in answer and answer.endswith(DATA)


def test_the_heads_of_ranges_can_lie(client, object_server):
    object_server.fail(nth=1, headers={"Content-Range": "bytes 5-14/10240", "ETag": '"wrong"'})
    object_server.fail(nth=2, without=["ETag", "Content-Range"])
    object_server.fail(nth=3, whole=True)
    object_server.fail(nth=4, partial_as_200=True)
    answers = [client.get("/bucket/x", Range="bytes=0-9") for _ in range(4)]
    assert [answer[0] for answer in answers] == [206, 206, 200, 200]
    assert [answer[2] for answer in answers] == [DATA[:10], DATA[:10], DATA, DATA[:10]]
    places = [answer[1].get("Content-Range") for answer in answers]
    assert places == ["bytes 5-14/10240", None, None, "bytes 0-9/10240"]
    assert answers[0][1]["ETag"] == '"wrong"' and "ETag" not in answers[1][1]


def test_one_byte_is_corrupt(client, object_server):
    object_server.fail(nth=1, corrupt=3)
    body = client.get("/bucket/x", Range="bytes=100-109")[2]
    assert body == DATA[100:103] + bytes([DATA[103] ^ 0xFF]) + DATA[104:110]
    assert client.get("/bucket/x")[2] == DATA


def test_redirects_lead_elsewhere_or_in_a_circle(client, object_server):
    object_server.fail(nth=1, redirect="http://127.0.0.1:9/y")
    object_server.fail(nth=2, redirect="self", redirect_status=307)
    status, headers, _ = client.get("/bucket/x?a=1")
    assert (status, headers["Location"]) == (301, "http://127.0.0.1:9/y")
    status, headers, _ = client.get("/bucket/x?a=1")
    assert (status, headers["Location"]) == (307, object_server.url("http", "bucket/x?a=1"))


def test_connections_end_with_garbage_without_a_byte_or_after_a_response(client, object_server):
    object_server.fail(nth=1, garbage="\x16\x03\x01 no http\r\n\r\n")
    object_server.fail(nth=2, drop=True)
    object_server.fail(nth=3, close=True)
    with pytest.raises(http.client.BadStatusLine):
        client.get("/bucket/x")
    client.close()
    with pytest.raises(http.client.RemoteDisconnected):
        client.get("/bucket/x")
    assert client.get("/bucket/x")[2] == DATA
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        client.get("/bucket/x")


def test_an_object_is_replaced_between_two_requests(client, object_server):
    object_server.fail(nth=2, replace=b"another")
    tag = client.get("/bucket/x", Range="bytes=0-9")[1]["ETag"]
    assert client.get("/bucket/x", Range="bytes=0-9", If_Match=tag)[0] == 412
    assert client.get("/bucket/x")[2] == object_server.get("bucket/x") == b"another"


def test_rules_that_nobody_knows_are_refused(object_server):
    with pytest.raises(TypeError, match="there is no"):
        object_server.fail(objekt="x", status=503)
    with pytest.raises(TypeError, match="nothing is to happen"):
        object_server.fail(object="x")


# TLS


def test_all_that_trust_its_certificate_can_speak_tls(tls_object_server, certificate):
    tls_object_server.put("bucket/x", DATA)
    url = tls_object_server.url("http", "bucket/x")
    trusting = ssl.create_default_context(cafile=certificate.authority)
    for address in (url, url.replace("127.0.0.1", "localhost")):
        with urllib.request.urlopen(address, timeout=10, context=trusting) as response:
            assert response.read() == DATA
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(url, timeout=10, context=ssl.create_default_context())


@pytest.mark.parametrize("fault", ["reset_after", "half_close_after"])
def test_faults_break_tls_too(tls_object_server, certificate, fault):
    tls_object_server.put("bucket/x", DATA)
    tls_object_server.fail(**{fault: 5000})
    trusting = ssl.create_default_context(cafile=certificate.authority)
    response = urllib.request.urlopen(tls_object_server.url("http", "bucket/x"), timeout=10, context=trusting)
    assert response.read(5000) == DATA[:5000]
    # Some versions of OpenSSL call a reset an end.
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        response.read()
    response.close()


# The log


def test_the_log_tells_what_was_asked_and_sent(client, object_server):
    client.get("/bucket/x", Range="bytes=-10", Authorization="secret")
    client.close()
    client.get("/bucket/none")
    first, second = object_server.requests()
    assert (first.method, first.object, first.range, first.status) == ("GET", "bucket/x", (10230, 10239), 206)
    assert (first.dialect, first.operation, first.sent, first.faults) == ("http", "read", 10, [])
    assert "authorization" in first.headers and "secret" not in str(first)
    assert (second.status, second.range) == (404, None)
    assert first.connection != second.connection and first.time < second.time <= time.monotonic()
    assert object_server.requests(status=206) == [first]


def test_counters_tell_how_many_there_were_at_a_time(object_server):
    object_server.put("bucket/x", DATA)
    object_server.fail(first_byte_delay=0.2)
    clients = [Client(object_server.url("http")) for _ in range(5)]
    for client in clients:
        client.connection.request("GET", "/bucket/x")
    assert all(client.connection.getresponse().read() == DATA for client in clients)
    counters = object_server.counters()
    assert counters["sent"] == 5 * len(DATA) and counters["connections"] == counters["requests"] == 5
    assert counters["most_requests"] == counters["most_connections"] == 5
    object_server.heal()
    object_server.forget_requests()
    for _ in range(3):
        assert clients[0].get("/bucket/x")[2] == DATA
    assert object_server.counters()["most_requests"] == 1


# Its process


def test_the_server_ends_with_its_life_and_with_its_owner():
    with ObjectServer(life=0.5) as server:
        wait_until(lambda: not is_alive(server._process.pid))
    with ObjectServer() as server:
        process = server._process
        process._process.stdin.close()
        wait_until(lambda: not is_alive(process.pid))


def test_a_restart_leaves_nothing_of_what_was(client, object_server):
    object_server.fail(stall_after=10)
    response, url = client.ask("/bucket/x"), object_server.url("http")
    object_server.restart()
    with pytest.raises((ConnectionError, http.client.IncompleteRead)):
        response.read()
    with pytest.raises(ConnectionRefusedError):
        Client(url).get("/bucket/x")
    assert object_server.requests() == [] and object_server.counters()["connections"] == 0
    again = Client(object_server.url("http"))
    assert again.get("/bucket/x")[0] == 404
    object_server.put("bucket/x", DATA)
    assert again.get("/bucket/x")[2] == DATA


def test_nothing_stays_behind():
    server = ObjectServer()
    server.close()
    server.close()
    with pytest.raises(ProcessLookupError):
        os.kill(server._process.pid, signal.SIG_DFL)
