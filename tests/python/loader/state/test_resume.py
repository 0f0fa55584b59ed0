# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""An interrupted run of a `DataLoader` yields what an uninterrupted one does: the rest of the epoch and later ones."""

import dataclasses
import itertools
import pickle
import random

import pytest
import torch
from resumable_data import (
    SIZE,
    Batched,
    CountingSampler,
    CountingStream,
    EagerBatches,
    LazySampler,
    ResumingSampler,
    ResumingStream,
    Rows,
    ShuffledStream,
    StatefulRows,
    Stream,
    seeded,
    values,
)
from torch.utils import data
from torch.utils.data import BatchSampler, RandomSampler, TensorDataset

import torch_distinput as tdi

DATASETS = {
    "tensors": lambda: TensorDataset(torch.arange(SIZE)),
    "rows": Rows,
    "batched rows": Batched,
    "stateful rows": StatefulRows,
}
STREAMS = {
    "stream": Stream,
    "shuffled stream": ShuffledStream,
    "resuming stream": ResumingStream,
    "counting stream": CountingStream,
}
PIPELINES = {
    "pipeline": lambda: tdi.Dataset.range(SIZE).shuffle(),
    "filtered pipeline": lambda: tdi.Dataset.range(SIZE).shuffle().filter(lambda row: row != 3),
    "pipeline with a seed": lambda: tdi.Dataset.range(SIZE).shuffle().with_options(tdi.Options(seed=3)),
}
SAMPLERS = {
    "in turn": lambda size: {},
    "shuffle": lambda size: {"shuffle": True},
    "subset": lambda size: {"sampler": data.SubsetRandomSampler(range(SIZE))},
    "weighted": lambda size: {"sampler": data.WeightedRandomSampler([1.0] * SIZE, SIZE)},
    "replacement": lambda size: {"sampler": RandomSampler(range(SIZE), replacement=True)},
    "own generator": lambda size: {"sampler": data.SubsetRandomSampler(range(SIZE), generator=seeded(1))},
    "own generator below": lambda size: {
        "batch_sampler": BatchSampler(RandomSampler(range(SIZE), generator=seeded(2)), size, False)
    },
    "resuming": lambda size: {"sampler": ResumingSampler()},
    "counting": lambda size: {"sampler": CountingSampler()},
    "counting below": lambda size: {"batch_sampler": BatchSampler(CountingSampler(), size, False)},
    "lazy": lambda size: {"sampler": LazySampler()},
    "eager": lambda size: {"batch_sampler": EagerBatches()},
}


@dataclasses.dataclass(frozen=True)
class Case:
    dataset: str
    sampler: str
    batch_size: int
    source: str  # where random numbers come from: "torch", "seed", "generator"
    drop_last: bool = False
    workers: int = 0
    persistent: bool = False
    distributed: bool = False
    collate: bool = False

    def make(self):
        arguments = {"num_workers": self.workers, "persistent_workers": self.persistent}
        arguments |= SAMPLERS[self.sampler](self.batch_size)
        if "batch_sampler" not in arguments:
            arguments |= {"batch_size": self.batch_size, "drop_last": self.drop_last}
        if self.distributed:
            arguments["distributed"] = True
        if self.collate:
            arguments["collate_fn"] = torch.tensor if self.dataset not in PIPELINES else torch.stack
        if self.source == "generator":
            arguments["generator"] = seeded(9)
        if self.source == "seed":
            arguments["seed"] = 9
        return tdi.DataLoader((DATASETS | STREAMS | PIPELINES)[self.dataset](), **arguments)


def random_case(rng, workers):
    dataset = rng.choice([*DATASETS, *DATASETS, *STREAMS, *PIPELINES])
    sampler = rng.choice([*SAMPLERS, "shuffle", "shuffle", "shuffle"]) if dataset in DATASETS else "in turn"
    sources = ["torch", "torch", "generator"]
    if sampler == "shuffle" or dataset in PIPELINES:
        sources.append("seed")
    distributed = rng.random() < 0.3
    return Case(
        dataset,
        sampler,
        rng.choice([1, 2, 3, 4, 11, 12]),
        rng.choice(sources),
        drop_last=rng.random() < 0.2,
        workers=workers,
        persistent=workers > 0 and rng.random() < 0.5,
        distributed=distributed,
        collate=rng.random() < 0.2 and dataset != "tensors" and not (distributed and dataset in PIPELINES),
    )


def epochs(loader, count):
    return [[values(batch) for batch in loader] for _ in range(count)]


def check_case(case, rng):
    before, seed = rng.randrange(3), rng.randrange(1000)
    torch.manual_seed(seed)
    never_saved = case.make()
    whole = epochs(never_saved, before + 3)
    never_saved.close()

    torch.manual_seed(seed)
    loader = case.make()
    if rng.random() < 0.2:
        loader.state_dict()
    seen = epochs(loader, before)
    steps = rng.randrange(len(whole[before]) + 2)  # all steps, and the one more that finds the end, included
    iterator = iter(loader)
    taken = [values(batch) for batch in itertools.islice(iterator, steps)]
    state = loader.state_dict()
    rest = [values(batch) for batch in iterator]
    later = epochs(loader, 2)
    loader.close()

    torch.manual_seed(rng.randrange(1000))
    resumed = case.make()
    resumed.load_state_dict(state)
    if rng.random() < 0.3:
        state = resumed.state_dict()
        resumed = case.make()
        resumed.load_state_dict(state)
    ended = steps > len(whole[before])
    again = epochs(resumed, 2 if ended else 3)
    resumed.close()
    assert again == [*([] if ended else [rest]), *later]
    if not (case.distributed and (case.sampler in ("shuffle", "weighted") or case.dataset in PIPELINES)):
        # In that case each loader draws a seed of its own, on which torch.manual_seed has no influence.
        assert [*seen, taken + rest, *later] == whole


def check_random_cases(rng, count, workers):
    for _ in range(count):
        case, seed = random_case(rng, workers), rng.randrange(10**6)
        try:
            check_case(case, random.Random(seed))
        except Exception as error:
            raise AssertionError(f"{case}, {seed}") from error


@pytest.mark.parametrize("part", range(10))
def test_a_resumed_run_is_the_run_that_was_not_interrupted(part):
    check_random_cases(random.Random(part), 40, workers=0)


@pytest.mark.both_pools(slow=True)
@pytest.mark.parametrize("part", range(4))
def test_a_resumed_run_with_workers_is_the_run_that_was_not_interrupted(part):
    check_random_cases(random.Random(100 + part), 3, workers=2)


@pytest.mark.both_pools
@pytest.mark.parametrize("source", ["torch", "generator"])
def test_batches_drawn_when_an_iterator_is_used_again_are_drawn_again(source):
    case = Case("rows", "eager", 4, source, workers=1, persistent=True)
    for seed in range(4):
        check_case(case, random.Random(seed))


def test_streams_of_workers_that_are_not_forked_take_their_states_along():
    from torch_distinput.loader.workers._states import _RestoredStream

    stream = ResumingStream()
    stream.at = 3
    restored = pickle.loads(pickle.dumps(_RestoredStream(stream, [True], [False], [False])))
    assert isinstance(restored, data.IterableDataset) and restored.at == 3
