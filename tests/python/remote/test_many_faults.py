# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Epochs from a server and over a network that fail all the time yield each row once, and leave nothing behind.

The server and the relay count what they do: TDI_FAULTS is how many faults a run has; `make test-all` takes 10,000.
"""

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from processes import descriptors, resident, wait_until
from remote_sources import BUCKET

import torch_distinput as tdi

FAULTS = int(os.environ.get("TDI_FAULTS", 300))
READERS, ROW, ROWS = 4, 20_000, 200 + FAULTS // 6

# Each hits so many of a thousand requests; of refusals there are fewer than one in twenty, which would be an overload.
KINDS = [
    (10, {"status": 503}),
    (10, {"status": 429, "retry_after": 0}),
    (20, {"status": 500}),
    (20, {"status": 504}),
    (20, {"drop": True}),
    (20, {"reset_after": 7_000}),
    (20, {"half_close_after": 9_000, "close": True}),
    (20, {"length_error": 100, "close": True}),
    (5, {"headers": {"Content-Range": f"bytes 0-9/{ROW * ROWS}"}}),
    (5, {"garbage": "\x00\x01\x02"}),
    (5, {"first_byte_delay": 0.15}),
    (0.5, {"stall_after": 5_000}),
    (0.5, {"trickle": 500}),
    (10, {"partial_as_200": True}),
]
CUTS = ["reset", "close", "half_close", "black_hole"]


def test_epochs_with_many_faults_yield_each_row_once_and_leave_nothing(object_server, relay):
    rows = [b"%08d" % row * (ROW // 8) for row in range(ROWS)]
    object_server.put(f"{BUCKET}/rows", b"".join(rows))
    for seed, (share, fault) in enumerate(KINDS):
        object_server.fail(operation="read", probability=share / 1000, seed=seed, **fault)
    urls = [object_server.url("http", f"{BUCKET}/rows"), f"{relay.url}/{BUCKET}/rows"]

    def read(reader, turn):
        dataset = tdi.FixedLengthRecordDataset(urls[reader % 2], ROW).shuffle(ROWS, seed=READERS * turn + reader)
        return sorted(dataset.with_options(tdi.Options(num_threads=1, prefetch_bytes=1 << 20))) == rows

    begin, hit, faults, asked, turn, first = time.monotonic(), Counter(), 0, 0, 0, None
    with ThreadPoolExecutor(READERS) as readers:
        while turn < 2 or faults < FAULTS:
            relay.heal()
            relay.shape(latency=0.001 * (turn % 3), jitter=0.002 * (turn % 2), seed=turn)
            relay.cut(CUTS[turn % len(CUTS)], after=200_000 + 70_000 * turn, connections=[0, 2, 3])
            broken = relay.counters()["broken"]
            assert all(readers.map(read, range(READERS), [turn] * READERS)), f"turn {turn}"
            broken = relay.counters()["broken"] - broken
            log = object_server.requests()
            object_server.forget_requests()
            hit.update([name for entry in log for name in entry.faults] + ["cut"] * broken)
            faults += sum(bool(entry.faults) for entry in log) + broken
            asked, turn = asked + len(log), turn + 1
            # What is kept for others is made in the first turn.
            first = first or (held(object_server), resident())
    print(f"{faults} faults in {asked} requests and {time.monotonic() - begin:.0f} s: {dict(hit)}")
    wait_until(lambda: held(object_server) <= first[0])
    assert resident() < first[1] + (32 << 20)


def held(server):
    """Threads, and descriptors but for connections that are kept."""
    server.forget_requests()
    return len(os.listdir("/proc/self/task")) + descriptors() - server.counters()["connections"]
