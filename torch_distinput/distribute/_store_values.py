# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Waits for what other processes write to a store."""

import threading

import torch.distributed as dist

from torch_distinput import _C


def posted_values(store: dist.Store, keys: list[str], timeout: float, late: str) -> list[bytes]:
    """The values of `keys`, once all are there. Raises DistributedDatasetError with the text `late` after `timeout`
    seconds. A thread asks the store, because Ctrl-C does not interrupt a call to it, and a frozen host never answers
    one."""
    done, left = threading.Event(), threading.Event()
    answer: list[list[bytes] | Exception] = []

    def ask() -> None:
        try:
            while not store.check(keys):
                if left.wait(0.01):
                    return
            answer.append([store.get(key) for key in keys])
        except Exception as error:  # noqa: BLE001 - raised below
            answer.append(error)
        done.set()

    threading.Thread(target=ask, name="tdi-store", daemon=True).start()
    try:
        if not done.wait(timeout):
            raise _C.DistributedDatasetError(late)
    finally:
        left.set()
    if isinstance(answer[0], Exception):
        raise answer[0]
    return answer[0]
