# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Parts of sequences for context parallelism: each peer of a group gets some positions of every row of a batch."""

from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor

from torch_distinput.base._arguments import count, optional_text
from torch_distinput.base._structure import map_leaves
from torch_distinput.distribute._cut_leaves import KEEP, Leaf, leaves_of
from torch_distinput.distribute._document_bounds import checked_bounds, padded
from torch_distinput.distribute._peer_positions import (
    contiguous_positions,
    head_and_tail,
    head_tail_positions,
    multiple_for,
)
from torch_distinput.typing import SequenceOrder


@dataclass(frozen=True)
class SequenceCut:
    """How the peers of a context-parallel group share the sequences of a batch.

    Args:
        dim: the dim of the sequences, at least 0, the same for all leaves; or dims in the structure of the batch, as
            `({"tokens": 1, "mask": 2, "source": None}, 1)`, where None stands for leaves that stay whole. An int or
            None there holds for all that is below it.
        order: "head_tail" gives peer r of n the chunks r and 2n - 1 - r of 2n, by which all have as much causal
            attention to compute; "contiguous" the chunk r of n.
        documents: the key of the leaf with the bounds of documents in packed rows, such as "cu_seqlens" of
            `Dataset.pack`. Each document is then cut head-tail on its own, as TransformerEngine expects it in the
            format thd. None: whole rows are cut.

    Raises TypeError and ValueError for other values.

    >>> batch = {"tokens": torch.arange(8).reshape(1, 8), "source": ["a.txt"]}
    >>> tdi.SequenceCut(1).cut(batch, 0, 2)
    {'tokens': tensor([[0, 1, 6, 7]]), 'source': ['a.txt']}
    >>> tdi.SequenceCut(1).cut(batch, 1, 2)["tokens"]
    tensor([[2, 3, 4, 5]])
    """

    dim: Any
    order: SequenceOrder = "head_tail"
    documents: str | None = None

    def __post_init__(self) -> None:
        op = "SequenceCut"
        map_leaves(lambda dim: None if dim is None else count(op, "dim", dim), self.dim)
        orders = get_args(SequenceOrder)
        if self.order not in orders:
            raise ValueError(f"{op}: `order` must be one of {', '.join(map(repr, orders))}, but is {self.order!r}.")
        if optional_text(op, "documents", self.documents) is not None and self.order != "head_tail":
            raise ValueError(f"{op}: `documents` are cut in the order 'head_tail', but `order` is {self.order!r}.")

    def cut(self, batch: Any, rank: int, size: int) -> Any:
        """The part of peer `rank` of `size`: a structure like `batch`, with an equal share of each sequence.

        Leaves that are cut are dense tensors, on any device, whose sequences have one length; those without elements,
        as in a batch of zero rows, may have another. The parts are contiguous: views where their elements follow each
        other in memory, else copies of the part. Text, numbers and None stay whole, and so do the bounds of
        `documents`, as in Megatron-LM: TransformerEngine takes those of whole documents, and `bounds // size` are those
        of the parts. Bounds on an accelerator are waited for, because they are checked.

        Raises ValueError for a leaf without that dim or of another length than the others, for a length (with
        `documents`, that of a document) that is no multiple of `size` (in head-tail order, of 2 * `size`), and where
        `dim` has another structure than the batch; TypeError for leaves that cannot be cut. All name the leaf.
        """
        op = "SequenceCut.cut"
        _check_peer(op, rank, size)
        if size == 1:
            return batch
        leaves = leaves_of(op, batch, self.dim, self.documents)
        length = self._common_length(op, [leaf for leaf in leaves if leaf.dim is not None], size)
        if self.documents is None:
            parts = iter([self._part(leaf, rank, size) for leaf in leaves])
        else:
            parts = iter(self._parts_of_documents(op, leaves, length, rank, size))
        return map_leaves(lambda _: next(parts), batch)

    def positions(self, length: int, rank: int, size: int, bounds: Tensor | None = None) -> Tensor:
        """Which positions of sequences of `length` peer `rank` of `size` gets, in the order of its part: int64 of shape
        [length / size].

        Args:
            bounds: with `documents`, and only then, their bounds in a row, [bounds], or in several, [rows, bounds]. The
                result is then of shape [..., length / size], on their device.

        Raises TypeError and ValueError as `cut`.

        >>> tdi.SequenceCut(1).positions(8, 0, 2)
        tensor([0, 1, 6, 7])
        >>> tdi.SequenceCut(1, documents="cu_seqlens").positions(12, 0, 2, torch.tensor([0, 4, 12]))
        tensor([ 0,  3,  4,  5, 10, 11])
        """
        op = "SequenceCut.positions"
        _check_peer(op, rank, size)
        self._check_length(op, "`length`", count(op, "length", length), size)
        if self.documents is not None:
            return head_tail_positions(checked_bounds(op, "`bounds`", bounds, length, size), length, rank, size)
        if bounds is not None:
            raise ValueError(f"{op}: `bounds` are for a cut with `documents`, but this one has none.")
        if self.order == "contiguous":
            return contiguous_positions(length, rank, size)
        return head_tail_positions(torch.tensor([0, length]), length, rank, size)

    def _common_length(self, op: str, cut: list[Leaf], size: int) -> int:
        """The length of the sequences of all leaves that have elements; 0 where none has."""
        if not cut:
            raise ValueError(f"{op}: the batch must have a leaf that is cut, but all stay whole by `dim` {self.dim!r}.")
        filled = [leaf for leaf in cut if leaf.value.numel()]
        for leaf in filled[1:]:
            if leaf.length() != filled[0].length():
                raise ValueError(
                    f"{op}: {leaf.name} has length {leaf.length()} along dim {leaf.dim}, but {filled[0].name} has "
                    f"{filled[0].length()} along dim {filled[0].dim}. {KEEP}"
                )
        for leaf in cut:
            self._check_length(op, f"the length of {leaf.name} along dim {leaf.dim}", leaf.length(), size)
        return filled[0].length() if filled else 0

    def _check_length(self, op: str, name: str, length: int, size: int) -> None:
        multiple = multiple_for(self.order, size)
        if length % multiple:
            raise ValueError(
                f"{op}: {name} must be a multiple of {multiple} for {size} peers in the order {self.order!r}, but is "
                f"{length}; pad sequences to {padded(length, multiple)}."
            )

    def _part(self, leaf: Leaf, rank: int, size: int) -> Any:
        """The part of a leaf that stays whole, or whose sequences are cut as one document."""
        if leaf.dim is None:
            return leaf.value
        if self.order == "contiguous":
            return _chunk(leaf, rank, size).contiguous()
        return torch.cat([_chunk(leaf, chunk, 2 * size) for chunk in head_and_tail(rank, size)], leaf.dim)

    def _parts_of_documents(self, op: str, leaves: list[Leaf], length: int, rank: int, size: int) -> list[Any]:
        found = [leaf for leaf in leaves if leaf.key == self.documents]
        if len(found) != 1:
            raise ValueError(
                f"{op}: one leaf must have the key {self.documents!r} of `documents`, but {len(found)} have."
            )
        [bounds] = found
        checked = checked_bounds(op, bounds.name, bounds.value, length, size)
        positions = head_tail_positions(checked, length, rank, size)
        return [
            self._part(leaf, rank, size)
            if leaf.dim is None or leaf.value.numel() == 0
            else _taken(op, leaf, bounds, positions)
            for leaf in leaves
        ]


