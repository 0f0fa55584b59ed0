# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Loaders whose rows name the worker that made them."""

import os

import torch
from torch.utils import data

import torch_distinput as tdi


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
