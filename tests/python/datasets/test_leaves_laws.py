# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Laws of rows that are not dense: no row is lost when they are regrouped, split or resumed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.distribute._input_options import TAILS

TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=4), min_size=1, max_size=12)
LISTS = st.lists(st.lists(st.integers(-9, 9), max_size=3), min_size=1, max_size=12)
VECTORS = st.lists(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=3, max_size=3), min_size=1, max_size=12)


def jagged(rows):
    offsets = torch.tensor([0, *(len(row) for row in rows)]).cumsum(0)
    values = torch.tensor([item for row in rows for item in row], dtype=torch.int64)
    return torch.nested.nested_tensor_from_jagged(values, offsets)


class Kind:
    """One kind of rows: how they get into a pipeline, are batched, and are read back as plain lists."""

    def __init__(self, name, values):
        self.name, self.values = name, values

    def __repr__(self):
        return f"{self.name}({self.values})"

    def rows(self) -> tdi.Dataset:
        columns = {"text": list, "bytes": lambda texts: [text.encode() for text in texts], "ragged": jagged}
        columns["sparse"] = lambda rows: torch.tensor(rows).to_sparse()
        column = columns[self.name](self.values)
        return tdi.Dataset.from_tensor_slices({"x": column, "id": torch.arange(len(self.values))})

    def batches(self, size) -> tdi.Dataset:
        rows = self.rows()
        return rows.ragged_batch(size) if self.name == "ragged" else rows.batch(size)

    def read(self, batch) -> list:
        if self.name == "bytes":
            return [text.decode() for text in batch]
        if self.name == "ragged":
            return [row.tolist() for row in batch.unbind()] if batch.shape[0] else []
        return batch.to_dense().tolist() if self.name == "sparse" else batch

    def row(self, value) -> object:
        if self.name in ("text", "bytes"):
            return self.read([value])[0]
        return value.to_dense().tolist()


KINDS = st.one_of(
    st.builds(Kind, st.sampled_from(["text", "bytes"]), TEXTS),
    st.builds(Kind, st.just("ragged"), LISTS),
    st.builds(Kind, st.just("sparse"), VECTORS),
)
SIZES = st.integers(1, 5)


@given(KINDS, SIZES)
def test_batches_and_unbatched_rows_are_the_rows(kind, size):
    assert [kind.row(row["x"]) for row in kind.rows()] == kind.values
    batches = [kind.read(batch["x"]) for batch in kind.batches(size)]
    assert batches == [kind.values[start : start + size] for start in range(0, len(kind.values), size)]
    assert [kind.row(row["x"]) for row in kind.batches(size).unbatch()] == kind.values


@given(KINDS, SIZES, st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any))
def test_rebatching_keeps_every_row(kind, size, sizes):
    got = [row for batch in kind.batches(size).rebatch(sizes) for row in kind.read(batch["x"])]
    assert got == kind.values


@given(KINDS, SIZES, st.integers(1, 4), st.sampled_from(["tf", "balanced"]), st.booleans())
def test_every_row_reaches_one_replica_once(kind, size, replicas, split, shuffled):
    dataset = kind.rows().shuffle(seed=3) if shuffled else kind.rows()
    dataset = dataset.ragged_batch(size) if kind.name == "ragged" else dataset.batch(size)
    strategy = tdi.MirroredStrategy(["cpu"] * replicas)
    seen = {}
    for step in strategy.distribute_dataset(dataset, tdi.InputOptions(split=split)):
        for replica in range(replicas):
            part = {key: strategy.local_results(value)[replica] for key, value in step.items()}
            ids, values = part["id"].tolist(), kind.read(part["x"])
            assert len(ids) == len(values)
            assert not seen.keys() & ids
            seen.update(zip(ids, values))
    assert [seen[i] for i in range(len(kind.values))] == kind.values


@given(KINDS, SIZES, st.booleans())
def test_every_position_can_be_resumed_in_both_paths(kind, size, shuffled):
    rows = kind.rows().shuffle(seed=5) if shuffled else kind.rows()
    batches = rows.ragged_batch(size) if kind.name == "ragged" else rows.batch(size)
    tdi.testing.assert_resumable(batches.rebatch([2, 1]))
    tdi.testing.assert_resumable(batches.cache())
    tdi.testing.assert_paths_agree(batches)


@given(KINDS, SIZES, st.integers(1, 3), st.data())
def test_a_restart_on_other_replicas_delivers_the_rest(kind, size, replicas, data):
    dataset = kind.batches(size)
    first = iter(tdi.MirroredStrategy(["cpu"] * replicas).distribute_dataset(dataset))
    taken = data.draw(st.integers(0, 3))
    got = [value for _ in range(taken) for value in values_of(kind, next(first, None))]
    others = tdi.MirroredStrategy(["cpu"] * data.draw(st.integers(1, 3)))
    second = iter(others.distribute_dataset(dataset))
    second.load_state_dict(first.state_dict())
    got += [value for step in second for value in values_of(kind, step)]
    assert sorted(map(repr, got)) == sorted(map(repr, kind.values))


def values_of(kind, step) -> list:
    if step is None:
        return []
    parts = step["x"].values if isinstance(step["x"], tdi.PerReplica) else [step["x"]]
    return [row for part in parts for row in kind.read(part)]


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("name", ["text", "ragged", "sparse"])
def test_every_tail_assigns_rows_of_every_kind(name, tail):
    values = {"text": list("abcde"), "ragged": [[1], [], [2, 3], [4], [5]], "sparse": [[i, 0] for i in range(5)]}
    kind = Kind(name, values[name])
    strategy = tdi.MirroredStrategy(["cpu"] * 2)
    for step in strategy.distribute_dataset(kind.batches(4), tdi.InputOptions(tail=tail, split="balanced")):
        for ids, part in zip(step["id"].values, step["x"].values):
            assert kind.read(part) == [kind.values[i] for i in ids.tolist()]
