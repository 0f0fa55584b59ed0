# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows of 100 kB in shuffled order from a server, by this library and by others: `remote_rivals.py SYSTEM FOLDER`.

Started by remote.py, in the environment of the rivals. Each line of the standard input is the URL of a server; the
answer is a line of JSON: seconds of an epoch, and bytes. The first epoch is checked, row by row.

Whoever reads ranges knows the order of the epoch before it begins, and asks as far ahead as its guide offers: in
threads, or in coroutines. MosaicML streaming and litdata have the same rows in their own shards.
"""

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "peers"))

ROWS, ROW_BYTES, BATCH = 2000, 100_000, 32
BUCKET, HEADER = "bucket", 128
THREADS, COROUTINES, AHEAD = 16, 64, 128
KEY = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
KEY["AWS_ALLOW_HTTP"] = "true"  # litdata asks by obstore, which wants TLS otherwise

Batches = Iterable[torch.Tensor]
System = Callable[[str, int], Batches]


def write_rows(folder: Path) -> None:
    """Rows that begin with their number, in one array, and as objects."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = np.random.default_rng(5).integers(0, 256, (ROWS, ROW_BYTES), np.uint8)
    rows[:, :8] = np.arange(ROWS, dtype=np.uint64)[:, None].view(np.uint8)
    np.save(folder / "rows.npy", rows)
    (folder / "objects").mkdir()
    for number, row in enumerate(rows):
        (folder / "objects" / f"{number:05}").write_bytes(row.tobytes())


def order(seed: int) -> list[int]:
    return np.random.default_rng(seed).permutation(ROWS).tolist()


def place(row: int) -> tuple[int, int]:
    begin = HEADER + row * ROW_BYTES
    return begin, begin + ROW_BYTES


def batched(rows: Iterable) -> Batches:
    """Batches that one copy makes of buffers."""
    block, filled = np.empty((BATCH, ROW_BYTES), np.uint8), 0
    for row in rows:
        block[filled] = np.frombuffer(row, np.uint8)
        filled += 1
        if filled == BATCH:
            yield torch.from_numpy(block)
            block, filled = np.empty((BATCH, ROW_BYTES), np.uint8), 0
    if filled:
        yield torch.from_numpy(block[:filled])


def ahead(submit: Callable[[int], Future], items: Iterable, count: int) -> Iterator:
    """The results of `items` in order, with `count` of them under way."""
    running: deque[Future] = deque()
    for item in items:
        running.append(submit(item))
        if len(running) >= count:
            yield running.popleft().result()
    while running:
        yield running.popleft().result()


def in_threads(read: Callable[[int], object], seed: int, threads: int = THREADS) -> Batches:
    with ThreadPoolExecutor(threads) as pool:
        yield from batched(ahead(lambda row: pool.submit(read, row), order(seed), 2 * threads))


# This library


def ours(url: str, seed: int) -> Batches:
    import torch_distinput as tdi

    return tdi.NumpyDataset(f"{url}/{BUCKET}/rows.npy").shuffle(seed=seed).batch(BATCH)


def ours_s3(url: str, seed: int) -> Batches:
    import torch_distinput as tdi

    options = {"endpoint_url": url, "addressing_style": "path", "region": "us-east-1"}
    rows = tdi.NumpyDataset(f"s3://{BUCKET}/rows.npy", storage_options=options)
    return rows.shuffle(seed=seed).batch(BATCH)


# Others


def obstore_threads(url: str, seed: int) -> Batches:
    from obstore.store import HTTPStore

    store = HTTPStore(url, client_options={"allow_http": True})
    return in_threads(lambda row: store.get_range(f"{BUCKET}/rows.npy", start=place(row)[0], length=ROW_BYTES), seed)


