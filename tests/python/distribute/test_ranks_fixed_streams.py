# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`AutoShardPolicy.STREAMS` under a strategy: each file is opened by one rank, and any ranks go on from a state."""

import itertools
import json

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi

FILES, DOCUMENTS = 10, 9


@pytest.fixture
def folder(tmp_path):
    """Files of documents: lines with one to five times their number."""
    for file in range(FILES):
        first = DOCUMENTS * file
        lines = (" ".join([str(first + row)] * (1 + row % 5)) for row in range(DOCUMENTS))
        (tmp_path / f"{file}.txt").write_text("".join(line + "\n" for line in lines))
    return tmp_path


def pipeline(folder, opened, name):
    def documents(file):
        opened.append(file)
        return tdi.TextLineDataset([file], index=False)

    def tokens(line):
        return torch.tensor([int(word) for word in line.split()])

    spec = tdi.TensorSpec([None], torch.int64)
    names = [str(path) for path in sorted(folder.glob("*.txt"))]
    if name == "mixture":
        halves = [
            tdi.Dataset.from_tensor_slices(half).flat_map(documents).map(tokens, element_spec=spec)
            for half in (names[:5], names[5:])
        ]
        read = tdi.Dataset.sample_from_datasets(halves, weights=[0.8, 0.2], seed=5)
    else:
        read = tdi.Dataset.from_tensor_slices(names).flat_map(documents).map(tokens, element_spec=spec)
    if name == "packed":
        return read.pack(16, window=3).map(lambda row: row["tokens"])
    return read.shuffle(4, seed=2).map(lambda row: row[:1])


def take(rank, folder, name, states, most, replicas):
    opened = []
    rows = pipeline(folder, opened, name).batch(6)
    options = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS)
    strategy = tdi.MultiWorkerMirroredStrategy(devices=["cpu"] * replicas)
    distributed = strategy.distribute_dataset(rows.with_options(options))
    iterator = iter(distributed)
    if states:
        iterator.load_state_dict(json.loads(states))
    opened.clear()
    steps = [strategy.local_results(step) for step in itertools.islice(iterator, most)]
    values = [value for step in steps for part in step for value in part.flatten().tolist()]
    return values, len(steps), iterator.state_dict(), opened, str(distributed.explain())


def counted(documents):
    """How often each document's number comes."""
    return sorted((value, documents.count(value)) for value in set(documents))


@pytest.mark.parametrize("name", ["packed", "mixture", "shuffled"])
def test_every_token_comes_once_across_restarts_on_other_ranks(folder, name):
    whole = [1 + row % 5 if name == "packed" else 1 for row in range(DOCUMENTS)] * FILES
    seen, states = [], ""
    for world, most, replicas in [(3, 2, 1), (4, 1, 2), (1, 1, 1), (2, None, 1)]:
        results = returned(run_ranks(take, world, folder, name, states, most, replicas))
        assert len({steps for _, steps, *_ in results}) == 1
        seen += [value for values, *_ in results for value in values]
        states = json.dumps([state for *_, state, _, _ in results])
    if name == "packed":
        padding = seen.count(0) - whole[0]  # document 0 is of zeros, too
        assert padding >= 0
        seen = [value for value in seen if value]
        whole[0] = 0
    assert counted(seen) == [(number, count) for number, count in enumerate(whole) if count]


def test_each_file_is_opened_by_one_rank(folder):
    results = returned(run_ranks(take, 3, folder, "shuffled", "", None, 1))
    opened = [file for *_, files, _ in results for file in files]
    assert sorted(opened) == [str(path) for path in sorted(folder.glob("*.txt"))]
    assert "each byte is read once: 10 streams (files of flat_map), 3 to 4 a rank" in results[0][-1]
