# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Windows of tokens from a file in the page cache, shuffled, as int64, and packing of documents.

    python benchmarks/python/tokens.py --json benchmarks/results/tokens.json

The copy loop is the least that Python code can do: slices of numpy's memory map, converted straight into a batch that
is used again. `__getitems__` makes new batches in the same way under torch's DataLoader. All sides run in turn, with
one thread for torch's operations.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import machine
import numpy as np
import torch

import torch_distinput as tdi

ROWS, LENGTH = 8, 2048


class Windows(torch.utils.data.Dataset):
    """Windows of a memory map, by the batch."""

    def __init__(self, path: Path):
        self.tokens = np.memmap(path, np.uint16, "r")

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // LENGTH

    def __getitems__(self, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        block = np.empty((len(rows), LENGTH + 1), np.int64)
        for place, row in enumerate(rows):
            block[place] = self.tokens[row * LENGTH : (row + 1) * LENGTH + 1]
        tokens = torch.from_numpy(block)
        return tokens[:, :-1], tokens[:, 1:]


def copy_loop(path: Path) -> Iterator:
    tokens = np.memmap(path, np.uint16, "r")
    order = np.random.default_rng(1).permutation((len(tokens) - 1) // LENGTH)
    block = np.empty((ROWS, LENGTH + 1), np.int64)
    for begin in range(0, len(order) - ROWS + 1, ROWS):
        for place, row in enumerate(order[begin : begin + ROWS]):
            block[place] = tokens[row * LENGTH : (row + 1) * LENGTH + 1]
        yield block


def series(path: Path) -> dict[str, Callable[[], Iterator]]:
    def ours(**options) -> Iterator:
        dataset = tdi.TokenDataset(path, np.uint16, LENGTH, vocab_size=50304).shuffle(seed=1)
        return iter(dataset.batch(ROWS, drop_remainder=True).with_options(tdi.Options(**options)))

    def loader() -> Iterator:
        generator = torch.Generator().manual_seed(1)
        windows = torch.utils.data.DataLoader(
            Windows(path), ROWS, shuffle=True, generator=generator, collate_fn=lambda batch: batch, drop_last=True
        )
        return iter(windows)

    return {
        "copy loop": lambda: copy_loop(path),
        "torch_distinput": ours,
        "torch_distinput, consumer's thread": lambda: ours(prefetch=0),
        "DataLoader, __getitems__": loader,
    }


def us_per_batch(make: Callable[[], Iterator]) -> float:
    batches = make()
    next(batches)
    start, count = time.perf_counter(), 0
    for _ in batches:
        count += 1
    return (time.perf_counter() - start) / count * 1e6


def packing(documents: int, strategy: str) -> float:
    """MB of int64 tokens a second, in one thread."""
    random = np.random.default_rng(2)
    sizes = random.geometric(1 / 500, documents)
    tokens = random.integers(0, 50304, sizes.sum()).astype(np.uint16)
    offsets = np.concatenate([[0], sizes.cumsum()])
    rows = tdi.TokenDataset.from_tokens(tokens, None, offsets=offsets).pack(LENGTH, strategy=strategy)
    rows = rows.with_options(tdi.Options(prefetch=0, num_threads=0))
    start = time.perf_counter()
    for _ in rows:
        pass
    return len(tokens) * 8 / (time.perf_counter() - start) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--mb", type=int, default=128, help="size of the token file")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    neighbours = machine.Neighbours()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.bin"
        np.random.default_rng(3).integers(0, 50304, arguments.mb * 2**19).astype(np.uint16).tofile(path)
        sides = series(path)
        runs: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(arguments.rounds):
            for name in list(sides)[:: 1 if number % 2 == 0 else -1]:
                runs[name].append(us_per_batch(sides[name]))
    medians = {name: round(statistics.median(found), 2) for name, found in runs.items()}
    limit = medians["copy loop"]
    packed = {
        strategy: round(statistics.median(packing(arguments.mb * 500, strategy) for _ in range(arguments.rounds)), 1)
        for strategy in ("greedy", "best_fit")
    }
    for name, cost in medians.items():
        print(f"{name:36} {cost:9.2f} us a batch of {ROWS} x {LENGTH + 1}, {cost / limit:5.2f} of the copy loop")
    for strategy, rate in packed.items():
        print(f"pack, {strategy:9} {rate:9.1f} MB of int64 tokens a second")
    others = round(neighbours.cores(), 2)
    print(f"others used {others} cores")
    if arguments.json:
        content = {
            **machine.describe(("torch", "numpy")),
            "others_used_cores": others,
            "windows_us_per_batch": medians,
            "windows_of_copy_loop": {name: round(cost / limit, 3) for name, cost in medians.items()},
            "packing_mb_per_second": packed,
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
