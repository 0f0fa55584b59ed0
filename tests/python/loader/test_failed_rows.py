# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows of a dataset in Python that fail: errors name the row, and `on_error="skip"` leaves out exactly the bad ones."""

import logging
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi

SIZE = 23


class Broken(torch.utils.data.Dataset):
    """Rows, of which those in `bad` raise."""

    def __init__(self, bad, size=SIZE, batched=False):
        self.bad, self.size = frozenset(bad), size
        if batched:
            self.__getitems__ = self._rows

    def _rows(self, indices):
        return [self[index] for index in indices]

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index in self.bad:
            raise ValueError(f"broken {index}\nand more")
        return torch.tensor(index), f"text {index}"


def told(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
@pytest.mark.parametrize("workers", [0, 2])
@given(bad=st.integers(0, SIZE - 1), batch_size=st.sampled_from([None, 1, 4, 30]), shuffle=st.booleans())
@settings(max_examples=8)
def test_each_error_names_its_row(workers, bad, batch_size, shuffle):
    loader = tdi.DataLoader(Broken({bad}), batch_size=batch_size, shuffle=shuffle, num_workers=workers)
    with pytest.raises(ValueError, match=f"broken {bad}") as raised:
        list(loader)
    assert f"raised by row {bad} of Broken" in told(raised.value)


def refuse(samples):
    raise KeyError(len(samples))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_whole_batches_name_their_rows(workers):
    with pytest.raises(ValueError, match="broken 5") as raised:
        list(tdi.DataLoader(Broken({5}, batched=True), batch_size=4, num_workers=workers))
    assert "raised by `__getitems__` of Broken for rows 4, 5, 6, 7" in told(raised.value)
    with pytest.raises(KeyError) as raised:
        list(tdi.DataLoader(Broken({}), batch_size=10, num_workers=workers, collate_fn=refuse))
    assert "raised by `collate_fn` for rows 0, 1, 2, 3, 4, 5, 6, 7 and 2 more of Broken" in told(raised.value)


def left(batches, bad):
    return [rows for rows in ([row for row in batch if row not in bad] for batch in batches) if rows]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batched", [False, True])
@given(
    bad=st.sets(st.integers(0, SIZE - 1)),
    batch_size=st.integers(1, 7),
    drop_last=st.booleans(),
    stop=st.integers(0, 30),
)
@settings(max_examples=8)
def test_exactly_the_bad_rows_are_left_out(workers, batched, bad, batch_size, drop_last, stop):
    """Also where the epoch is continued from a state."""

    def loader(on_error="skip", bad=bad):
        dataset = Broken(bad, batched=batched)
        return tdi.DataLoader(
            dataset, batch_size, shuffle=True, num_workers=workers, drop_last=drop_last, on_error=on_error
        )

    torch.manual_seed(3)
    whole = [rows.tolist() for rows, _ in loader("raise", bad=())]
    torch.manual_seed(3)
    first, second = loader(), loader()
    found = []
    for rows, texts in first:
        found.append(rows.tolist())
        assert list(texts) == [f"text {row}" for row in found[-1]]
        if len(found) > stop:
            break
    second.load_state_dict(first.state_dict())
    if found and len(found) > stop:
        found += [rows.tolist() for rows, _ in second]
        assert first.skipped == second.skipped[: len(first.skipped)]
        first = second
    assert found == left(whole, bad)
    assert first.skipped == [row for batch in whole for row in batch if row in bad]


def test_rows_of_a_dataset_of_whole_batches_are_asked_for_one_by_one():
    class Batches(Broken):
        def __getitem__(self, index):
            raise NotImplementedError

        def __getitems__(self, indices):
            return [Broken.__getitem__(self, index) for index in indices]

    loader = tdi.DataLoader(Batches({2, 5}, size=7), batch_size=3, on_error="skip")
    assert [rows.tolist() for rows, _ in loader] == [[0, 1], [3, 4], [6]] and loader.skipped == [2, 5]


def test_single_rows_are_left_out():
    loader = tdi.DataLoader(Broken({0, 3}, size=5), batch_size=None, on_error="skip")
    assert [int(row) for row, _ in loader] == [1, 2, 4] and loader.skipped == [0, 3]


def test_rows_that_are_left_out_are_logged_and_counted_by_epoch(caplog):
    loader = tdi.DataLoader(Broken({4, 9}), batch_size=5, on_error="skip")
    with caplog.at_level(logging.WARNING, "torch_distinput"):
        assert len(list(loader)) == len(list(loader)) == 5
    assert loader.skipped == [4, 9]
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [f"DataLoader: left out row {row} of Broken: ValueError: broken {row}" for row in (4, 9, 4, 9)]


@pytest.mark.parametrize("workers", [0, 2])
def test_one_more_row_than_allowed_is_an_error(workers):
    loader = tdi.DataLoader(Broken({1, 8, 15}), batch_size=5, num_workers=workers, on_error="skip", max_errors=3)
    assert len(list(loader)) == 5
    loader = tdi.DataLoader(Broken({1, 8, 15}), batch_size=5, num_workers=workers, on_error="skip", max_errors=2)
    with pytest.raises(
        RuntimeError, match=r"3 rows of this epoch failed.*`max_errors=2`.*row 15 of Broken: ValueError"
    ):
        list(loader)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"on_error": "ignore"}, '"raise" or "skip", but is \'ignore\''),
        ({"max_errors": 3}, 'needs `on_error="skip"`'),
        ({"on_error": "skip", "max_errors": -1}, "max_errors"),
        ({"on_error": "skip", "distributed": True, "tail": "repeat"}, "that repeats none, but the tail is 'repeat'"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        tdi.DataLoader(Broken({}), **arguments)


@pytest.mark.parametrize("dataset", [tdi.Dataset.range(3), torch.utils.data.ChainDataset([])])
def test_streams_and_pipelines_are_refused(dataset):
    with pytest.raises(ValueError, match='`on_error="skip"`'):
        tdi.DataLoader(dataset, batch_size=2, on_error="skip")


def test_a_state_with_wrong_failures_is_refused():
    loader = tdi.DataLoader(Broken({1}), batch_size=5, on_error="skip")
    next(iter(loader))
    state = loader.state_dict()
    (name,) = state
    state[name]["failed"] = {"rows": [1], "of_all_ranks": 0}
    with pytest.raises(ValueError, match="load_state_dict: `failed` must be None or the rows that were left out"):
        loader.load_state_dict(state)
