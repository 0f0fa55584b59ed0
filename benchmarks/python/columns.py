# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows of tables as batches of tensors: Parquet files beside pyarrow's bare reader, Hugging Face datasets beside torch,
lists of varying length beside slices of pyarrow.

    python benchmarks/python/columns.py [--quick] [--json FILE]

The files lie in the page cache. All sides run in this process, in turn and then again in the opposite order, with one
intra-op thread. benchmarks/README.md says what each series does.
"""

import argparse
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import datasets
import machine
import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as parquet
import torch

import torch_distinput as tdi

FEATURES, BATCH, FILES, GROUP_ROWS = 20, 256, 4, 50_000
NAMES = [f"f{i}" for i in range(FEATURES)]
HF_ROWS, HF_LENGTH = 20_000, 32
IMAGES, IMAGE_SIDE = 2000, 64
LISTS, LONGEST_LIST = 100_000, 64


def write_files(folder: Path, rows: int) -> list[str]:
    generator = np.random.default_rng(0)
    files = []
    for i in range(FILES):
        count = rows // FILES
        columns = {name: generator.standard_normal(count, dtype=np.float32) for name in NAMES}
        columns["label"] = generator.integers(0, 2, count)
        files.append(str(folder / f"{i}.parquet"))
        parquet.write_table(pa.table(columns), files[-1], row_group_size=GROUP_ROWS)
    return files


class BatchesOfPyarrow(torch.utils.data.IterableDataset):
    """What people write: pyarrow cuts the batches, numpy stacks the columns."""

    def __init__(self, files: list[str]):
        self.files = files

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for name in self.files:
            for batch in parquet.ParquetFile(name).iter_batches(BATCH):
                x = np.stack([batch.column(name).to_numpy() for name in NAMES], axis=1)
                yield {"label": torch.from_numpy(batch.column("label").to_numpy().copy()), "x": torch.from_numpy(x)}


def bare_reader(files: list[str]) -> Iterator[int]:
    """Row groups as columns of numpy, without batches; one thread."""
    for name in files:
        file = parquet.ParquetFile(name)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False)
            yield sum(len(column.to_numpy()) for column in table.columns)


def parquet_series(files: list[str]) -> dict[str, Callable[[], Iterable]]:
    def rows() -> tdi.Dataset:  # made anew for each epoch, because a dataset keeps blocks that it has read
        return tdi.ParquetDataset(files, stack={"x": NAMES})

    return {
        "limit": lambda: bare_reader(files),
        "torch_distinput": lambda: rows().batch(BATCH),
        "torch_distinput shuffled": lambda: rows().shuffle(GROUP_ROWS, seed=1).batch(BATCH),
        "pyarrow in an IterableDataset": lambda: torch.utils.data.DataLoader(BatchesOfPyarrow(files), batch_size=None),
    }


def hf_series() -> dict[str, Callable[[], Iterable]]:
    generator = np.random.default_rng(0)
    ids = pa.array(list(generator.integers(0, 1000, (HF_ROWS, HF_LENGTH))))
    table = pa.table({"ids": ids, "label": generator.integers(0, 2, HF_ROWS)})
    rows = datasets.Dataset(datasets.table.InMemoryTable(table), fingerprint="rows").with_format("torch")
    loaders = {"torch_distinput": tdi.DataLoader(rows, BATCH), "torch": torch.utils.data.DataLoader(rows, BATCH)}
    mixed = rows.shuffle(seed=1)
    loaders["torch_distinput shuffled"] = tdi.DataLoader(mixed, BATCH)
    loaders["torch shuffled"] = torch.utils.data.DataLoader(mixed, BATCH)
    return {name: lambda loader=loader: loader for name, loader in loaders.items()}


def image_series() -> dict[str, Callable[[], Iterable]]:
    """JPEG images of one size."""
    generator = np.random.default_rng(0)
    rows = []
    for _ in range(IMAGES):
        coarse = generator.integers(0, 256, (IMAGE_SIDE // 8, IMAGE_SIDE // 8, 3)).astype(np.uint8)
        buffer = io.BytesIO()
        PIL.Image.fromarray(coarse).resize((IMAGE_SIDE, IMAGE_SIDE)).save(buffer, "JPEG", quality=90)
        rows.append({"bytes": buffer.getvalue(), "path": None})
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    columns = {"image": rows, "label": list(range(IMAGES))}
    images = datasets.Dataset.from_dict(columns, features=features).with_format("torch")
    loaders = {"torch_distinput": tdi.DataLoader(images, 64), "torch": torch.utils.data.DataLoader(images, 64)}
    return {name: lambda loader=loader: loader for name, loader in loaders.items()}


def list_series() -> dict[str, Callable[[], Iterable]]:
    """Lists of 0 to LONGEST_LIST - 1 numbers."""
    generator = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(generator.integers(0, LONGEST_LIST, LISTS))])
    items = generator.integers(0, 1000, offsets[-1])
    column = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(items))

    def slices() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for begin in range(0, LISTS, BATCH):
            part = column.slice(begin, BATCH)
            bounds = part.offsets.to_numpy()
            yield torch.from_numpy(part.flatten().to_numpy().copy()), torch.from_numpy(bounds - bounds[0])

    rows = tdi.Dataset.from_arrow(pa.table({"ids": column}))
    return {
        "pyarrow's slices": slices,
        "ragged_batch": lambda: rows.ragged_batch(BATCH),
        "ragged_batch shuffled": lambda: rows.shuffle(seed=1).ragged_batch(BATCH),
        "padded_batch": lambda: rows.padded_batch(BATCH),
        "padded_batch shuffled": lambda: rows.shuffle(seed=1).padded_batch(BATCH),
    }


def measure(series: dict[str, Callable[[], Iterable]], repeats: int) -> dict[str, list[float]]:
    """Milliseconds of an epoch, one for each repeat; a first epoch is not counted."""
    found: dict[str, list[float]] = {name: [] for name in series}
    for repeat in range(repeats + 1):
        for name in list(series)[:: 1 if repeat % 2 == 0 else -1]:
            start = time.perf_counter()
            for _ in series[name]():
                pass
            if repeat:
                found[name].append((time.perf_counter() - start) * 1e3)
    return found


def first_batch(folder: Path) -> dict[str, float]:
    """Milliseconds to the first batch of 100 small files."""
    files = []
    for i in range(100):
        files.append(str(folder / f"small{i}.parquet"))
        parquet.write_table(pa.table({"x": np.arange(1000.0)}), files[-1], row_group_size=250)
    found = []
    for _ in range(5):
        start = time.perf_counter()
        next(iter(tdi.ParquetDataset(files).batch(64)))
        found.append((time.perf_counter() - start) * 1e3)
    return {"ms": round(statistics.median(found), 2)}


def summary(found: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "ms_per_epoch": round(statistics.median(times), 3),
            "spread": round((max(times) - min(times)) / statistics.median(times), 3),
        }
        for name, times in found.items()
    }


def goal(what: str, value: float, least: float | None = None, most: float | None = None) -> dict:
    reached = value >= least if least is not None else value <= most
    return {"goal": what, "least": least, "most": most, "measured": round(value, 3), "reached": bool(reached)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows and repeats; not to quote")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, repeats = (200_000, 2) if options.quick else (1_000_000, 7)
    neighbours = machine.Neighbours()
    with tempfile.TemporaryDirectory() as folder:
        tables = summary(measure(parquet_series(write_files(Path(folder), rows)), repeats))
        first = first_batch(Path(folder))
    hf = summary(measure(hf_series(), repeats))
    images = summary(measure(image_series(), repeats))
    lists = summary(measure(list_series(), repeats))
    ours, limit = tables["torch_distinput"]["ms_per_epoch"], tables["limit"]["ms_per_epoch"]
    times = hf["torch"]["ms_per_epoch"] / hf["torch_distinput"]["ms_per_epoch"]
    report = {
        "machine": machine.describe(("torch", "pyarrow", "datasets", "numpy")),
        "others_cores": round(neighbours.cores(), 3),
        "parquet": {
            "rows": rows,
            "columns": FEATURES + 1,
            "batch": BATCH,
            "series": tables,
            "first_batch_100_files": first,
        },
        "hugging_face": {"rows": HF_ROWS, "batch": BATCH, "series": hf},
        "images": {"rows": IMAGES, "side": IMAGE_SIDE, "batch": 64, "series": images},
        "lists": {"rows": LISTS, "longest": LONGEST_LIST - 1, "batch": BATCH, "series": lists},
        "goals": [
            goal("parquet: times the bare column reader", ours / limit, most=3),
            goal("hugging face: times as fast as torch's DataLoader", times, least=20),
        ],
    }
    for part in ("parquet", "hugging_face", "images", "lists"):
        print(f"\n{part}, ms an epoch")
        for name, one in report[part]["series"].items():
            print(f"  {name:32}{one['ms_per_epoch']:10.1f}  spread {one['spread']:.0%}")
    print(f"\nfirst batch of 100 files: {first['ms']} ms; others used {report['others_cores']:.2f} cores")
    for one in report["goals"]:
        print(one)
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
