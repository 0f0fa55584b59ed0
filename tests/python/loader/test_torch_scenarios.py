# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The behaviour that PyTorch's own tests of DataLoader check, in short: each scenario runs with torch's class and ours.

The two classes differ on purpose in three points:
- a shuffled native dataset has an order of its own (compared as a set);
- with native rows there are no worker processes: `iter(loader)._workers` is empty, and the error about an index of a
  sampler names no worker;
- iterators are of other classes, below torch's `_BaseDataLoaderIter`.
"""

import collections
import functools
import random
import re
import warnings

import numpy as np
import pytest
import torch
from distributed_loaders import Squares
from processes import run_script
from torch.utils import data
from torch.utils.data import ChainDataset, TensorDataset, get_worker_info
from torch_datasets import IndexStream, Indices, SizedIndexStream, last_line

import torch_distinput as tdi

Named = collections.namedtuple("Named", ["data", "label"])


class SizePerWorker(data.IterableDataset):
    def __init__(self, sizes):
        self.sizes = sizes

    def __iter__(self):
        return iter(range(self.sizes[get_worker_info().id]))

    def __len__(self):
        return sum(self.sizes)


class Failing(Indices):
    def __init__(self, size, kind, *arguments):
        super().__init__(size)
        self.kind, self.arguments = kind, arguments

    def __getitem__(self, index):
        if index == 3:
            raise self.kind(*self.arguments)
        return index


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


class Seeds(Indices):
    def __getitem__(self, index):
        info = get_worker_info()
        numbers = (torch.initial_seed(), random.getrandbits(31), int(np.random.randint(2**31)))
        return (info.id, info.num_workers, info.seed, *numbers, torch.get_num_threads())


class Missing(data.Dataset):
    def __len__(self):
        return 3


class Initialised(Indices):
    def __init__(self, size):
        super().__init__(size)
        self.worker = None

    def initialise(self, worker):
        self.worker = worker

    def __getitem__(self, index):
        return self.worker, index


class Started(Indices):
    start = 0

    def __getitem__(self, index):
        return self.start


class NamedSamples(Indices):
    def __getitem__(self, index):
        return Named(torch.tensor(index), str(index))


class Bulk(Indices):
    def __getitem__(self, indices):
        return torch.as_tensor(indices)


class Odd:
    """A batch of a type of its own."""

    def __init__(self, samples):
        self.rows = torch.stack([sample[0] for sample in samples])


def pairs():
    return TensorDataset(torch.arange(40).reshape(20, 2), torch.arange(20))


def plain(value):
    if isinstance(value, torch.Tensor):
        return ("tensor", value.dtype, value.tolist())
    if isinstance(value, Odd):
        return ("Odd", plain(value.rows))
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(part) for part in value]
    return value


def with_errors(iterator):
    """All batches, with an error in place of each batch that failed."""
    seen = []
    while len(seen) < 50:
        try:
            seen.append(plain(next(iterator)))
        except StopIteration:
            return seen
        except Exception as error:  # noqa: BLE001 - it is compared
            first, *_ = str(error).split("Traceback")
            last = last_line(error)
            seen.append((type(error).__name__, re.sub(r"\(pid.*?\)", "", first), last))
    return seen


def streams(cls, workers, **arguments):
    return sorted(map(str, map(plain, cls(SizePerWorker([0, 4, 20]), num_workers=workers, **arguments))))


def length_warnings(cls, workers):
    loader = cls(SizedIndexStream(5), num_workers=workers)
    counts = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(loader)
        counts.append(len(caught))
        assert len(loader) == 5
        iterator = iter(loader)
        for _ in range(5 + 3 * (workers > 1)):
            next(iterator)
    texts = [str(warning.message) for warning in caught]
    return counts, [re.sub("<.*?>", "", text) for text in texts if "was reported to be" in text]


def seeds(cls, **arguments):
    torch.manual_seed(1)
    loader = cls(Seeds(4), 1, num_workers=2, **arguments)
    return [plain(batch) for _ in range(2) for batch in loader]


def persistent(cls):
    dataset = Started(4)
    loader = cls(dataset, 2, num_workers=2, persistent_workers=True)
    seen = []
    for epoch in range(3):
        seen.append([batch.tolist() for batch in loader])
        dataset.start = epoch
    assert iter(loader) is iter(loader)
    loader._iterator._shutdown_workers()
    return seen


def datapipe(cls, workers):
    pipe = data.datapipes.iter.IterableWrapper(range(20)).shuffle().sharding_filter()
    loader = cls(pipe, 4, shuffle=True, num_workers=workers)
    torch.manual_seed(3)
    return [plain(batch) for batch in loader]


def lengths(cls):
    seen = []
    for dataset in (Indices(10), SizedIndexStream(10)):
        for size, drop in ((1, False), (3, False), (3, True), (None, False)):
            loader = cls(dataset, size, drop_last=drop)
            seen.append((len(loader), len(list(loader))))
    growing = [torch.ones(1)] * 4
    loader = cls(growing, shuffle=True)
    growing.append(torch.ones(1))
    return seen, len(loader), len(list(loader))


def unsized(cls):
    with pytest.raises(TypeError) as caught:
        len(cls(IndexStream(3)))
    return str(caught.value)


def contexts(cls):
    loader = cls(Indices(11), 3, num_workers=1, multiprocessing_context="fork")
    first = [plain(batch) for batch in loader]
    loader.multiprocessing_context = torch.multiprocessing.get_context("fork")
    with pytest.raises(ValueError, match="should specify a valid start method"):
        loader.multiprocessing_context = "bad"
    return first, [plain(batch) for batch in loader]


def collected(cls):
    kinds = [(kind, dataset) for kind in (list, tuple) for dataset in (Indices(6), SizedIndexStream(6))]
    return [[plain(batch) for batch in kind(cls(dataset, size))] for kind, dataset in kinds for size in (2, None)]


def excessive(cls):
    with pytest.warns(UserWarning, match="excessive worker creation"):
        cls(pairs(), num_workers=1000)


SCENARIOS = {
    "errors": lambda cls: with_errors(iter(cls(Failing(8, ValueError, "bad row"), 2))),
    "errors of workers": lambda cls: with_errors(iter(cls(Failing(8, ValueError, "bad row"), 2, num_workers=2))),
    "key errors of workers": lambda cls: with_errors(iter(cls(Failing(8, KeyError, "a\nb"), 2, num_workers=1))),
    "errors of two arguments": lambda cls: with_errors(iter(cls(Failing(8, TwoArguments, 1, 2), 2, num_workers=1))),
    "missing getitem": lambda cls: with_errors(iter(cls(Missing(), 2))),
    "stop iteration ends an epoch": lambda cls: with_errors(iter(cls(Failing(8, StopIteration), 2))),
    "streams of workers": functools.partial(streams, workers=3, batch_size=7, worker_init_fn=id),
    "streams of workers that drop": functools.partial(streams, workers=3, batch_size=7, drop_last=True),
    "samples of workers": functools.partial(streams, workers=3, batch_size=None),
    "length warnings": functools.partial(length_warnings, workers=0),
    "length warnings of workers": functools.partial(length_warnings, workers=2),
    "chains": lambda cls: [plain(b) for b in cls(SizedIndexStream(5) + SizedIndexStream(4), 2)],
    "chain datasets": lambda cls: [plain(b) for b in cls(ChainDataset([SizedIndexStream(5), SizedIndexStream(4)]), 2)],
    "seeds": seeds,
    "seeds from a generator": lambda cls: seeds(cls, generator=torch.Generator().manual_seed(42)),
    "worker_init_fn": lambda cls: [
        plain(b) for d in [Initialised(12)] for b in cls(d, 2, num_workers=2, worker_init_fn=d.initialise, timeout=30)
    ],
    "persistent workers": persistent,
    "data pipes": functools.partial(datapipe, workers=0),
    "data pipes of workers": functools.partial(datapipe, workers=2),
    "named tuples": lambda cls: [plain(b) for size in (2, None) for b in cls(NamedSamples(4), size)],
    "bulk samples": lambda cls: [
        plain(b) for b in cls(Bulk(9), batch_size=None, sampler=data.BatchSampler(range(9), 4, False))
    ],
    "bulk tensors": lambda cls: [
        plain(b) for b in cls(pairs(), batch_size=None, sampler=data.BatchSampler(range(20), 4, False))
    ],
    "batches of a type of their own": lambda cls: [plain(b) for b in cls(pairs(), 3, collate_fn=Odd, pin_memory=False)],
    "batch sampler of tuples": lambda cls: [plain(b) for b in cls(pairs(), batch_sampler=[(0, 1), (2, 3, 4)])],
    "lengths": lengths,
    "unsized": unsized,
    "contexts": contexts,
    "excessive workers": excessive,
    "collections": collected,
}


@pytest.mark.both_pools
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_scenarios_agree_with_torch(scenario):
    assert scenario(tdi.DataLoader) == scenario(data.DataLoader)


class OwnContext(type(torch.multiprocessing.get_context("fork"))):
    """A context of the user's, whose queues and processes may be of any kind."""


