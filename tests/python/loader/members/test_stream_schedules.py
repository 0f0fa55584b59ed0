# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Random schedules of members that own streams, against what plain Python says of the streams."""

import itertools
import os
import random
from concurrent.futures import ThreadPoolExecutor

import member_stream_jobs
import pytest
import torch

import torch_distinput as tdi

_STREAMS = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS)
_EVENTS = {
    "joined",
    "left",
    "healed",
    "lost",
    "host lost",
    "not committed",
    "answered differently",
    "not heard",
    "lost after its commit",
    "all lost",
}


def _stays(row):
    return row % 3 != 1


class _Data:
    """A random pipeline over a range of rows, cut into at least two streams."""

    def __init__(self, chance, most_rows):
        self.rows, self.batch = chance.randint(32, most_rows), chance.randint(1, 12)
        self.in_order = chance.random() < 0.5
        self._batched, self._seed = chance.random() < 0.3, chance.randrange(2**63)
        self.expected = [row for row in range(self.rows) if _stays(row)]

    def loader(self, membership):
        data = tdi.Dataset.range(self.rows).filter(_stays)
        data = data if self.in_order else data.shuffle(4)
        arguments = {"global_batch_size": self.batch}
        if self._batched:
            data, arguments = data.batch(self.batch), {"batch_size": None}
        return tdi.DataLoader(data.with_options(_STREAMS), membership=membership, seed=self._seed, **arguments)

    def streams(self):
        """The rows of each stream: ranges of at least 16 elements."""
        count = self.rows // 16
        return [_part(self.rows, stream, count) for stream in range(count)]


def _part(rows, index, count):
    """Part `index` of `rows` that are dealt to `count`."""
    return range(*(part * (rows // count) + min(part, rows % count) for part in (index, index + 1)))


def _check_delivery(data, streams, index, delivery):
    """That a member has at most its share, of its own streams."""
    share = _part(data.batch, index, delivery.info.num_replicas)
    assert len(delivery.rows) <= len(share)
    for row in delivery.rows:
        stream = next(number for number, rows in enumerate(streams) if row in rows)
        assert stream * data.batch // len(streams) in share


def _check_step(data, streams, step):
    """That the members agree on the step, and that their losses have the mean of its rows."""
    infos = [delivery.info for delivery in step]
    assert len({(i.epoch, i.step, i.row_start, i.global_valid, i.num_replicas, i.is_last) for i in infos}) == 1
    taking = [delivery for delivery in step if delivery.counts]
    rows = [row for delivery in taking for row in delivery.rows]
    assert len(taking) == infos[0].num_replicas
    assert len(rows) == infos[0].global_valid > 0
    scaled = 0.0
    for index, delivery in enumerate(taking):
        _check_delivery(data, streams, index, delivery)
    for delivery in step:
        part = torch.tensor(delivery.rows, dtype=torch.float64)
        scaled += float(tdi.scaled_mean(part.mean(), delivery.info, anchor=part))
        assert delivery.counts or delivery.rows == []
    assert scaled / len(taking) == pytest.approx(sum(rows) / len(rows))


def _check_epoch(data, streams, rows):
    """That the committed rows of an epoch are each there once, in each stream in its order."""
    assert sorted(rows) == data.expected
    if data.in_order:
        for stream in streams:
            of_stream = [row for row in rows if row in stream]
            assert of_stream == sorted(of_stream)


def _check_schedule(seed, most_rows, most_epochs, most_members, pool):
    chance = random.Random(seed)
    data, epochs = _Data(chance, most_rows), chance.randint(1, most_epochs)
    job = member_stream_jobs.StreamJob(
        chance,
        data.loader,
        lambda batch: batch,
        epochs,
        pool,
        most=chance.randint(1, most_members),
        heals_first=chance.random() < 0.5,
        has_clock=chance.random() < 0.5,
    )
    committed, streams = job.run(), data.streams()
    for step in job.heard:
        _check_step(data, streams, step)
    rows = list(itertools.chain(*(committed[step] for step in range(len(committed)))))
    assert len(rows) == epochs * len(data.expected)
    for epoch in range(epochs):
        _check_epoch(data, streams, rows[epoch * len(data.expected) :][: len(data.expected)])
    return job.events


def _check_schedules(seeds, most_rows, most_epochs, most_members):
    seen = set()
    with ThreadPoolExecutor(most_members) as pool:
        for seed in seeds:
            try:
                seen |= _check_schedule(seed, most_rows, most_epochs, most_members, pool)
            except BaseException as error:
                error.add_note(f"schedule {seed}")
                raise
    return seen


def test_each_row_is_in_exactly_one_committed_step():
    assert _check_schedules(range(40), most_rows=60, most_epochs=2, most_members=5) == _EVENTS


@pytest.mark.slow
def test_each_row_is_in_exactly_one_committed_step_of_long_schedules():
    _check_schedules(range(1000, 1020), most_rows=300, most_epochs=3, most_members=7)


# A variable looks for others, as in test_schedules.py. A tenth of a second each.
_MANY = int(os.environ.get("TDI_SCHEDULES", "400"))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2000, 2000 + _MANY, 100))
def test_each_row_is_in_exactly_one_committed_step_of_hundreds_of_schedules(first):
    _check_schedules(range(first, first + 100), most_rows=60, most_epochs=2, most_members=5)
