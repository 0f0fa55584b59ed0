# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Which positions of a sequence a peer of a context-parallel group gets. All results are int64."""

import torch
from torch import Tensor

from torch_distinput.typing import SequenceOrder


def multiple_for(order: SequenceOrder, size: int) -> int:
    """What the length of a sequence is a multiple of where `size` peers share it."""
    return size if size == 1 or order == "contiguous" else 2 * size


def head_and_tail(rank: int, size: int) -> tuple[int, int]:
    """The two chunks of a peer, of 2 * size equal ones: each peer then has as much causal attention to compute. As
    torch's `_HeadTailLoadBalancer` and Megatron-LM's `get_batch_on_this_cp_rank`."""
    return rank, 2 * size - 1 - rank


def contiguous_positions(length: int, rank: int, size: int) -> Tensor:
    """[length / size]: chunk `rank` of `size` equal ones, as torch shards a dim."""
    chunk = length // size
    return torch.arange(rank * chunk, (rank + 1) * chunk)


def head_tail_positions(bounds: Tensor, length: int, rank: int, size: int) -> Tensor:
    """[..., length / size]: head and tail of each document, in the documents' order.

    Args:
        bounds: [..., documents + 1], integers: from 0 to `length` without falling, in steps that are multiples of
            `multiple_for("head_tail", size)`. The result is on its device.

    As TransformerEngine's `thd_get_partitioned_indices`, by which Megatron-LM cuts packed rows.
    """
    begin, end = bounds[..., :-1].long(), bounds[..., 1:].long()
    own = (end - begin) // size
    first, last = own // 2, own - own // 2
    begins = torch.stack((begin + rank * first, end - rank * first - last), -1).flatten(-2)  # of heads and tails
    lengths = torch.stack((first, last), -1).flatten(-2)
    shifts = begins - (lengths.cumsum(-1) - lengths)  # from places in the part
    places = torch.arange(length // size, device=bounds.device)
    shape = (*bounds.shape[:-1], len(places))
    total = torch.Size(shape).numel()
    return places + shifts.flatten().repeat_interleave(lengths.flatten(), output_size=total).view(shape)
