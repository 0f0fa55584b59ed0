# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Threads that are inside this library while the interpreter shuts down."""

import subprocess
import sys

# Python ends a thread that wants the GIL back during the shutdown. `Slow` lets it come to that: it is deleted late,
# and sleeps without the GIL while the threads' own sleeps end.
PROGRAM = """
import threading, time
import torch, torch_distinput as tdi

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(1.5)

inside = threading.Semaphore(0)

def dream(*_):
    inside.release()
    time.sleep(0.5)
    return torch.tensor(1)

class Rows(torch.utils.data.Dataset):
    __getitem__ = dream
    def __len__(self):
        return 8

class Kept:
    def __init__(self, value):
        self.value = value
    def __call__(self, x):
        return dream()

numbers = tdi.Dataset.range(8)
one = lambda: (dream() for _ in range(8))
datasets = [
    numbers.map(dream),
    numbers.map(Kept(torch.ones(3)), num_parallel_calls=2),
    numbers.filter(lambda x: bool(dream())),
    tdi.Dataset.from_torch(Rows()).batch(2).prefetch(2),
    tdi.Dataset.from_generator(one, tdi.TensorSpec((), torch.int64)),
    numbers.flat_map(lambda x: numbers.map(dream)),
]
loops = [lambda dataset=dataset: list(dataset) for dataset in datasets]
loops.append(lambda: list(tdi.DataLoader(Rows(), 2)))
loops.append(lambda: list(tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(numbers.map(dream).batch(2))))
for loop in loops:
    threading.Thread(target=loop, daemon=True).start()
for _ in loops:
    inside.acquire()
kept = Slow()
print("ends", flush=True)
"""


def test_threads_inside_callables_do_not_crash_the_shutdown():
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (0, "ends\n", "")
