# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Random loaders with worker processes: batches, orders, errors and draws of torch's class and of this library's."""

import collections
import random
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils import data
from torch.utils.data import get_worker_info
from torch_datasets import last_line

import torch_distinput as tdi

Named = collections.namedtuple("Named", ["left", "right"])


def drawn():
    """What a row draws, which shows the seeds of its worker."""
    return random.random(), torch.rand(()).item(), float(np.random.rand())


SAMPLES = {
    "numbers": lambda row: (row, row / 2, bool(row % 2)),
    "tensors": lambda row: {"a": torch.full((2, 3), row), "b": [np.arange(3) + row]},
    "texts": lambda row: Named(str(row), {"bytes": b"x" * row}),
    "drawn": lambda row: drawn() + (get_worker_info().id, get_worker_info().seed),
    "views": lambda row: torch.arange(12.0).reshape(3, 4).T + row,
    "odd": lambda row: collections.OrderedDict(x=np.float32(row), y=collections.defaultdict(int, z=row)),
    "uneven": lambda row: torch.zeros(2 if row < 9 else 3),
}


class Rows(data.Dataset):
    def __init__(self, kind, fails):
        self.kind, self.fails = kind, fails

    def __len__(self):
        return 13

    def __getitem__(self, row):
        if row == self.fails:
            raise KeyError(f"row {row}")
        return SAMPLES[self.kind](row)


class Stream(Rows, data.IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return (self[row] for row in range(info.id, 13, info.num_workers))


def as_list(samples):
    return [samples, np.arange(100) + len(samples)]


def plain(value):
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(key, plain(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(part) for part in value]
    return value


def outcome(cls, dataset, epochs, arguments):
    """All batches and errors of some epochs, and the next draw of torch's generator."""
    torch.manual_seed(5)
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = cls(dataset, **arguments)
        for _ in range(epochs):
            iterator = iter(loader)
            while True:
                try:
                    seen.append(plain(next(iterator)))
                except StopIteration:
                    break
                except Exception as error:  # noqa: BLE001 - it is compared
                    seen.append((type(error).__name__, str(error).split("Traceback")[0], last_line(error)))
    return seen, torch.rand(()).item()


@pytest.mark.both_pools(slow=True)
@settings(max_examples=8)
@given(
    kind=st.sampled_from(sorted(SAMPLES)),
    stream=st.booleans(),
    fails=st.sampled_from([None, None, 4]),
    workers=st.integers(1, 3),
    batch_size=st.sampled_from([None, 1, 2, 5]),
    drop_last=st.booleans(),
    shuffle=st.booleans(),
    persistent=st.booleans(),
    prefetch_factor=st.integers(1, 3),
    collate_fn=st.sampled_from([None, None, as_list]),
)
def test_loaders_agree_with_torch(
    kind, stream, fails, workers, batch_size, drop_last, shuffle, persistent, prefetch_factor, collate_fn
):
    arguments = {"num_workers": workers, "batch_size": batch_size, "drop_last": drop_last and batch_size is not None}
    arguments |= {"persistent_workers": persistent, "prefetch_factor": prefetch_factor, "shuffle": shuffle}
    if batch_size is not None:
        arguments["collate_fn"] = collate_fn
    if stream:
        arguments["shuffle"] = None
    dataset = (Stream if stream else Rows)(kind, fails)
    ours = outcome(tdi.DataLoader, dataset, 2, arguments)
    assert ours == outcome(data.DataLoader, dataset, 2, arguments)
