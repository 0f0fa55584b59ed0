# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A rank that has had no batch waits for an example of another rank: how long, and how the wait ends."""

import multiprocessing
import os
import signal
import threading
import time

import pytest
import torch.distributed as dist

import torch_distinput as tdi
from torch_distinput.loader.ranks._feed import _posted_batch

LIMIT = 20


def test_an_example_that_is_posted_later_is_received():
    store = dist.HashStore()
    threading.Timer(0.05, store.set, ("batch", b"example")).start()
    assert _posted_batch(store, LIMIT) == b"example"


def test_an_example_that_nobody_posts_is_an_error_in_time():
    with pytest.raises(tdi.DistributedDatasetError, match=r"has had no batch yet, and waited 0.1 s \(`peer_timeout`\)"):
        _posted_batch(dist.HashStore(), 0.1)


def host_store(pipe):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pipe.send(store.port)
    pipe.recv()


def test_ctrl_c_ends_the_wait_although_the_stores_host_is_frozen():
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    host = context.Process(target=host_store, args=(theirs,), daemon=True)
    host.start()
    store = dist.TCPStore("127.0.0.1", ours.recv(), is_master=False)
    os.kill(host.pid, signal.SIGSTOP)
    main, ended = threading.get_ident(), threading.Event()

    def interrupt():
        deadline = time.monotonic() + LIMIT
        while not any(thread.name == "tdi-example" for thread in threading.enumerate()) and time.monotonic() < deadline:
            time.sleep(0.002)
        signal.pthread_kill(main, signal.SIGINT)
        if not ended.wait(LIMIT):
            host.kill()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            _posted_batch(store, 10 * LIMIT)
    finally:
        ended.set()
        thread.join()
        host.kill()
        host.join()
