# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Tokens in the shape in which torchtitan's trainer takes them."""

from typing import Any

import torch
from torch.nn.functional import pad

# The label of a place that has none; torch's cross_entropy leaves it out, too.
IGNORED = -100


def next_tokens(row: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """`({"input": [L], "positions": [L]}, labels [L])` of a row of `Dataset.pack(L + 1)`: a label is the next token of
    the same document, or -100."""
    labels = torch.where(row["loss_mask"], row["tokens"], IGNORED)
    return {"input": row["tokens"][:-1], "positions": row["position_ids"][:-1]}, labels[1:]


def flat_batch(batch: Any, length: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """`(inputs, labels)` of rows [R, L], R * L <= `length`, as tensors of shape [length]. What is padded has token 0,
    no label, and positions that count from 0, as a document of its own. Raises ValueError for more tokens."""
    inputs, labels = batch
    room = length - labels.numel()
    if room < 0:
        raise ValueError(f"DataLoader: a batch has {labels.numel()} tokens; `num_tokens_per_batch` is {length}.")
    flat = {name: pad(values.flatten(), (0, room)) for name, values in inputs.items()}
    if "positions" in flat:
        flat["positions"][length - room :] = torch.arange(room)
    return flat, pad(labels.flatten(), (0, room), value=IGNORED)
