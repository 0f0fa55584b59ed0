# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Keras' sketch of quantiles: a float32 tensor [2, N] of values and weights, N about 1 / epsilon.

The steps, their order and their precision are those of Keras' `Discretization`, so that boundaries agree.
"""

import torch


def empty() -> torch.Tensor:
    """The summary of no values."""
    return torch.zeros(2, 0)


def summarize(values: torch.Tensor, epsilon: float) -> torch.Tensor:
    """The summary of one batch: every value, or one for each share `epsilon` of them."""
    ordered = values.reshape(-1).float().sort().values
    step = max(len(ordered) / (1.0 / epsilon), 1)
    kept = ordered[int(step - 1) :: int(step)]
    return torch.stack([kept, torch.ones_like(kept) * step])


def merge(first: torch.Tensor, second: torch.Tensor, epsilon: float) -> torch.Tensor:
    """The summary of two summaries."""
    merged = torch.cat([first, second], dim=1)
    return _compress(merged[:, merged[0].argsort(stable=True)], epsilon)


def boundaries(summary: torch.Tensor, num_bins: int) -> list[float]:
    """The boundaries of `num_bins` bins of about equal weight."""
    return _compress(summary, 1.0 / num_bins)[0, :-1].tolist()


def _compress(summary: torch.Tensor, epsilon: float) -> torch.Tensor:
    if summary.shape[1] * epsilon < 1:
        return summary
    shares = epsilon + torch.arange(0.0, 1.0, epsilon, dtype=torch.float64)
    totals = summary[1].cumsum(0)
    total_shares = totals / totals[-1]
    bins = _interpolate(shares, total_shares.double(), summary[0].double())
    ends = _interpolate(shares, total_shares.double(), totals.double())
    weights = ends - torch.cat([torch.zeros(1, dtype=torch.float64), ends[:-1]])
    return torch.stack([bins, weights]).float()


def _interpolate(at: torch.Tensor, places: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """numpy.interp: linear between places that do not decrease, constant outside."""
    if len(places) == 1:
        return values.expand(len(at)).clone()
    right = torch.searchsorted(places, at, right=True)
    left = (right - 1).clamp(0, len(places) - 2)
    x0, x1, y0, y1 = places[left], places[left + 1], values[left], values[left + 1]
    inner = (y1 - y0) / (x1 - x0) * (at - x0) + y0
    inner = torch.where(at == x0, y0, inner)
    return torch.where(at < places[0], values[0], torch.where(right >= len(places), values[-1], inner))
