# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Columns of Hugging Face datasets that native code copies: the batches of torch's DataLoader, or a reason why not."""

import gc

import pytest
import torch

import torch_distinput as tdi

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")

ROWS = 23
COLUMNS = {
    "i8": pa.array(range(ROWS), pa.int8()),
    "i64": pa.array(range(ROWS), pa.int64()),
    "f16": pa.array(range(ROWS)).cast(pa.float16()),
    "f64": pa.array([row / 3 for row in range(ROWS)]),
    "b": pa.array([row % 3 == 0 for row in range(ROWS)]),
    "s": pa.array([f"row {row}" for row in range(ROWS)]),
    "l": pa.array([[row, row + 1] for row in range(ROWS)], pa.list_(pa.int32())),
    "m": pa.array([[[row / 2], [1.0]] for row in range(ROWS)], pa.list_(pa.list_(pa.float64(), 1), 2)),
}


def make(*names, **more):
    table = pa.table({**{name: COLUMNS[name] for name in names}, **more})
    batches = pa.Table.from_batches(table.to_batches(max_chunksize=5))
    return datasets.Dataset(datasets.table.InMemoryTable(batches), fingerprint="-".join([*names, *more]))


def assert_same(ours, theirs):
    for here, there in zip(ours, theirs, strict=True):
        assert list(here) == list(there)
        for name, value in here.items():
            assert type(value) is type(there[name])
            if isinstance(value, torch.Tensor):
                assert value.dtype == there[name].dtype and torch.equal(value, there[name])
            else:
                assert value == there[name]


VIEWS = {
    "whole": lambda ds: ds,
    "shuffled": lambda ds: ds.shuffle(seed=3),
    "chosen": lambda ds: ds.select([3, 1, 1, 20]),
    "a range": lambda ds: ds.select(range(2, 9)),
    "a shard": lambda ds: ds.shard(3, 1),
    "a part of torch": lambda ds: torch.utils.data.Subset(ds, [5, 4, 3, 3]),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("torch", ["i8", "i64", "f16", "f64", "b", "s", "l", "m"]),
        ("numpy", ["i8", "f64", "b", "l"]),
        (None, ["i8", "i64", "f64", "b", "s"]),
    ],
)
def test_batches_are_those_of_torchs_loader(kind, names, view):
    dataset = VIEWS[view](make(*names).with_format(kind))
    loader = tdi.DataLoader(dataset, 4)
    assert loader.explain().startswith("path: native")
    for _ in range(2):
        assert_same(loader, torch.utils.data.DataLoader(dataset, 4))


def test_chosen_columns_of_a_format_come_alone():
    dataset = make("i8", "s", "l").with_format("torch", columns=["l", "i8"])
    assert tdi.DataLoader(dataset, 4).explain().startswith("path: native")
    assert_same(tdi.DataLoader(dataset, 4), torch.utils.data.DataLoader(dataset, 4))


def test_a_sampler_of_indices_and_a_state_work():
    dataset = make("i64", "s").with_format("torch")
    sampler = [5, 3, 22, 0, 3]
    assert_same(tdi.DataLoader(dataset, 2, sampler=sampler), torch.utils.data.DataLoader(dataset, 2, sampler=sampler))
    loader, again = (tdi.DataLoader(dataset, 4, shuffle=True, seed=5) for _ in range(2))
    whole = [batch["i64"].tolist() for batch in loader]
    assert sorted(sum(whole, [])) == list(range(ROWS))
    loader.set_epoch(0)
    iterator = iter(loader)
    next(iterator)
    again.load_state_dict(loader.state_dict())
    assert [batch["i64"].tolist() for batch in again] == whole[1:]


