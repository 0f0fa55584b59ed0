#!/usr/bin/env python3
# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Measures which torch layers and losses take zero rows, and writes the table of docs/zero_rows.md.

python tools/zero_rows_table.py            # write it
python tools/zero_rows_table.py --check    # 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

PAGE = Path(__file__).resolve().parents[1] / "docs" / "zero_rows.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def rows(*shape: int) -> torch.Tensor:
    return torch.zeros(0, *shape, requires_grad=True)


def labels() -> torch.Tensor:
    return torch.zeros(0, dtype=torch.int64)


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "Linear": (lambda: nn.Linear(4, 3), (rows(4),)),
    "Bilinear": (lambda: nn.Bilinear(4, 4, 3), (rows(4), rows(4))),
    "Embedding": (lambda: nn.Embedding(5, 3), (torch.zeros(0, 2, dtype=torch.int64),)),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(5, 3), (torch.zeros(0, 2, dtype=torch.int64),)),
    "Conv1d": (lambda: nn.Conv1d(3, 4, 3), (rows(3, 8),)),
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3), (rows(3, 8, 8),)),
    "Conv3d": (lambda: nn.Conv3d(3, 4, 3), (rows(3, 8, 8, 8),)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 3), (rows(3, 8, 8),)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), (rows(3, 8, 8),)),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), (rows(3, 8, 8),)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(1), (rows(3, 8, 8),)),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(1), (rows(3, 8, 8),)),
    "Upsample (bilinear)": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (rows(3, 8, 8),)),
    "BatchNorm1d, train": (lambda: nn.BatchNorm1d(4), (rows(4),)),
    "BatchNorm2d, train": (lambda: nn.BatchNorm2d(3), (rows(3, 8, 8),)),
    "BatchNorm2d, eval": (lambda: nn.BatchNorm2d(3).eval(), (rows(3, 8, 8),)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3), (rows(3, 8, 8),)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (rows(4, 8, 8),)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (rows(4),)),
    "RMSNorm": (lambda: nn.RMSNorm(4), (rows(4),)),
    "Dropout": (lambda: nn.Dropout(), (rows(4),)),
    "ReLU": (lambda: nn.ReLU(), (rows(4),)),
    "GELU": (lambda: nn.GELU(), (rows(4),)),
    "Softmax": (lambda: nn.Softmax(1), (rows(4),)),
    "Flatten": (lambda: nn.Flatten(), (rows(3, 8),)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (rows(4, 8, 8),)),
    "RNN": (lambda: nn.RNN(4, 3, batch_first=True), (rows(5, 4),)),
    "LSTM": (lambda: nn.LSTM(4, 3, batch_first=True), (rows(5, 4),)),
    "GRU": (lambda: nn.GRU(4, 3, batch_first=True), (rows(5, 4),)),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2, batch_first=True), (rows(5, 4),) * 3),
    "TransformerEncoderLayer, train": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (rows(5, 4),)),
    "TransformerEncoderLayer, eval": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(),
        (rows(5, 4),),
    ),
}

