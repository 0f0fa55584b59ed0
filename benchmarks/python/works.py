# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows in memory whose contents give their number, so that every batch can be checked."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

Leaves = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Work:
    """Rows and their batch size. `ids` reads the row numbers from a batch and checks its contents."""

    name: str
    title: str
    batch: int
    tensors: Leaves
    ids: Callable[[Leaves], torch.Tensor]
    warm_up: int  # batches before the clock starts

    @property
    def rows(self) -> int:
        return len(self.tensors[0])

    @property
    def row_bytes(self) -> int:
        return sum(tensor[0].nbytes for tensor in self.tensors)


def same(first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    assert all(torch.equal(first, other) for other in others), "the parts of a row do not belong together"
    return first


def float_rows(rows: int, floats: int) -> torch.Tensor:
    """Rows whose first and last entries are the row's number, which float32 holds exactly up to 2^24 rows."""
    table = torch.full((rows, floats), 0.5)
    table[:, 0] = table[:, -1] = torch.arange(rows)
    return table


def rows_20() -> Work:
    def ids(batch: Leaves) -> torch.Tensor:
        return same(batch[0][:, 0].long(), batch[0][:, -1].long())

    return Work("rows_20", "20 x float32, batch 256", 256, (float_rows(1_000_000, 20),), ids, 64)


def rows_128() -> Work:
    def ids(batch: Leaves) -> torch.Tensor:
        return same(batch[1], batch[0][:, 0].long(), batch[0][:, -1].long())

    tensors = (float_rows(1_000_000, 128), torch.arange(1_000_000))
    return Work("rows_128", "128 x float32 + int64, batch 256", 256, tensors, ids, 64)


def images() -> Work:
    rows, size = 12_000, 3 * 224 * 224
    table = torch.arange(size).to(torch.uint8).repeat(rows, 1)
    table[:, :4] = table[:, -4:] = torch.arange(rows, dtype=torch.int32).view(torch.uint8).view(rows, 4)

    def ids(batch: Leaves) -> torch.Tensor:
        flat = batch[0].view(-1, size)
        parts = (flat[:, part].contiguous().view(torch.int32)[:, 0].long() for part in (slice(4), slice(-4, None)))
        return same(*parts)

    return Work("images", "3x224x224 uint8, batch 64", 64, (table.view(rows, 3, 224, 224),), ids, 24)


WORKS: dict[str, Callable[[], Work]] = {"rows_20": rows_20, "rows_128": rows_128, "images": images}