def test_another_format_shows_in_the_next_batch():
    dataset = make("i8", "f64").with_format("torch")
    iterator, torchs = iter(tdi.DataLoader(dataset, 4)), iter(torch.utils.data.DataLoader(dataset, 4))
    assert_same([next(iterator)], [next(torchs)])
    dataset.set_format(None)
    assert_same([next(iterator)], [next(torchs)])
    dataset.set_format("torch", columns=["i8"])
    assert_same(iterator, torchs)


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (make("i8", n=[None, *range(ROWS - 1)]).with_format("torch"), "column 'n' has nulls"),
        (make(v=[[0] * (row % 2) for row in range(ROWS)]).with_format("torch"), "column 'v' has lists of 0 to 1 items"),
        (make("i8", "l"), "column 'l' has lists, of which torch makes one tensor for each item"),
        (make("s").with_format("numpy"), "column 's' becomes something else"),
        (make(u=pa.array(range(ROWS), pa.uint64())).with_format("torch"), "column 'u' is of type uint64"),
        (make(t=pa.array([0] * ROWS, pa.timestamp("s"))).with_format("torch"), "column 't' is of type timestamp[s]"),
        (make("i8").with_format("arrow"), "format is 'arrow'"),
        (make("i8").with_transform(lambda batch: batch), "format is 'custom'"),
        (make("i8").with_format("torch", dtype=torch.int32), "arguments of its own"),
        (make("i8", "s").with_format("torch", columns=["i8"], output_all_columns=True), "output_all_columns"),
        (make("i8").with_format("torch").select([]), "no rows"),
    ],
)
def test_explain_names_what_keeps_rows_in_python(dataset, reason):
    report = tdi.DataLoader(dataset, 4).explain()
    assert not report.startswith("path: native") and reason in report


def test_columns_that_the_package_decodes_stay_in_python():
    pytest.importorskip("PIL")
    images = [{"bytes": b"", "path": None}]
    features = datasets.Features({"images": datasets.List(datasets.Image())})
    dataset = datasets.Dataset.from_dict({"images": [images]}, features=features).with_format("torch")
    assert "column 'images' is decoded by the package" in tdi.DataLoader(dataset, 1).explain()


def test_a_subclass_may_override_anything():
    class Other(datasets.Dataset):
        pass

    dataset = make("i8").with_format("torch")
    assert "rows of a Other are made by Python" in tdi.DataLoader(Other(dataset.data), 4).explain()


def test_from_torch_and_from_arrow_read_columns():
    dataset = make("i8", "s", "l").with_format("torch").shuffle(seed=1)
    rows = [{"i8": int(row["i8"]), "s": row["s"], "l": row["l"].tolist()} for row in dataset]
    for native in (tdi.Dataset.from_torch(dataset), tdi.Dataset.from_arrow(dataset)):
        assert "from_arrow" in str(native.explain())
        assert [{"i8": int(row["i8"]), "s": row["s"], "l": row["l"].tolist()} for row in native] == rows
    assert tdi.Dataset.from_torch(dataset).element_spec["i8"] == tdi.TensorSpec([], torch.int64)
    assert tdi.Dataset.from_arrow(dataset).element_spec["i8"] == tdi.TensorSpec([], torch.int8)


def test_a_loader_keeps_the_table_and_lets_go_of_it():
    before = pa.total_allocated_bytes()
    numbers = pa.array(range(200_000))
    dataset = datasets.Dataset(datasets.table.InMemoryTable(pa.table({"n": numbers})), fingerprint="n").with_format(
        "torch"
    )
    del numbers
    loader = tdi.DataLoader(dataset, 50_000)
    iterator = iter(loader)
    first = next(iterator)
    del dataset, loader
    assert sum(int(batch["n"].sum()) for batch in [first, *iterator]) == sum(range(200_000))
    del iterator
    gc.collect()
    assert pa.total_allocated_bytes() < before + 100_000


def test_a_column_of_tokens_is_documents():
    lists = [[row] * (row % 4) for row in range(ROWS)]
    dataset = make(ids=pa.array(lists, pa.list_(pa.int32()))).shuffle(seed=2)
    documents = tdi.TokenDataset.from_tokens(dataset["ids"], None)
    assert [row.tolist() for row in documents] == dataset["ids"][:] != lists
    packed = documents.pack(5)
    assert [token for row in packed for token in row["tokens"].tolist()][: sum(map(len, lists))] == sum(
        dataset["ids"], []
    )
    tdi.testing.assert_resumable(packed)
    windows = tdi.TokenDataset.from_tokens(dataset["ids"], 4).shuffle(seed=1).batch(3)
    assert sorted(sum((x.tolist() for x, _ in windows), [])) == sorted(
        sum(dataset["ids"], [])[i : i + 4] for i in range(0, sum(map(len, lists)) - 4, 4)
    )
