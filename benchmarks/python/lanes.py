# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What does a shuffle of blocks cost beside reading in order, and how often is a block downloaded by a cluster?

    python benchmarks/python/lanes.py --json benchmarks/results/lanes.json

`epochs`: files of 256 MiB in the page cache, rows of several sizes, batches of 1 MiB (256 rows at most);
`shuffle(blocks=2)` beside the same rows in order. Sides run in turn; ratios are medians of the rounds' ratios, of
speeds and of processor time, which says more where other programs use the machine.
`tables`: the same for Parquet as pyarrow writes it by default (compressed), with several columns, in batches of 256
rows, opened anew for each epoch, so that each reads and decodes all of it.
`downloads`: how many nodes read a block in an epoch, counted over the rows that each rank gets, beside the formula
1 + (nodes - 1) / lanes; a node keeps what it has read, so that this is how often a block is downloaded.
"""

import argparse
import json
import re
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import machine
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from remote import Sample, in_turn, medians, ratio, timed

import torch_distinput as tdi
from torch_distinput import _C

FILE_BYTES = 256 << 20
GROUP_BYTES = 1 << 20
BATCH_BYTES = 1 << 20
ROW_BYTES = (100, 1_000, 10_000, 100_000)

BLOCKS, ROWS_A_BLOCK, BATCH = 1_024, 128, 1_024
NODES = (1, 2, 4, 7, 16, 48)
RANKS_A_NODE = (1, 8)

Order = Callable[[tdi.Dataset], tdi.Dataset]
ORDERS: dict[str, Order] = {
    "in order": lambda rows: rows,
    "blocks": lambda rows: rows.shuffle(seed=1, blocks=2),
}


def write_parquet(path: Path, row: int) -> tdi.Dataset:
    """Rows of random bytes of one size, in row groups of 1 MiB."""
    type_ = pa.binary(row)
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    with parquet.ParquetWriter(path, pa.schema([("x", type_)]), **options) as writer:
        count, left = max(1, GROUP_BYTES // row), FILE_BYTES // row
        while left > 0:
            rows = min(count, left)
            data = np.random.default_rng(left).bytes(rows * row)
            array = pa.Array.from_buffers(type_, rows, [None, pa.py_buffer(data)])
            writer.write_table(pa.table({"x": array}), row_group_size=rows)
            left -= rows
    return tdi.ParquetDataset(path)


def write_records(path: Path, row: int) -> tdi.Dataset:
    """TFRecords of random bytes of one size."""
    with tdi.TFRecordWriter(path) as writer:
        random = np.random.default_rng(row)
        for _ in range(FILE_BYTES // row):
            writer.write(random.bytes(row))
    return tdi.TFRecordDataset(path)


FORMATS: dict[str, Callable[[Path, int], tdi.Dataset]] = {"Parquet": write_parquet, "TFRecord": write_records}


def epochs(folder: Path, rounds: int) -> dict:
    """GB of rows a second in each order, by format and size of row."""
    found: dict[str, dict] = {}
    for name, write in FORMATS.items():
        for row in ROW_BYTES:
            path = folder / f"{name}-{row}"
            rows = write(path, row)
            batch = max(1, min(256, BATCH_BYTES // row))

            def epoch(order: Order, rows: tdi.Dataset = rows, batch: int = batch, row: int = row) -> Sample:
                size = "x" if isinstance(rows.element_spec, dict) else None
                batches = order(rows).batch(batch)
                return timed(lambda: row * sum(len(one[size] if size else one) for one in batches))

            samples = in_turn({side: partial(epoch, order) for side, order in ORDERS.items()}, rounds)
            found[f"{name}, rows of {row} B"] = {
                "series": medians(samples),
                "blocks_of_in_order": ratio(samples, "GB_per_s", "blocks", "in order"),
                "blocks_of_in_order_by_cpu": ratio(samples, "cpu_s_per_GB", "in order", "blocks"),
            }
            print(f"{name}, rows of {row} B", json.dumps(found[f"{name}, rows of {row} B"]), flush=True)
            path.unlink()
    return found


def _numbers(random: np.random.Generator) -> tuple[pa.Table, int]:
    return pa.table({f"c{i}": random.standard_normal(5_000_000, np.float32) for i in range(20)}), 20_000


def _texts(random: np.random.Generator) -> tuple[pa.Table, int]:
    words = np.array([random.bytes(random.integers(1, 6)).hex()[1:] for _ in range(5_000)])
    texts = [" ".join(words[random.zipf(1.3, 200) % len(words)]) for _ in range(300_000)]
    return pa.table({"text": texts, "id": np.arange(len(texts))}), 500


def _pictures(random: np.random.Generator) -> tuple[pa.Table, int]:
    sizes = random.integers(20_000, 60_000, 10_000).tolist()
    pictures = pa.array([random.bytes(size) for size in sizes], pa.binary())
    return pa.table({"picture": pictures, "label": random.integers(0, 1_000, len(sizes))}), 25


TABLES: dict[str, Callable[[np.random.Generator], tuple[pa.Table, int]]] = {
    "20 columns of numbers": _numbers,
    "texts of 200 words": _texts,
    "pictures of 20 to 60 kB": _pictures,
}


def tables(folder: Path, rounds: int) -> dict:
    """GB of decoded rows a second in each order."""
    found: dict[str, dict] = {}
    for name, make in TABLES.items():
        path = folder / "table.parquet"
        table, group = make(np.random.default_rng(7))
        parquet.write_table(table, path, row_group_size=group)
        row = table.nbytes / table.num_rows
        del table
        counted = next(iter(tdi.ParquetDataset(path).element_spec))

        def read(order: Order, path: Path = path, counted: str = counted, row: float = row) -> int:
            batches = order(tdi.ParquetDataset(path)).batch(256)
            return int(row * sum(len(batch[counted]) for batch in batches))

        def epoch(order: Order, read: Callable[[Order], int] = read) -> Sample:
            return timed(partial(read, order))

        samples = in_turn({side: partial(epoch, order) for side, order in ORDERS.items()}, rounds)
        found[name] = {
            "row_bytes": round(row),
            "file_bytes": path.stat().st_size,
            "series": medians(samples),
            "blocks_of_in_order": ratio(samples, "GB_per_s", "blocks", "in order"),
            "blocks_of_in_order_by_cpu": ratio(samples, "cpu_s_per_GB", "in order", "blocks"),
        }
        print(name, json.dumps(found[name]), flush=True)
        path.unlink()
    return found


def _readers(rows: tdi.Dataset, split: str, nodes: int, ranks_a_node: int) -> float:
    """By how many nodes a block is read in an epoch, on average."""
    batches = rows.batch(BATCH)
    order = np.concatenate([batch["i"].numpy() for batch in batches._native.iterate(epoch=0)]) // ROWS_A_BLOCK
    ranks = nodes * ranks_a_node
    assigned = _C.StepRows(batches._native, ranks, _C.InputOptions(split=split))
    read: list[set[int]] = [set() for _ in range(nodes)]
    for step in range(assigned.num_steps):
        for rank in range(ranks):
            read[rank // ranks_a_node].update(order[np.asarray(assigned.rows(step, rank), np.int64)].tolist())
    return sum(map(len, read)) / BLOCKS


def downloads(folder: Path) -> dict:
    """Downloads of a block a cluster, by the number of nodes."""
    path = folder / "numbers.parquet"
    parquet.write_table(pa.table({"i": range(BLOCKS * ROWS_A_BLOCK)}), path, row_group_size=ROWS_A_BLOCK)
    rows = tdi.ParquetDataset(path)
    by_lanes = rows.shuffle(seed=3, blocks=2)
    told = re.search(r"in (\d+) lanes", str(by_lanes.explain()))
    assert told is not None
    lanes = int(told.group(1))
    found = {}
    for nodes in NODES:
        found[nodes] = {"formula": round(1 + (nodes - 1) / lanes, 3)}
        for ranks in RANKS_A_NODE:
            found[nodes][f"lanes, {ranks} ranks a node"] = round(_readers(by_lanes, "lanes", nodes, ranks), 3)
        found[nodes]["blocks, balanced"] = round(_readers(by_lanes, "balanced", nodes, 1), 3)
        found[nodes]["full shuffle"] = round(_readers(rows.shuffle(seed=3), "balanced", nodes, 1), 3)
        print(f"{nodes} nodes:", found[nodes], flush=True)
    return {"blocks": BLOCKS, "lanes": lanes, "batch": BATCH, "by_nodes": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counted = downloads(folder)
        neighbours = machine.Neighbours()
        measured = epochs(folder, arguments.rounds)
        whole = tables(folder, arguments.rounds)
        system = round(neighbours.cores(), 2)
    if arguments.json:
        content = {
            **machine.describe(("torch", "numpy", "pyarrow")),
            "system_cores": system,
            "epochs": measured,
            "tables": whole,
            "downloads": counted,
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
