# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The log of steps has the rows of each, in at most 16 bytes a step, and forgets what is oldest."""

from hypothesis import given
from hypothesis import strategies as st

from torch_distinput.loader.state._step_log import StepLog, StepLogs

ROWS = st.lists(st.sampled_from([0, 1, 4, 4, 4, 7]), min_size=1, max_size=40)


def expected(rows, first_step, first_row):
    result = {}
    for step, count in enumerate(rows, first_step):
        result[step] = range(first_row, first_row + count)
        first_row += count
    return result


@given(ROWS, st.integers(0, 5), st.integers(0, 100))
def test_each_step_has_the_rows_after_those_of_the_one_before(rows, first_step, first_row):
    log = StepLog(first_step, first_row, None)
    for count in rows:
        log.add(count)
    wanted = expected(rows, first_step, first_row)
    assert (log.first_step, log.next_step) == (first_step, first_step + len(rows))
    assert {step: log.rows(step) for step in wanted} == wanted
    assert log.entries <= len(rows)


def test_equal_steps_need_no_memory():
    log = StepLog(0, 0, None)
    for _ in range(1000):
        log.add(8)
    log.add(3)
    assert log.entries == 2 and log.rows(999) == range(7992, 8000) and log.rows(1000) == range(8000, 8003)


@given(st.lists(ROWS, min_size=1, max_size=12), st.integers(8, 40))
def test_the_oldest_is_forgotten_and_what_is_known_stays_right(epochs, most):
    logs = StepLogs(most)
    for epoch, rows in enumerate(epochs):
        log = logs.begin(epoch, 0, 0)
        for count in rows:
            logs.add(log, count)
            of_all = [found for e in range(len(epochs)) if (found := logs.of_epoch(e)) is not None]
            assert sum(found.entries for found in of_all) <= most + len(of_all)
    for epoch, rows in enumerate(epochs):
        known, wanted = logs.of_epoch(epoch), expected(rows, 0, 0)
        assert known is not None and known.next_step == len(rows)
        assert all(known.rows(step) == wanted[step] for step in range(known.first_step, known.next_step))
    assert logs.of_epoch(len(epochs) - 1).first_step < len(epochs[-1])


def test_an_epoch_that_begins_again_replaces_its_log():
    logs = StepLogs()
    stale = logs.begin(0, 0, 0)
    logs.add(stale, 4)
    fresh = logs.begin(0, 2, 9)
    logs.add(stale, 4)
    logs.add(fresh, 1)
    assert logs.of_epoch(0) is fresh and fresh.rows(2) == range(9, 10)
