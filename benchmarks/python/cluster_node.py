# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""One node of `cluster.py`: `cluster_node.py SYSTEM FOLDER NODE NODES PORT`, PORT that of a store of all nodes.

Each line of the standard input is the URL of the server, and begins an epoch; the answer is a line of JSON: the seconds
of each step, and the numbers of the rows. The consumer works a while for each step, as one that trains would.
"""

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import torch
import torch.distributed as dist
from remote_rivals import BUCKET, answer_lines

sys.path.append(str(Path(__file__).resolve().parents[1] / "peers"))

ROWS, ROW_BYTES, BATCH = 8192, 25_000, 64  # of a node
SHARD = 4 << 20  # bytes of a shard or chunk of the others
GROUP = 160  # rows of a row group, 4 MB
STEP = 0.050  # seconds that the consumer of a step works

Batches = Iterable[torch.Tensor]
# The epochs of a node, whose folder for local files is given.
System = Callable[[str, Path], Iterator[Batches]]


def rows() -> np.ndarray:
    """Rows that begin with their number."""
    found = np.random.default_rng(5).integers(0, 256, (ROWS, ROW_BYTES), np.uint8)
    found[:, :8] = np.arange(ROWS, dtype=np.uint64)[:, None].view(np.uint8)
    return found


def stacked(given: list) -> torch.Tensor:
    found = [np.frombuffer(row["row"], np.uint8) if isinstance(row, dict) else np.asarray(row) for row in given]
    return torch.from_numpy(np.stack(found))


def write_parquet(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    type_ = pa.binary(ROW_BYTES)
    array = pa.Array.from_buffers(type_, ROWS, [None, pa.py_buffer(rows().tobytes())])
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    parquet.write_table(pa.table({"row": array}), folder / "rows.parquet", row_group_size=GROUP, **options)


def ours(url: str, local: Path, **order: int) -> Iterator[Batches]:
    import torch_distinput as tdi

    options = {"endpoint_url": url, "addressing_style": "path", "region": "us-east-1"}
    table = tdi.ParquetDataset(f"s3://{BUCKET}/rows.parquet", storage_options=options, cache_dir=str(local))
    rows = table.shuffle(seed=1, **order).decode_raw(torch.uint8, (ROW_BYTES,))
    batches = rows.batch(BATCH * dist.get_world_size())
    split = "lanes" if order else "balanced"
    with tdi.DataLoader(batches, batch_size=None, distributed=True, split=split) as loader:
        while True:
            yield (batch["row"] for batch in loader)


def lanes(url: str, local: Path) -> Iterator[Batches]:
    return ours(url, local, blocks=2)


def write_mds(folder: Path) -> None:
    from task import mosaic

    with mosaic().MDSWriter(out=str(folder / "mds"), columns={"row": "bytes"}, size_limit=SHARD) as writer:
        for row in rows():
            writer.write({"row": row.tobytes()})


def streaming(url: str, local: Path) -> Iterator[Batches]:
    from task import mosaic

    os.environ["S3_ENDPOINT_URL"] = url
    data = mosaic().StreamingDataset(
        remote=f"s3://{BUCKET}/mds", local=str(local), shuffle=True, shuffle_seed=1, batch_size=BATCH
    )
    loader = torch.utils.data.DataLoader(data, BATCH, num_workers=2, collate_fn=stacked, persistent_workers=True)
    return itertools.repeat(loader)


def write_lit(folder: Path) -> None:
    import litdata as module

    cache = module.streaming.cache.Cache(str(folder / "lit"), chunk_bytes=SHARD)
    os.environ["DATA_OPTIMIZER_GLOBAL_RANK"], os.environ["DATA_OPTIMIZER_NUM_WORKERS"] = "0", "1"
    for number, row in enumerate(rows()):
        cache[number] = torch.from_numpy(row.copy())
    cache.done()
    cache.merge()


def litdata(url: str, local: Path) -> Iterator[Batches]:
    import litdata as module
    from litdata.streaming import downloader

    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = "true"  # the server of this benchmark has no TLS
    data = module.StreamingDataset(
        f"s3://{BUCKET}/lit", cache_dir=str(local), shuffle=True, seed=1, storage_options={"endpoint_url": url}
    )
    return itertools.repeat(module.StreamingDataLoader(data, batch_size=BATCH, num_workers=2, collate_fn=stacked))


_LIST = """<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{bucket}</Name><Prefix>{prefix}</Prefix>
<KeyCount>{count}</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>
"""
_LISTED = """<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;1&quot;</ETag>
<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"""


def write_lance(folder: Path) -> None:
    """A table, and the answers of S3 to the lists that opening it takes."""
    import lancedb
    import pyarrow as pa

    table = pa.table({"row": pa.array([row.tobytes() for row in rows()], pa.binary())})
    lancedb.connect(str(folder / "lance")).create_table("rows", table)
    versions = folder / "lance" / "rows.lance" / "_versions"
    prefix = f"{versions.relative_to(folder)}/"
    lists = folder.parent / "lists"
    lists.mkdir()
    for name, paths in {"none": [], quote(prefix, safe=""): sorted(versions.iterdir())}.items():
        entries = [_LISTED.format(key=path.relative_to(folder), size=path.stat().st_size) for path in paths]
        answer = _LIST.format(bucket=BUCKET, prefix=prefix, count=len(entries), contents="".join(entries))
        (lists / name).write_text(answer)


def lancedb(url: str, local: Path) -> Iterator[Batches]:
    import lancedb as module
    from lancedb.streaming import StreamingDataset

    options = {"endpoint": url, "region": "us-east-1", "allow_http": "true"}
    options |= {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    table = module.connect(f"s3://{BUCKET}/lance", storage_options=options).open_table("rows")
    place = {"rank": dist.get_rank(), "world_size": dist.get_world_size()}
    for epoch in itertools.count():
        data = StreamingDataset(table, shuffle_seed=1, epoch=epoch, **place)
        yield torch.utils.data.DataLoader(data, BATCH, collate_fn=stacked)


SYSTEMS: dict[str, System] = {
    "torch_distinput, shuffle(blocks=2)": lanes,
    "torch_distinput, full shuffle": ours,
    "MosaicML streaming, 2 workers": streaming,
    "litdata, 2 workers": litdata,
    "LanceDB": lancedb,
}
WRITERS = {"torch_distinput": write_parquet, "MosaicML": write_mds, "litdata": write_lit, "LanceDB": write_lance}


def measure(batches: Batches) -> dict:
    steps, numbers, start = [], [], time.perf_counter()
    for batch in batches:
        numbers += batch[:, :8].contiguous().view(torch.int64)[:, 0].tolist()
        time.sleep(STEP)
        now = time.perf_counter()
        steps.append(round(now - start, 4))
        start = now
    return {"steps": steps, "rows": numbers}


def main() -> None:
    name, folder, node, nodes, port = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:])
    os.environ.update(RANK=str(node), WORLD_SIZE=str(nodes), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    os.environ.update(TDI_HOST_ID=f"node{node}", NNODES=str(nodes), NODE_RANK=str(node))
    dist.init_process_group("gloo", store=dist.TCPStore("127.0.0.1", port), rank=node, world_size=nodes)
    epochs: Iterator[Batches] | None = None

    def answer(url: str, _: int) -> dict:
        nonlocal epochs
        epochs = epochs or SYSTEMS[name](url, folder)
        return measure(next(epochs))

    answer_lines(answer)


if __name__ == "__main__":
    main()
