# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of torch's kinds; the rows of most are the numbers 0 to size - 1, or name the worker that made them."""

import os
import time

import torch
from torch.utils import data

import torch_distinput as tdi


def last_line(error: BaseException) -> str:
    """The last line of an error that came from a worker, without the note that names its row, which torch's lack."""
    return next((line for line in reversed(str(error).splitlines()) if line and not line.startswith("raised by ")), "")


class Made(data.Dataset):
    """Row i is `make(i)`."""

    def __init__(self, size, make):
        self.size, self.make = size, make

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.make(index)


class Indices(data.Dataset):
    """Row i is i. `seconds`: how long Python takes for a row."""

    def __init__(self, size=10, seconds=0.0):
        self.size, self.seconds = size, seconds

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if self.seconds:
            time.sleep(self.seconds)
        return index


class IndexTensors(Indices):
    def __getitem__(self, index):
        return torch.tensor(super().__getitem__(index))


class IndexStream(data.IterableDataset):
    """A stream without a length; each worker reads all of it."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return iter(range(self.size))


class SizedIndexStream(IndexStream):
    def __len__(self):
        return self.size


class Rows(data.Dataset):
    """Rows of numbers; the worker's process and `act(row)` come first."""

    def __init__(self, size=64, act=None):
        self.size, self.act = size, act

    def __len__(self):
        return self.size

    def __getitem__(self, row):
        if self.act is not None:
            self.act(row)
        return torch.full((4,), row), os.getpid()


def loader_of(act=None, size=64, **arguments):
    return tdi.DataLoader(Rows(size, act), 4, **{"num_workers": 2} | arguments)


def processes_of(iterator):
    return [worker.pid for worker in iterator._workers]
