# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The relay itself, in front of an object server."""

import socket
import threading
import time
from urllib.parse import urlsplit

import pytest
from http_client import Client
from processes import least, wait_until

DATA = bytes(range(256)) * 4000


@pytest.fixture
def served(object_server):
    object_server.allow_anonymous()
    object_server.put("bucket/x", DATA)
    object_server.put("bucket/small", b"1")
    return object_server


@pytest.fixture
def relay(served, relay):
    return relay


def connect(relay):
    return socket.create_connection(("127.0.0.1", urlsplit(relay.url).port), timeout=10)


def asking(relay, path="/bucket/x"):
    """A connection over which `path` was asked for, to be closed by the server."""
    connection = connect(relay)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    return connection


def received(connection):
    """All bytes that come, and how it ended: None, or an error."""
    data = bytearray()
    try:
        while piece := connection.recv(1 << 16):
            data += piece
    except OSError as error:
        return bytes(data), error
    return bytes(data), None


def seconds(client, path):
    begin = time.monotonic()
    response = client.ask(path)
    while response.read(1 << 20):
        pass
    return time.monotonic() - begin


def test_bytes_pass_unchanged_both_ways_whatever_the_network(served, relay_to):
    relay = relay_to(served.url("s3"))
    relay.shape(latency=0.002, jitter=0.003, bandwidth=50e6)
    client = Client(relay.url)
    assert client.ask("/bucket/y", method="PUT", body=DATA[::-1]).read() == b""
    assert served.get("bucket/y") == DATA[::-1]
    assert client.get("/bucket/y")[2] == DATA[::-1]
    # It counts bytes after it has sent them.
    wait_until(lambda: relay.counters()["up"] > len(DATA) < relay.counters()["down"])


def test_a_round_trip_takes_the_latency_twice(relay):
    relay.shape(latency=0.03)
    client = Client(relay.url)
    assert 0.06 <= least(0.075, lambda: seconds(client, "/bucket/small")) < 0.075
    relay.shape(latency=0.01, jitter=0.03)
    trips = [seconds(client, "/bucket/small") for _ in range(10)]
    assert min(trips) >= 0.02 and max(trips) - min(trips) > 0.005


def seconds_of_two(relay):
    begin = time.monotonic()
    threads = [threading.Thread(target=seconds, args=(Client(relay.url), "/bucket/big")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return time.monotonic() - begin


def test_a_connection_has_its_bandwidth_and_all_have_theirs(served, relay):
    served.put("bucket/big", bytes(20_000_000))
    relay.shape(bandwidth=200e6)
    assert 0.09 < least(0.15, lambda: seconds(Client(relay.url), "/bucket/big")) < 0.15, "20 MB at 200 MB/s"
    relay.shape(bandwidth=200e6, total_bandwidth=100e6)
    assert 0.38 < least(0.6, lambda: seconds_of_two(relay)) < 0.6, "40 MB at 100 MB/s"


def test_latency_does_not_lower_the_bandwidth(served, relay):
    served.put("bucket/big", bytes(20_000_000))
    relay.shape(latency=0.03, bandwidth=200e6)
    assert 0.15 < least(0.22, lambda: seconds(Client(relay.url), "/bucket/big")) < 0.22


@pytest.mark.parametrize("how, error", [("reset", ConnectionResetError), ("close", None), ("half_close", None)])
def test_connections_break_at_a_byte(served, relay, how, error):
    served.fail(without=["Date"])
    relay.cut(how, after=300_000, connections=[1])
    data, whole = received(asking(relay))[0], received(asking(relay, "/bucket/small"))
    assert data.endswith(DATA) and whole == received(asking(relay, "/bucket/small"))
    relay.cut(how, after=300_000, connections=[0, 2])
    for count in (300_000, len(data), 300_000):
        got, ended = received(asking(relay))
        assert got == data[:count] and (type(ended) is error if count == 300_000 and error else ended is None)
    relay.heal()
    assert received(asking(relay)) == (data, None)


def test_a_half_close_leaves_the_other_way_open(served, relay):
    relay.cut("half_close", after=0, connections=[0])
    connection, request = connect(relay), b"GET /bucket/small HTTP/1.1\r\nHost: a\r\n\r\n"
    connection.sendall(request)
    assert received(connection) == (b"", None)
    connection.sendall(request)
    wait_until(lambda: len(served.requests()) == 2)
    assert relay.counters()["open"] == 1
    connection.close()
    wait_until(lambda: relay.counters()["open"] == 0)


def test_a_black_hole_is_silent_and_ends_with_the_client(relay):
    relay.cut("black_hole", after=1000)
    connection = asking(relay)
    connection.settimeout(0.3)
    data, ended = received(connection)
    assert len(data) == 1000 and isinstance(ended, TimeoutError)
    connection.close()
    wait_until(lambda: relay.counters()["open"] == 0)


def test_requests_can_be_cut_on_their_way_up(served, relay):
    relay.cut("reset", after=10, direction="up")
    assert isinstance(received(asking(relay))[1], ConnectionError)
    assert served.requests() == [] and relay.counters()["up"] == 10


def test_a_pause_holds_all_until_it_ends(relay):
    client = Client(relay.url)
    assert client.get("/bucket/small")[2] == b"1"
    relay.pause()
    connections = [asking(relay), client.connection.sock]
    client.connection.request("GET", "/bucket/small")
    for connection in connections:
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(10)
    relay.resume()
    assert received(connections[0])[0].endswith(DATA)
    assert client.connection.getresponse().read() == b"1"


def test_all_connections_are_reset_at_once(relay):
    client = Client(relay.url)
    assert client.get("/bucket/small")[2] == b"1"
    relay.reset_all()
    assert isinstance(received(client.connection.sock)[1], ConnectionResetError)
    assert relay.counters()["open"] == 0
    client.close()
    assert client.get("/bucket/small")[2] == b"1"


def test_a_server_that_is_gone_ends_the_connection(served, relay):
    served.close()
    data, _ = received(asking(relay))
    assert data == b""