def test_torchs_pool_runs_in_a_context_of_the_users():
    loader = tdi.DataLoader(Indices(4), 2, num_workers=1, multiprocessing_context=OwnContext())
    assert (
        "in 1 worker processes of torch's pool, because `multiprocessing_context` is a OwnContext" in loader.explain()
    )
    assert loader.__iter__()._pool is None and [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]


@pytest.mark.both_pools
def test_a_worker_that_dies_is_an_error():
    result = run_script("""
        import ctypes, torch
        class Dies(torch.utils.data.Dataset):
            def __len__(self): return 10
            def __getitem__(self, index): return ctypes.string_at(0)
        try:
            next(iter(tdi.DataLoader(Dies(), 2, num_workers=1, multiprocessing_context="fork")))
        except RuntimeError as error:
            print(error)
        """)
    text = r"DataLoader worker \(pid.* (is killed by signal|exited unexpectedly)"
    assert re.search(text, result.stdout), result.stderr


@pytest.mark.both_pools
@pytest.mark.slow
def test_a_timeout_of_workers_is_an_error():
    result = run_script("""
        import time, torch
        class Sleeps(torch.utils.data.Dataset):
            def __len__(self): return 10
            def __getitem__(self, index): time.sleep(20)
        try:
            next(iter(tdi.DataLoader(Sleeps(), 2, num_workers=1, timeout=1, multiprocessing_context="fork")))
        except RuntimeError as error:
            print(error)
        """)
    assert "DataLoader timed out after 1 seconds" in result.stdout, result.stderr


