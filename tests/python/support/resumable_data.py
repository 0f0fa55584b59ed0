# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets and samplers with and without a state, for tests of states of a `DataLoader`."""

import itertools

import torch
from torch.utils import data

SIZE = 11


def seeded(number):
    return torch.Generator().manual_seed(number)


class Rows(data.Dataset):
    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return index


class Batched(Rows):
    def __getitems__(self, indices):
        return indices


class StatefulRows(Rows):
    """A map-style dataset that counts the requests; the count is its state."""

    count = 0

    def __getitem__(self, index):
        self.count += 1
        return index

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


class Stream(data.IterableDataset):
    def __init__(self, size=SIZE):
        self.size = size

    def rows(self):
        """Those of this worker."""
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return range(first, self.size, step)

    def __iter__(self):
        return iter(self.rows())


class ShuffledStream(Stream):
    """A stream in another order each time; all workers have the same one."""

    def __iter__(self):
        info = data.get_worker_info()
        generator = None if info is None else seeded(info.seed - info.id)
        yield from torch.randperm(self.size, generator=generator)[list(self.rows())].tolist()


class ResumingStream(Stream):
    """A stream that continues from its state at the next `__iter__`, and begins at the start at later ones."""

    at, resume = 0, None

    def __iter__(self):
        self.at, self.resume = self.resume or 0, None
        rows = self.rows()
        while self.at < len(rows):
            self.at += 1
            yield rows[self.at - 1]

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.resume = state["at"]


class CountingStream(Stream):
    """A stream that continues from where it is; its numbers differ between epochs."""

    at = epoch = 0

    def __iter__(self):
        rows = self.rows()
        while self.at < len(rows):
            self.at += 1
            yield 100 * self.epoch + rows[self.at - 1]
        self.at = 0
        self.epoch += 1

    def state_dict(self):
        return {"at": self.at, "epoch": self.epoch}

    def load_state_dict(self, state):
        self.at, self.epoch = state["at"], state["epoch"]


class ResumingSampler(data.Sampler):
    """As torchdata's StatefulDistributedSampler: the next `__iter__` continues, later ones begin at the start."""

    yielded, resume = 0, None

    def __len__(self):
        return SIZE

    def __iter__(self):
        self.yielded, self.resume = self.resume or 0, None
        for index in itertools.islice(reversed(range(SIZE)), self.yielded, None):
            self.yielded += 1
            yield index

    def state_dict(self):
        return {"yielded": self.yielded}

    def load_state_dict(self, state):
        self.resume = state["yielded"]


class CountingSampler(data.Sampler):
    """A sampler that continues from where it is, in another order each epoch. It keeps writing to its state object."""

    def __init__(self):
        self.state = {"at": 0, "epoch": 0}

    def __len__(self):
        return SIZE

    def __iter__(self):
        order = torch.randperm(SIZE, generator=seeded(self.state["epoch"])).tolist()
        while self.state["at"] < SIZE:
            self.state["at"] += 1
            yield order[self.state["at"] - 1]
        self.state["at"] = 0
        self.state["epoch"] += 1

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = dict(state)


class LazySampler(data.Sampler):
    """A sampler that draws each index at the time of the request."""

    def __len__(self):
        return SIZE

    def __iter__(self):
        return (int(torch.randint(SIZE, ())) for _ in range(SIZE))


class EagerBatches:
    """A batch sampler that draws the whole order at `__iter__`, before the first request."""

    def __len__(self):
        return 4

    def __iter__(self):
        return iter([batch.tolist() for batch in torch.randperm(SIZE).split(3)])


def values(batch):
    return (batch[0] if isinstance(batch, list) else torch.as_tensor(batch)).tolist()
