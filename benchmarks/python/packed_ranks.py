# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What each rank reads of a packed mixture: the bytes of its own rows, or those of all rows.

    python benchmarks/python/packed_ranks.py --json benchmarks/results/packed_ranks.json

Two corpora in Megatron's files are mixed 0.7 : 0.3, packed to rows of 2,049 tokens and read once by 2 to 8 processes,
which are started for each size of job. Bytes are those that system calls of a process returned (`rchar` of
/proc/self/io) between its first batch and the end of the epoch, divided by all tokens' bytes of the same rows. `in
sequence` packs in sequence, which is all that there was before rows of packs had random access.
"""

import argparse
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine
import numpy as np
import torch
import torch.distributed as dist

import torch_distinput as tdi

SIZES = (2, 3, 4, 5, 6, 7, 8)
LENGTH, BATCH = 2049, 8
DOCUMENTS = {"web": 30_000, "books": 12_000}
SERIES = ("greedy", "greedy, rows shuffled", "best_fit", "in sequence")


def write_corpus(path: Path, documents: int, seed: int) -> None:
    """Documents of 500 tokens on average, as `path`.bin and `path`.idx."""
    sizes = np.random.default_rng(seed).geometric(1 / 500, documents)
    np.random.default_rng(seed).integers(0, 50304, sizes.sum()).astype(np.uint16).tofile(path.with_suffix(".bin"))
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, documents, documents + 1)
    begins = 2 * np.concatenate([[0], np.cumsum(sizes)])[:-1]
    index = [sizes.astype("<i4"), begins.astype("<i8"), np.arange(documents + 1, dtype="<i8")]
    path.with_suffix(".idx").write_bytes(head + b"".join(part.tobytes() for part in index))


def packed(folder: Path, series: str) -> tdi.Dataset:
    corpora = [tdi.TokenDataset(folder / f"{name}.idx", None, None).shuffle(seed=1) for name in DOCUMENTS]
    documents = tdi.Dataset.sample_from_datasets(corpora, [0.7, 0.3], seed=2)
    if series == "in sequence":
        return documents.filter(lambda document: True).pack(LENGTH)  # a filter takes away random access
    rows = documents.pack(LENGTH, strategy="best_fit" if series == "best_fit" else "greedy")
    return rows.shuffle(seed=3) if series.endswith("shuffled") else rows


def bytes_read() -> int:
    return int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["rchar"])


def read_epoch(folder: Path, series: str) -> dict[str, float]:
    """The rows of this rank after its first batch, and the bytes that it read for them."""
    dist.barrier()
    start = time.perf_counter()
    options = tdi.Options(prefetch=0)  # so that nothing of the counted rows is read with the first batch
    batches = iter(tdi.DataLoader(packed(folder, series).with_options(options), batch_size=BATCH, distributed=True))
    first = len(next(batches)["tokens"])
    before = bytes_read()
    rows = sum(len(batch["tokens"]) for batch in batches)
    read = bytes_read() - before
    return {"first_rows": first, "rows": rows, "bytes": read, "seconds": time.perf_counter() - start}


def run_rank(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mine = {series: read_epoch(folder, series) for series in SERIES}
    everyone: list = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    if dist.get_rank() == 0:
        print(json.dumps(everyone), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def run_job(size: int, folder: Path) -> list[dict]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    command = [sys.executable, __file__, "--rank-of", str(folder)]
    ranks = [
        subprocess.Popen(command, env={**os.environ, **job, "RANK": str(rank)}, stdout=subprocess.PIPE)
        for rank in range(size)
    ]
    outputs = [rank.communicate(timeout=600)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"a process of the job of {size} failed")
    return json.loads(outputs[0])


def summary(found: list[dict], stored: int) -> dict[str, float]:
    """Of the rank that read the most: its bytes as a part of those of all rows, and the same times the ranks."""
    rows = sum(rank["rows"] for rank in found)
    part = rows / (rows + sum(rank["first_rows"] for rank in found))
    most = max(rank["bytes"] for rank in found) / (stored * part)
    return {
        "most_of_all_bytes": round(most, 4),
        "times_ranks": round(most * len(found), 3),
        "seconds": round(max(rank["seconds"] for rank in found), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--rank-of", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank_of:
        return run_rank(arguments.rank_of)
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, documents) in enumerate(DOCUMENTS.items()):
            write_corpus(Path(folder) / name, documents, number)
        stored = sum((Path(folder) / f"{name}.bin").stat().st_size for name in DOCUMENTS)
        results: dict = {series: {} for series in SERIES}
        for size in SIZES:
            ranks = run_job(size, Path(folder))
            for series in SERIES:
                results[series][size] = summary([rank[series] for rank in ranks], stored)
                print(f"{size} ranks, {series:22} {results[series][size]}", flush=True)
    if arguments.json:
        content = {**machine.describe(("torch", "numpy")), "token_bytes": stored, "ranks": results}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
