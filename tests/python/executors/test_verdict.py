# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What `verdict()` says of a program whose rows workers make."""

import time

import pytest

import torch_distinput as tdi
from torch_distinput.observe._workers import WorkersStats, advice


def slow(row):
    time.sleep(0.02)
    return row


def test_more_workers_are_advised_by_number():
    dataset = tdi.Dataset.range(20).map(slow).batch(1)
    with tdi.DataLoader(dataset, batch_size=None, executor=tdi.Executor("processes", max_workers=1)) as loader:
        assert len(list(loader)) == 20
        verdict, workers = loader.verdict(), loader.stats().workers
    assert verdict.bound == "python"
    assert workers.needed >= 2
    assert f"`Executor(..., max_workers={min(workers.needed, 4096)})`" in verdict.advice
    assert f"executor: 1 of 1 workers; {workers.answers} answers" in str(loader.stats())


@pytest.mark.parametrize(
    ("workers", "told"),
    [
        (WorkersStats(workers=2, most=4, needed=None), "not known yet"),
        (WorkersStats(workers=4, most=4, needed=7), "`Executor(..., max_workers=7)`"),
        (WorkersStats(workers=4, most=4, needed=10**6), "`Executor(..., max_workers=4096)`"),
        (WorkersStats(workers=4, most=4, needed=3), "enough workers"),
    ],
)
def test_the_advice(workers, told):
    assert told in advice(workers)
