# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Random schedules of members that leave, fail, heal and join, against a loader of one process."""

import os
import random

import member_jobs
import pytest
import torch

import torch_distinput as tdi

_EVENTS = {
    "joined",
    "left",
    "healed",
    "lost",
    "host lost",
    "not committed",
    "answered differently",
    "lost after its commit",
    "all lost",
}


class _Rows(torch.utils.data.Dataset):
    """Rows that Python makes."""

    def __init__(self, rows):
        self._rows = rows

    def __len__(self):
        return self._rows

    def __getitem__(self, index):
        return {"row": index, "value": float(index)}


def _loaders(chance, most_rows):
    """Makes loaders of random data with a membership, or else of one process; the row numbers in a batch; and whether
    the rows have an order that arithmetic knows."""
    rows, batch = chance.randint(1, most_rows), chance.randint(1, 12)
    arguments = {"global_batch_size": batch, "tail": chance.choice(["zero_rows", "drop", "padded"])}
    kind = chance.choice(["tensor", "python", "pipeline", "batched", "stream", "batched stream"])
    streams = kind.endswith("stream")
    if (len([row for row in range(rows) if _stays(row)]) if streams else rows) < batch:
        arguments["tail"] = "zero_rows"
    if kind in ("tensor", "python"):
        arguments["shuffle"] = chance.random() < 0.7
        if arguments["shuffle"]:
            arguments["seed"] = chance.randrange(2**63)
    else:
        arguments["seed"] = chance.randrange(2**63)

    def make(**shared):
        given = arguments | shared
        if kind == "tensor":
            return tdi.DataLoader(torch.arange(rows), **given)
        if kind == "python":
            return tdi.DataLoader(_Rows(rows), **given)
        data = tdi.Dataset.range(rows).shuffle(4 if streams else None).map(lambda row: row * 1)
        data = data.filter(_stays) if streams else data
        if not kind.startswith("batched"):
            return tdi.DataLoader(data, **given)
        given.pop("global_batch_size")
        return tdi.DataLoader(data.batch(batch), batch_size=None, **given)

    return make, (lambda batch: batch["row"]) if kind == "python" else (lambda batch: batch), not streams


def _stays(row):
    return row % 3 != 1


def _undisturbed(make, numbers_of, epochs):
    """The rows of each step of `epochs` epochs, of one process, and how many steps there are before each end."""
    loader = make(distributed=True)
    steps, ends = [], []
    for _ in range(epochs):
        for batch in loader:
            steps.append(numbers_of(batch).tolist()[: loader.last_info.valid[0]])
        ends.append(len(steps))
    return steps, ends


def _check_step(step):
    """That the members of one step agree on it, and that their losses have the mean of the whole batch."""
    infos = [delivery.info for delivery in step]
    assert len({(i.epoch, i.step, i.row_start, i.global_valid, i.num_replicas, i.is_last) for i in infos}) == 1
    taking = [delivery for delivery in step if delivery.counts]
    assert len(taking) == infos[0].num_replicas
    sizes = [len(delivery.rows) for delivery in taking]
    assert sum(sizes) == infos[0].global_valid
    assert max(sizes) - min(sizes) <= 1
    scaled = 0.0
    for delivery in step:
        rows = torch.tensor(delivery.rows, dtype=torch.float64)
        scaled += float(tdi.scaled_mean(rows.mean(), delivery.info, anchor=rows))
        assert delivery.counts or delivery.info.valid == (0,)
    rows = [row for delivery in taking for row in delivery.rows]
    assert scaled / len(taking) == pytest.approx(sum(rows) / len(rows))


def _check_schedules(seeds, most_rows, most_epochs, most_members):
    """Compares what the schedules with these seeds commit with what one process reads. Returns what happened."""
    seen = set()
    for seed in seeds:
        chance = random.Random(seed)
        make, numbers_of, is_known = _loaders(chance, most_rows)
        expected, ends = _undisturbed(make, numbers_of, chance.randint(1, most_epochs))
        job = member_jobs.Job(
            chance,
            lambda membership, make=make: make(membership=membership),
            numbers_of,
            ends,
            most=chance.randint(1, most_members),
            heals_first=chance.random() < 0.5,
            has_clock=chance.random() < 0.5,
        )
        committed = job.run()
        assert [committed[step] for step in range(len(expected))] == expected, f"schedule {seed}"
        if is_known:
            ledger, step = make(membership=tdi.Membership.fixed(0, 1)), chance.randrange(len(expected))
            rows = ledger.rows_of(*divmod(step, len(ledger))).tolist()
            assert rows[: len(expected[step])] == expected[step], f"schedule {seed}"  # then what pads it
        for step in job.deliveries:
            _check_step(step)
        seen |= job.events
    return seen


def test_each_row_is_in_exactly_one_committed_step():
    assert _check_schedules(range(200), most_rows=20, most_epochs=2, most_members=5) == _EVENTS


@pytest.mark.slow
def test_each_row_is_in_exactly_one_committed_step_of_long_schedules():
    _check_schedules(range(1000, 1500), most_rows=60, most_epochs=3, most_members=7)


# A variable looks for others: TDI_SCHEDULES=100000 takes 20 minutes of one core.
_MANY = int(os.environ.get("TDI_SCHEDULES", "2000"))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2000, 2000 + _MANY, 1000))
def test_each_row_is_in_exactly_one_committed_step_of_thousands_of_schedules(first):
    _check_schedules(range(first, first + 1000), most_rows=20, most_epochs=2, most_members=5)
