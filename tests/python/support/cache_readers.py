# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Processes that read the rows of an object through a cache of remote bytes, and what they leave there."""

import json
import os
import subprocess
import sys

from forked_programs import ForkedProgram, python_path
from remote_store import HEAD

ROW = 1000
MANY = 8000
BLOCK = 256 << 10
BLOCKS = -(-ROW * MANY // BLOCK)

# Each of FORKS processes reads all rows in an order of its own, as the user USER_ID, a member of GROUP_ID.
_PROGRAM = """
import json, os, sys
import torch_distinput as tdi

url, cache, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
children = int(os.environ.get("FORKS", "1")) - 1
if "USER_ID" in os.environ:
    os.umask(int(os.environ["UMASK"], 8))
    os.setgroups([int(os.environ["GROUP_ID"])])
    os.setgid(int(os.environ["USER_ID"]))
    os.setuid(int(os.environ["USER_ID"]))

def open_rows(seed):
    return tdi.FixedLengthRecordDataset(url, 1000, cache_dir=cache).shuffle(seed=seed)

def is_right(data):
    rows = sorted(int(row[:8]) for row in data)
    return rows == list(range(8000))

print("begun", flush=True)
for number in range(children):
    if os.fork() == 0:
        os._exit(not is_right(open_rows(seed + 1 + number)))
data = open_rows(seed)
right = is_right(data)
failed = sum(os.wait()[1] for _ in range(children))
print(json.dumps({"right": right, "failed": failed, "explained": str(data.explain())}), flush=True)
"""


def rows():
    """The object that they read."""
    return b"".join(b"%08d" % number * (ROW // 8) for number in range(MANY))


class Readers:
    """Processes that end with it."""

    def __init__(self):
        self._started = []

    def start(self, url, cache, seed=0, before=(), **variables):
        """Starts one. `before`: of a command of its own, instead of a forked process."""
        arguments = (url, str(cache), str(seed))
        if before:
            command, pipe = [*before, sys.executable, "-c", _PROGRAM, *arguments], subprocess.PIPE
            environment = os.environ | {"PYTHONPATH": python_path()} | variables
            self._started.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment))
        else:
            self._started.append(ForkedProgram(_PROGRAM, *arguments, **variables))
        return self._started[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._started:
            process.kill()
            process.communicate()


def result(process):
    """What a reader has found, and its warnings."""
    out, warnings = process.communicate(timeout=60)
    assert process.returncode == 0, warnings
    found = json.loads(out.splitlines()[-1])
    assert found["right"] and found["failed"] == 0
    return found, warnings


def files_of(cache, version="v1"):
    return sorted((cache / version).glob("??/*/*"))


def blocks_of(cache, version="v1"):
    """How many blocks its files have: the heads of 16 lie in each from byte 2,048 on, every 128, and those of others
    are zeros."""
    count = 0
    for path in files_of(cache, version):
        try:
            heads = path.read_bytes()[2048:4096]
        except OSError:  # it was removed meanwhile
            continue
        count += sum(any(heads[at : at + 128]) for at in range(0, len(heads), 128))
    return count


def sent(store):
    """The ranges of the object that a server has sent, but for the answers that tell its version."""
    entries = store.server.requests(object=store.object("rows"), operation="read")
    ranges = [entry.range for entry in entries if entry.range is not None and entry.sent > 0]
    return [(first, last + 1) for first, last in ranges if first > 0 or last >= HEAD]


def bytes_sent(store):
    return sum(end - begin for begin, end in sent(store))
