# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`torch_distinput.DataLoader` compared with torch's, for random arguments and datasets: batches, errors and draws."""

import collections
import random

import numpy as np
import pytest
import torch
from torch.utils import data
from torch.utils.data import BatchSampler, ConcatDataset, StackDataset, Subset, TensorDataset

import torch_distinput as tdi

Pair = collections.namedtuple("Pair", ["left", "right"])


class Samples(data.Dataset):
    """Samples of many types, made by Python."""

    def __init__(self, size, kind):
        self.size, self.kind = size, kind

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(f"no sample {index}")
        value = torch.full((2,), index)
        return {
            "int": lambda: index,
            "float": lambda: index / 2,
            "string": lambda: str(index),
            "tuple": lambda: (value, str(index), index),
            "dict": lambda: {"x": value, "nested": {"y": index, "name": str(index)}},
            "named": lambda: Pair(value, (index, [index, 1.5])),
            "array": lambda: np.full((3,), index, dtype=np.float32),
            "ragged": lambda: torch.zeros(index),
            "none": lambda: (index, None),
            "fails": lambda: 1 // (index % 5),
        }[self.kind]()


class Batched(Samples):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Stream(data.IterableDataset):
    def __init__(self, size, kind):
        self.samples = Samples(size, kind)

    def __iter__(self):
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (self.samples[index] for index in range(first, len(self.samples), step))


class Sized(Stream):
    def __len__(self):
        return len(self.samples)


KINDS = ["int", "float", "string", "tuple", "dict", "named", "array", "ragged", "none", "fails"]


def tensors(rng, size):
    choices = [
        torch.arange(size * 3.0).reshape(size, 3),
        torch.arange(size),
        torch.arange(size) % 2 == 0,
        torch.arange(size * 4, dtype=torch.uint8).reshape(size, 2, 2),
        torch.zeros(size, 0),
        torch.arange(size * 2.0).reshape(2, size).T,
        torch.arange(size, dtype=torch.float16).expand(3, size).T,
    ]
    return rng.choice(choices)


def dataset(rng, depth=0):
    """A dataset of 0 to 13 samples; numbers in samples tell them apart where the type of sample allows."""
    size = rng.choice([0, 1, 2, 5, 8, 13])
    kind = rng.randrange(12 if depth < 2 else 8)
    if kind == 0:
        return TensorDataset(torch.arange(size), *[tensors(rng, size) for _ in range(rng.randrange(3))])
    if kind == 1:
        return tensors(rng, size)
    if kind == 2:
        dtype = rng.choice([np.float32, np.float64, np.int32, np.uint8, np.uint16, np.bool_, np.complex64, ">i4", "U3"])
        return np.arange(size * 2).astype(dtype).reshape(rng.choice([(size, 2), (size * 2,)]))
    if kind == 3:
        return rng.choice([range(size), range(3, 3 + 2 * size, 2), range(size, 0, -1)])
    if kind == 4:
        return rng.choice([[*range(size)], [torch.ones(2) * i for i in range(size)]])
    if kind == 5:
        return rng.choice([Samples, Batched])(size, rng.choice(KINDS))
    if kind == 6:
        return rng.choice([Stream, Sized])(size, rng.choice(KINDS))
    if kind == 7:
        return TensorDataset(torch.arange(float(size)).requires_grad_())
    if kind == 8:
        base = dataset(rng, depth + 1)
        if isinstance(base, data.IterableDataset):
            return base
        end = len(base) + (rng.random() < 0.05)
        indices = [rng.randrange(-1, end) for _ in range(rng.randrange(9))] if len(base) else []
        return Subset(base, rng.choice([indices, torch.tensor(indices, dtype=torch.int64)]))
    if kind == 9:
        size = rng.randrange(1, 5)
        first = [TensorDataset(torch.arange(10 * i, 10 * i + rng.randrange(5))) for i in range(size)]
        return ConcatDataset(first + [range(3)] * (rng.random() < 0.2))
    if kind == 10:
        parts = [TensorDataset(torch.arange(size)), torch.arange(size * 2.0).reshape(size, 2), range(size)]
        return StackDataset(*parts) if rng.random() < 0.5 else StackDataset(a=parts[0], b=parts[1])
    return StackDataset(Samples(size, "dict"), torch.arange(size))