def obstore_coroutines(url: str, seed: int) -> Batches:
    from obstore.store import HTTPStore

    store = HTTPStore(url, client_options={"allow_http": True})
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def read(row: int):
        return await store.get_range_async(f"{BUCKET}/rows.npy", start=place(row)[0], length=ROW_BYTES)

    yield from batched(ahead(lambda row: asyncio.run_coroutine_threadsafe(read(row), loop), order(seed), COROUTINES))
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def obstore_ranges(url: str, seed: int) -> Batches:
    """Batches at a time, four of them side by side; each has ten requests under way."""
    from obstore.store import HTTPStore

    store = HTTPStore(url, client_options={"allow_http": True})

    def read(rows: list[int]) -> list:
        starts = [place(row)[0] for row in rows]
        return store.get_ranges(f"{BUCKET}/rows.npy", starts=starts, lengths=[ROW_BYTES] * len(rows), coalesce=0)

    return _groups(read, seed, BATCH, 4)


def _groups(read: Callable[[list[int]], list], seed: int, size: int, threads: int) -> Batches:
    rows = order(seed)
    groups = [rows[begin : begin + size] for begin in range(0, ROWS, size)]
    with ThreadPoolExecutor(threads) as pool:
        found = ahead(lambda group: pool.submit(read, group), groups, threads)
        yield from batched(row for group in found for row in group)


def s3torchconnector(url: str, seed: int) -> Batches:
    """Objects of a row each, which is what its datasets are of."""
    from s3torchconnector import S3ClientConfig, S3MapDataset

    names = [f"s3://{BUCKET}/objects/{row:05}" for row in range(ROWS)]
    config = S3ClientConfig(force_path_style=True)
    rows = S3MapDataset.from_objects(names, region="us-east-1", endpoint=url, s3client_config=config)
    return in_threads(lambda row: rows[row].read(), seed)


def _cat_ranges(files, name: str, seed: int) -> Batches:
    """`AHEAD` rows at a time, two such calls side by side; its loop has as many requests under way."""

    def read(rows: list[int]) -> list:
        places = [place(row) for row in rows]
        return files.cat_ranges([name] * len(rows), [begin for begin, _ in places], [end for _, end in places])

    return _groups(read, seed, AHEAD, 2)


def fsspec_http(url: str, seed: int) -> Batches:
    import fsspec

    return _cat_ranges(fsspec.filesystem("http"), f"{url}/{BUCKET}/rows.npy", seed)


def s3fs(url: str, seed: int) -> Batches:
    import s3fs as module

    files = module.S3FileSystem(
        key="key", secret="secret", endpoint_url=url, config_kwargs={"max_pool_connections": AHEAD}
    )
    return _cat_ranges(files, f"{BUCKET}/rows.npy", seed)


def streaming(url: str, seed: int) -> Batches:
    from task import mosaic

    os.environ["S3_ENDPOINT_URL"] = url
    with tempfile.TemporaryDirectory() as local:
        rows = mosaic().StreamingDataset(
            remote=f"s3://{BUCKET}/mds", local=local, shuffle=True, shuffle_seed=seed, batch_size=BATCH
        )
        yield from torch.utils.data.DataLoader(rows, BATCH, num_workers=2, collate_fn=_stack)


def litdata(url: str, seed: int) -> Batches:
    import litdata as module

    with tempfile.TemporaryDirectory() as local:
        rows = module.StreamingDataset(
            f"s3://{BUCKET}/lit",
            cache_dir=local,
            shuffle=True,
            seed=seed,
            storage_options={"endpoint_url": url},
        )
        yield from module.StreamingDataLoader(rows, batch_size=BATCH, num_workers=2, collate_fn=_stack)


def _stack(rows: list) -> torch.Tensor:
    return next(iter(batched(row["row"] if isinstance(row, dict) else np.asarray(row) for row in rows)))


def write_mds(folder: Path) -> None:
    from task import mosaic

    rows = np.load(folder / "rows.npy", mmap_mode="r")
    with mosaic().MDSWriter(out=str(folder / "mds"), columns={"row": "bytes"}) as writer:
        for row in rows:
            writer.write({"row": row.tobytes()})


