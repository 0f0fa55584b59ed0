# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`stats().sampled` under policy STREAMS: what each rank's streams have drawn from the datasets of a mixture."""

import itertools
import json

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi

STREAMS = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS)
SIZES = (90, 170, 40)
FIRST = (0, 1000, 2000)


@pytest.fixture
def folder(tmp_path):
    """Each dataset's rows in 6 files of unequal length."""
    for dataset, (size, first) in enumerate(zip(SIZES, FIRST, strict=True)):
        for file in range(6):
            rows = range(first + file, first + size, 6)
            (tmp_path / f"{dataset}-{file}.txt").write_text("".join(f"{row}\n" for row in rows))
    return tmp_path


def mixture(folder, cut):
    if cut == "files":
        sources = [
            tdi.TextLineDataset([str(folder / f"{dataset}-{file}.txt") for file in range(6)], index=False)
            for dataset in range(len(SIZES))
        ]
        return tdi.Dataset.sample_from_datasets([source.to_number() for source in sources], [3, 5, 2], seed=4)
    sources = [tdi.Dataset.range(first, first + size) for size, first in zip(SIZES, FIRST, strict=True)]
    mixed = tdi.Dataset.sample_from_datasets(sources, [3, 5, 2], seed=4)
    if cut == "shuffled elements":
        mixed = mixed.shuffle(7, seed=1)
    return mixed.filter(lambda row: True)


def take(rank, folder, cut, states, most):
    strategy = tdi.MultiWorkerMirroredStrategy()
    distributed = strategy.distribute_dataset(mixture(folder, cut).batch(11).with_options(STREAMS))
    assert f"{'files' if cut == 'files' else 'elements'} of" in str(distributed.explain())
    iterator = iter(distributed)
    if states:
        iterator.load_state_dict(json.loads(states))
    steps = [(iterator.stats().sampled, [])]
    for part in itertools.islice(iterator, most):
        steps.append((iterator.stats().sampled, strategy.local_results(part)[0].tolist()))
    return steps, iterator.state_dict()


def by_dataset(rows):
    return [sum(first <= row < first + 1000 for row in rows) for first in FIRST]


def together(counts):
    return torch.tensor([count or (0,) * len(SIZES) for count in counts]).sum(0).tolist()


@pytest.mark.parametrize("cut", ["files", "elements", "shuffled elements"])
def test_counts_of_all_ranks_are_those_of_the_rows_delivered(folder, cut):
    seen, states = [], ""
    for world, most in [(3, 3), (2, 4), (5, 2), (1, 3), (2, None)]:
        results = returned(run_ranks(take, world, folder, cut, states, most))
        for of_ranks in zip(*(steps for steps, _ in results), strict=True):
            seen += [row for _, rows in of_ranks for row in rows]
            told = together([sampled for sampled, _ in of_ranks])
            if cut != "shuffled elements":
                assert told == by_dataset(seen)
        states = json.dumps([state for *_, state in results])
    assert sorted(seen) == sorted(itertools.chain(*(range(first, first + size) for size, first in zip(SIZES, FIRST))))
    assert told == list(SIZES)