def test_batches_of_workers_need_no_descriptors():
    result = run_script("""
        import resource, torch
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self): return (torch.randn(2, 2) for _ in range(200))
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        kept = list(tdi.DataLoader(Stream(), multiprocessing_context="fork", num_workers=1))
        print(len(kept), len({batch.data_ptr() for batch in kept}))
        """)
    assert result.stdout == "200 200\n", result.stderr


@pytest.mark.parametrize("workers", [1, 4])
def test_torchs_pool_serves_where_the_address_space_is_limited(workers):
    result = run_script(f"""
        import resource, torch
        from torch_datasets import IndexTensors
        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (700 << 20),) * 2)
        loader = tdi.DataLoader(IndexTensors(8), 2, num_workers={workers})
        print(loader.explain().splitlines()[1])
        print([batch.tolist() for batch in loader])
        """)
    assert "of torch's pool, because RLIMIT_AS limits the address space" in result.stdout, result.stderr
    assert "[[0, 1], [2, 3], [4, 5], [6, 7]]" in result.stdout


def test_torchs_pool_serves_where_memory_ends_after_explain():
    result = run_script("""
        import resource, torch, warnings
        from torch_datasets import IndexTensors
        loader = tdi.DataLoader(IndexTensors(8), 2, num_workers=2)
        print("pool" in loader.explain())
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))  # shared memory is a file, which must be smaller
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print(len(list(loader)))
        print([(entry.filename, str(entry.message)) for entry in caught])
        print(loader.explain().splitlines()[1])
        """)
    lines = result.stdout.splitlines()
    assert lines[:2] == ["False", "4"], result.stderr
    assert "torch's pool runs the workers, because the system has no shared memory" in lines[2]
    assert "of torch's pool, because the system has no shared memory for it" in lines[3]


@pytest.mark.both_pools
@pytest.mark.slow
def test_spawned_workers_import_the_class():
    loader = tdi.DataLoader(Squares(7), 3, num_workers=1, multiprocessing_context="spawn")
    assert [batch["row"].tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5], [6]]