def write_lit(folder: Path) -> None:
    import litdata as module

    rows = np.load(folder / "rows.npy", mmap_mode="r")
    cache = module.streaming.cache.Cache(str(folder / "lit"), chunk_bytes="64MB")
    os.environ["DATA_OPTIMIZER_GLOBAL_RANK"], os.environ["DATA_OPTIMIZER_NUM_WORKERS"] = "0", "1"
    for number, row in enumerate(rows):
        cache[number] = torch.from_numpy(row.copy())
    cache.done()
    cache.merge()


SYSTEMS: dict[str, System] = {
    "torch_distinput": ours,
    "torch_distinput, s3": ours_s3,
    "obstore, 16 threads": obstore_threads,
    "obstore, 64 coroutines": obstore_coroutines,
    "obstore, get_ranges": obstore_ranges,
    "s3torchconnector, 16 threads": s3torchconnector,
    "fsspec http, cat_ranges": fsspec_http,
    "s3fs, cat_ranges": s3fs,
    "MosaicML streaming, 2 workers": streaming,
    "litdata, 2 workers": litdata,
}
PACKAGES = {
    "obstore": "obstore",
    "s3torchconnector": "s3torchconnector",
    "fsspec": "fsspec",
    "s3fs": "s3fs",
    "MosaicML": "mosaicml-streaming",
    "litdata": "litdata",
}
WRITERS = {"MosaicML streaming, 2 workers": ("mds", write_mds), "litdata, 2 workers": ("lit", write_lit)}


def check(batches: Batches, folder: Path) -> None:
    """Every row comes once, whole, and the rows are shuffled."""
    rows = np.load(folder / "rows.npy", mmap_mode="r")
    seen = []
    for batch in batches:
        found = batch.numpy()
        numbers = found[:, :8].copy().view(np.uint64)[:, 0]
        if not np.array_equal(found, rows[numbers]):
            raise ValueError("wrong output: the rows have other bytes")
        seen.extend(numbers.tolist())
    if sorted(seen) != list(range(ROWS)):
        raise ValueError(f"wrong output: {len(seen)} rows, {len(set(seen))} of them different, not {ROWS}")
    if seen == sorted(seen):
        raise ValueError("wrong output: not shuffled")


def measure(system: System, url: str, seed: int) -> dict:
    start, cpu, size = time.perf_counter(), time.process_time(), 0
    for batch in system(url, seed):
        size += batch.nbytes
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "cpu": time.process_time() - cpu, "bytes": size}


def reason(error: Exception) -> str:
    """Without the stack, and its paths, that errors of worker processes have in their words."""
    lines = [line.strip() for line in str(error).splitlines()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return f"{type(error).__name__}: {(named or lines or [''])[-1]}"[:300]


def answer_lines(answer: Callable[[str, int], dict]) -> NoReturn:
    """Answers each line of the standard input, and its number, with a line of JSON; then ends the process."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what systems print is no answer
    os.environ.update(KEY)
    torch.set_num_threads(1)
    for number, line in enumerate(sys.stdin):
        try:
            answered = answer(line.strip(), number)
        except Exception as error:  # noqa: BLE001  (whatever a system raises is why it has no figure)
            answered = {"failed": reason(error)}
        output.write(json.dumps(answered) + "\n")
        output.flush()
    os._exit(0)  # without waiting for threads of systems that do not end


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    system, checked = SYSTEMS[name], False
    subfolder, write = WRITERS.get(name, (None, None))

    def answer(url: str, seed: int) -> dict:
        nonlocal checked
        if write and not (folder / subfolder / "index.json").exists():
            shutil.rmtree(folder / subfolder, ignore_errors=True)
            write(folder)
        if not checked:
            check(system(url, 1000), folder)
            checked = True
        return measure(system, url, seed)

    answer_lines(answer)


if __name__ == "__main__":
    main()