LOSSES: dict[str, tuple[Callable[[str], nn.Module], tuple[torch.Tensor, ...]]] = {
    "CrossEntropyLoss": (lambda how: nn.CrossEntropyLoss(reduction=how), (rows(3), labels())),
    "NLLLoss": (lambda how: nn.NLLLoss(reduction=how), (rows(3), labels())),
    "MSELoss": (lambda how: nn.MSELoss(reduction=how), (rows(3), rows(3))),
    "L1Loss": (lambda how: nn.L1Loss(reduction=how), (rows(3), rows(3))),
    "SmoothL1Loss": (lambda how: nn.SmoothL1Loss(reduction=how), (rows(3), rows(3))),
    "HuberLoss": (lambda how: nn.HuberLoss(reduction=how), (rows(3), rows(3))),
    "BCELoss": (lambda how: nn.BCELoss(reduction=how), (rows(3), torch.zeros(0, 3))),
    "BCEWithLogitsLoss": (lambda how: nn.BCEWithLogitsLoss(reduction=how), (rows(3), torch.zeros(0, 3))),
    "KLDivLoss": (lambda how: nn.KLDivLoss(reduction=how), (rows(3), torch.zeros(0, 3))),
    "PoissonNLLLoss": (lambda how: nn.PoissonNLLLoss(reduction=how), (rows(3), torch.zeros(0, 3))),
    "GaussianNLLLoss": (lambda how: nn.GaussianNLLLoss(reduction=how), (rows(3), torch.zeros(0, 3), torch.ones(0, 3))),
    "CosineEmbeddingLoss": (lambda how: nn.CosineEmbeddingLoss(reduction=how), (rows(3), rows(3), torch.ones(0))),
    "MarginRankingLoss": (lambda how: nn.MarginRankingLoss(reduction=how), (rows(), rows(), torch.ones(0))),
    "MultiMarginLoss": (lambda how: nn.MultiMarginLoss(reduction=how), (rows(3), labels())),
    "TripletMarginLoss": (lambda how: nn.TripletMarginLoss(reduction=how), (rows(3), rows(3), rows(3))),
}


def writes_a_sum(make: Callable[[str], nn.Module], inputs: tuple[torch.Tensor, ...]) -> bool:
    """Whether the loss writes its sum at all. Memory that is not written holds NaN here."""
    torch.use_deterministic_algorithms(True)  # else torch.utils.deterministic.fill_uninitialized_memory is ignored
    try:
        return not torch.isnan(make("sum")(*inputs))
    finally:
        torch.use_deterministic_algorithms(False)


def outcome(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[str, str]:
    """The results of forward and backward: a shape or a number, "zero" or "none" gradients, or an error."""
    buffers = {name: value.clone() for name, value in module.named_buffers()}
    try:
        result = module(*inputs)
    except Exception as error:  # noqa: BLE001 - the error is the measurement
        return f"{type(error).__name__}: {str(error).splitlines()[0][:60].strip()}", "–"
    first = result[0] if isinstance(result, tuple) else result
    forward = str(first.item()) if first.dim() == 0 else str(list(first.shape))
    changed = [name for name, value in module.named_buffers() if not torch.equal(value, buffers[name])]
    if changed:
        forward += f"; changes {', '.join(changed)}"
    if not first.requires_grad:
        return forward, "no graph"
    try:
        first.sum().backward()
    except Exception as error:  # noqa: BLE001
        return forward, f"{type(error).__name__}: {str(error).splitlines()[0][:60].strip()}"
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    if any(not torch.isfinite(gradient).all() for gradient in gradients):
        return forward, "NaN gradients"
    return forward, "zero gradients" if gradients else "ok"


def table() -> str:
    """The measured part of the page."""
    torch.manual_seed(0)
    lines = ["| layer | forward | backward |", "|---|---|---|"]
    for name, (make, inputs) in LAYERS.items():
        forward, backward = outcome(make(), inputs)
        lines.append(f"| {name} | {forward} | {backward} |")
    lines += ["", "| loss | mean | sum | backward of the sum |", "|---|---|---|---|"]
    for name, (make, inputs) in LOSSES.items():
        results = {how: outcome(make(how), inputs) for how in ("mean", "sum")}
        written = writes_a_sum(make, inputs)
        shown = [result[0] if written else "whatever the memory held" for result in results.values()]
        lines.append(f"| {name} | {' | '.join(shown)} | {results['sum'][1]} |")
    return "\n".join(lines)


def page(old: str) -> str:
    """`old` with the measured part replaced."""
    before, _, rest = old.partition(BEGIN)
    _, _, after = rest.partition(END)
    version = torch.__version__.partition("+")[0]
    return f"{before}{BEGIN}\nMeasured with torch {version} on the CPU.\n\n{table()}\n{END}{after}"


def main() -> int:
    old = PAGE.read_text()
    new = page(old)
    if "--check" in sys.argv[1:]:
        if new == old:
            return 0
        print(f"{PAGE.name} is out of date: run tools/zero_rows_table.py")
        return 1
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
