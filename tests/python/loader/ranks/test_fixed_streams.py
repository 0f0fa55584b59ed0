# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`AutoShardPolicy.STREAMS`: pipelines without random access, each byte of which one rank reads."""

import itertools
import json

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi

STREAMS = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS)
FILES, ROWS = 12, 7


@pytest.fixture
def folder(tmp_path):
    for file in range(FILES):
        (tmp_path / f"{file:02}.txt").write_text("".join(f"{ROWS * file + row}\n" for row in range(ROWS)))
    return tmp_path


def numbers_of(name):
    return tdi.TextLineDataset([name], index=False)


def lines(folder):
    """The lines of the files, and a list that grows with each line that this process reads."""
    read = []

    def keep(line):
        read.append(line)
        return True

    files = tdi.Dataset.list_files(f"{folder}/*.txt", seed=3)
    rows = files.interleave(numbers_of, cycle_length=2).filter(keep).shuffle(5, seed=1)
    return rows.with_options(STREAMS), read


def steps_of(loader, most):
    found = []
    for batch in itertools.islice(loader, most):
        found.append([int(row) for row in batch])
    return found


def load(rank, folder, states, most, batch_size):
    rows, read = lines(folder)
    loader = tdi.DataLoader(rows, batch_size, distributed=True)
    if states:
        loader.load_state_dict(json.loads(states))
    text = str(loader.explain())
    read.clear()
    found = steps_of(loader, most)
    return found, loader.state_dict(), len(read), text


def test_each_line_is_read_once_a_job(folder):
    results = returned(run_ranks(load, 3, folder, "", None, 4))
    rows = [row for steps, *_ in results for step in steps for row in step]
    assert sorted(rows) == list(range(FILES * ROWS))
    assert len({len(steps) for steps, *_ in results}) == 1
    assert sum(count for *_, count, _ in results) == FILES * ROWS
    for *_, text in results:
        assert "STREAMS, applied as STREAMS: each byte is read once: 12 streams (files of interleave), 4 a rank" in text
        assert "work:" not in text


def test_a_loader_goes_on_on_other_numbers_of_ranks(folder):
    seen, states = [], ""
    for world, most, batch_size in [(3, 2, 4), (5, 2, 2), (1, 3, 3), (2, None, 4)]:
        results = returned(run_ranks(load, world, folder, states, most, batch_size))
        seen += [row for steps, *_ in results for step in steps for row in step]
        states = json.dumps([state for _, state, *_ in results])
    assert sorted(seen) == list(range(FILES * ROWS))


def counted(rank):
    batches = tdi.Dataset.range(200).shuffle(5, seed=1).batch(12).map(lambda rows: rows + 1)
    loader = tdi.DataLoader(batches.with_options(STREAMS), None, distributed=True)
    assert "applied as STREAMS" in str(loader.explain())
    return len(loader), loader.cardinality(), sum(1 for _ in loader)


@pytest.mark.parametrize("world", [2, 5])
def test_the_length_is_that_of_the_rank_with_the_most_rows(world):
    told = {number for numbers in returned(run_ranks(counted, world)) for number in numbers}
    assert len(told) == 1 and told.pop() >= 17


def shuffled_files(rank, folder):
    files = tdi.Dataset.list_files(f"{folder}/*.txt", seed=3)
    rows = files.flat_map(lambda name: tdi.TextLineDataset([name]).shuffle(seed=2))
    return steps_of(tdi.DataLoader(rows.with_options(STREAMS), 4, distributed=True), None)


def test_functions_may_make_datasets_that_need_random_access(folder):
    results = returned(run_ranks(shuffled_files, 3, folder))
    assert sorted(row for steps in results for step in steps for row in step) == list(range(FILES * ROWS))


def refuse(rank, folder):
    rows, _ = lines(folder)
    loader = tdi.DataLoader(rows, 4, distributed=True)
    iterator = iter(loader)
    next(iterator)
    first = loader.state_dict()
    next(iterator)
    messages = []
    for states in ([], [first, loader.state_dict()], [{"other": 1}], [first]):
        try:
            loader.load_state_dict(states)
            next(iter(loader))
        except (ValueError, tdi.DistributedDatasetError) as error:
            messages.append(str(error))
    return messages


def test_states_that_are_not_of_all_ranks_are_refused(folder):
    (messages,) = returned(run_ranks(refuse, 1, folder))
    assert "a list must have the states of all ranks" in messages[0]
    assert "saved after the same step, but `batches` is 1 in the first and 2 in another one" in messages[1]
    assert "a list must have the states of all ranks" in messages[2]
    assert len(messages) == 3  # one process has the state of all ranks


def sources(rank, folder):
    files = [str(path) for path in sorted(folder.glob("*.txt"))]
    text = tdi.TextLineDataset(files, index=False)
    datasets = {
        "generator": tdi.Dataset.from_generator(lambda: range(9), tdi.TensorSpec([], torch.int64)).batch(4),
        "take": text.take(9).batch(4),
        "random access": tdi.Dataset.range(99).batch(4),
        "zip": tdi.Dataset.zip((text, text)).batch(4),
        "unique": text.unique().batch(4),
        "after the batch": text.batch(4).take(2),
    }
    strategy = tdi.MultiWorkerMirroredStrategy()
    return {name: str(dataset.with_options(STREAMS).explain(strategy)) for name, dataset in datasets.items()}


def test_what_cannot_be_cut_stays_as_it_was_and_says_why(folder):
    reasons = {
        "generator": "from_generator",
        "take": "take(count=9) needs all elements in order",
        "random access": "it has random access, so that each rank reads only its rows",
        "zip": "zip",
        "unique": "unique",
        "after the batch": "its elements are not batches of one size",
    }
    for texts in returned(run_ranks(sources, 2, folder)):
        for name, reason in reasons.items():
            (line,) = [line for line in texts[name].splitlines() if "policy: " in line]
            assert "STREAMS, applied as DATA" in line, line
            assert "it is not cut into streams: " in line and reason in line, line
            assert "reads each once" not in texts[name]


def advice(rank, folder):
    files = [str(path) for path in sorted(folder.glob("*.txt"))]
    rows = tdi.TextLineDataset(files, index=False).filter(lambda line: True)
    return str(tdi.DataLoader(rows, 4, distributed=True).explain())


def test_explain_names_the_policy_that_reads_once(folder):
    for text in returned(run_ranks(advice, 2, folder)):
        assert "2 times in all" in text
        assert "auto_shard_policy STREAMS reads each once, if the pipeline can be cut" in text