def arguments(rng, source):
    size = len(source) if hasattr(source, "__len__") else 7
    chosen = {}

    def maybe(name, chance, choices):
        if rng.random() < chance:
            chosen[name] = rng.choice(choices)

    maybe("batch_size", 0.8, [1, 2, 3, 4, 7, 100, None, 0, -1])
    maybe("shuffle", 0.5, [True, True, False, None])
    maybe("drop_last", 0.3, [True, False])
    maybe("collate_fn", 0.2, [list, data.default_collate, data.default_convert])
    maybe("pin_memory", 0.05, [True])
    maybe("num_workers", 0.05, [-1])
    maybe("timeout", 0.03, [-1, 1])
    maybe("prefetch_factor", 0.03, [2])
    maybe("persistent_workers", 0.03, [True])
    maybe("multiprocessing_context", 0.03, ["fork"])
    maybe("in_order", 0.05, [False])
    maybe("sampler", 0.15, [
        range(size), [0, 0, 1], [size], data.SubsetRandomSampler(range(size)),
        data.WeightedRandomSampler([1.0] * max(size, 1), 5), [-1, 0],
    ])  # fmt: skip
    maybe("batch_sampler", 0.1, [
        [[0], [1, 0]], [(0, 0)], [[]], BatchSampler(data.SequentialSampler(range(size)), 3, False), [[0.5]],
    ])  # fmt: skip
    if rng.random() < 0.4:
        chosen["generator"] = lambda: torch.Generator().manual_seed(5)
    return chosen


def run(cls, source, chosen):
    """One epoch, the beginning of another, and everything else that is visible: length, error, the next draws."""
    torch.manual_seed(3)
    chosen = {name: value() if name == "generator" else value for name, value in chosen.items()}
    generator = chosen.get("generator")
    epoch, more, seen, native = [], [], {}, False
    try:
        loader = cls(source, **chosen)
        try:
            seen["length"] = len(loader)
        except TypeError as error:
            seen["length"] = str(error)
        native = cls is tdi.DataLoader and "path: native" in loader.explain()
        for batch in loader:
            epoch.append(batch)
        for _, batch in zip(range(2), loader):
            more.append(batch)
    except Exception as error:  # noqa: BLE001 - it is compared
        seen["error"] = type(error), str(error)
    seen["draws"] = torch.rand(3).tolist(), None if generator is None else torch.rand(3, generator=generator).tolist()
    return epoch, more, seen, native


def plain(value, values=True):
    """Everything that is visible of a batch, or all but its values, in comparable form."""
    if isinstance(value, torch.Tensor):
        kind = (value.dtype, tuple(value.shape), value.requires_grad, value.is_contiguous(), value.device.type)
        return ("tensor", *kind, str(value.detach().tolist()) if values else "")
    if isinstance(value, dict):
        return (type(value), [(key, plain(part, values)) for key, part in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [plain(part, values) for part in value])
    return (type(value), repr(value))


def rows(value):
    """The rows of a batch, each in comparable form."""
    if isinstance(value, torch.Tensor):
        return [str(row.tolist()) for row in value]
    parts = value.values() if isinstance(value, dict) else value
    return [str(row) for row in zip(*map(rows, parts))]


def compare(source, chosen):
    """Compares one epoch of torch's class with ours; returns whether the path was native."""
    ours, our_more, we_saw, native = run(tdi.DataLoader, source, chosen)
    theirs, their_more, they_saw, _ = run(data.DataLoader, source, chosen)
    assert we_saw == they_saw
    own_order = native and chosen.get("shuffle") and not {"sampler", "batch_sampler"} & chosen.keys()
    for here, there in ((ours, theirs), (our_more, their_more)):
        assert [plain(batch, not own_order) for batch in here] == [plain(batch, not own_order) for batch in there]
    if own_order and not chosen.get("drop_last"):
        assert sorted(row for batch in ours for row in rows(batch)) == sorted(
            row for batch in theirs for row in rows(batch)
        )
    return native


@pytest.mark.parametrize("part", range(10))
@pytest.mark.filterwarnings("ignore")
def test_random_loaders_agree_with_torch(part):
    paths = collections.Counter()
    for case in range(120):
        rng = random.Random(1000 * part + case)
        source = dataset(rng)
        chosen = arguments(rng, source)
        try:
            paths[compare(source, chosen)] += 1
        except AssertionError as error:
            raise AssertionError(f"case {part}/{case}: {source!r} {chosen!r}") from error
    assert min(paths[True], paths[False]) > 20