def as_sequence_cut(op: str, name: str, value: Any) -> SequenceCut:
    """`value`, a SequenceCut, or that of an int, its `dim`. Raises TypeError and ValueError for other values."""
    return value if isinstance(value, SequenceCut) else SequenceCut(count(op, name, value))


def _check_peer(op: str, rank: int, size: int) -> None:
    if not 0 <= count(op, "rank", rank) < count(op, "size", size, 1):
        raise ValueError(f"{op}: `rank` must be less than `size`, {size}, but is {rank}.")


def _chunk(leaf: Leaf, chunk: int, chunks: int) -> Tensor:
    length = leaf.length() // chunks
    return leaf.value.narrow(leaf.dim, chunk * length, length)


def _taken(op: str, leaf: Leaf, bounds: Leaf, positions: Tensor) -> Tensor:
    """The part of a leaf at `positions`, [length / size] for all rows or [rows, length / size]."""
    positions = positions.to(leaf.value.device)
    if positions.dim() == 1:
        return leaf.value.index_select(leaf.dim, positions)
    rows = len(positions)
    if leaf.dim == 0 or leaf.value.shape[0] != rows:
        raise ValueError(
            f"{op}: {leaf.name}, of shape {list(leaf.value.shape)} and cut along dim {leaf.dim}, must have {rows} rows "
            f"along dim 0, as {bounds.name}. {KEEP}"
        )
    shape = [rows] + [1] * (leaf.value.dim() - 1)
    shape[leaf.dim] = positions.shape[1]
    part_shape = [*leaf.value.shape[: leaf.dim], positions.shape[1], *leaf.value.shape[leaf.dim + 1 :]]
    return leaf.value.gather(leaf.dim, positions.view(shape).expand(part_shape))
