# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How even the work of many ranks is, with rows of lognormal(5, 1) tokens, and what it costs to plan.

    python benchmarks/python/balance.py --json benchmarks/results/balance.json

A step of 64 rows a rank: dealt at random, by `balance`, and by transformers' `BatchRebalanceSampler` (`pip install
transformers`; left out where it is missing, and where one step takes it too long). A step of one batch a rank of
`batch_by_cost`, with a budget of 16,384. Of the parts of each step:

- `max_over_mean`: the tokens of the part with the most over those of an average part, on average over the steps;
- `padding`: the share of padding where rows are padded to the longest of their part;
- `time`: the time of all steps, of which each lasts as long as its dearest part, over that of a perfect split, where a
  part costs its tokens ("tokens": kernels for rows of varying length), or what transformers' sampler assumes ("padded":
  n rows of at most L tokens cost n * L + 0.001 * n * L * L; "batch_by_cost, padded costs" is given that cost of a row,
  with a budget of 64 average rows, or the dearest row if that is more);
- `us_a_step`: the processor time to plan a step in the process of one rank. Each rank plans the parts of all ranks.

No process group is made and no rows are read: plans are arithmetic.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterable
from pathlib import Path

import torch

RANKS = (8, 64, 512, 1024)
ROWS_A_RANK = 64
BUDGET = 16_384
WINDOW, WIDE_WINDOW = 16_384, 262_144  # rows; the wide one for padded costs, whose batches hold more rows
STEPS = 12
REBALANCED_STEPS, SLOWEST_REBALANCE = 3, 20.0  # seconds a step

Parts = list[list[int]]  # the lengths of the rows of each part of one step


def lengths_of(count: int) -> torch.Tensor:
    """Lengths of rows in tokens, at least 1 and at most the budget."""
    drawn = torch.empty(count, dtype=torch.float64).log_normal_(5, 1, generator=torch.Generator().manual_seed(7))
    return drawn.round().clamp(1, BUDGET).long()


def padded_cost(part: list[int]) -> float:
    """What transformers' sampler assumes a padded part to cost."""
    longest = max(part, default=0)
    return len(part) * longest + 0.001 * len(part) * longest**2


def figures(steps: Iterable[Parts]) -> dict[str, float]:
    """The figures of the parts of some steps."""
    unevenness, tokens, padded, slowest, slowest_padded, perfect_padded = [], 0, 0, 0.0, 0.0, 0.0
    for parts in steps:
        sums = [sum(part) for part in parts]
        unevenness.append(max(sums) / statistics.mean(sums))
        tokens += sum(sums)
        padded += sum(len(part) * max(part, default=0) for part in parts)
        slowest += max(sums) * len(parts)
        slowest_padded += max(map(padded_cost, parts)) * len(parts)
        perfect_padded += sum(length + 0.001 * length**2 for part in parts for length in part)
    return {
        "max_over_mean": round(statistics.mean(unevenness), 4),
        "padding": round(1 - tokens / padded, 4),
        "time_tokens": round(slowest / tokens, 3),
        "time_padded": round(slowest_padded / perfect_padded, 3),
    }


def split(lengths: torch.Tensor, ranks: int, balance: torch.Tensor | None, window: int = 1) -> dict[str, float]:
    """Global batches of shuffled rows, split over the ranks."""
    from torch_distinput import _C

    options = _C.InputOptions(split="balanced", balance=balance, balance_window=window)
    rows = _C.Dataset.range(0, len(lengths), 1).shuffle(None, 1, True)
    order = next(rows.batch(len(lengths)).iterate(epoch=0, seed=0))
    steps = _C.StepRows(rows.batch(ROWS_A_RANK * ranks), ranks, options)
    parts, times = [], []
    for step in range(min(steps.num_steps, STEPS)):
        start = time.process_time()
        steps.global_valid(step)
        times.append(time.process_time() - start)
        parts.append([lengths[order[steps.rows(step, rank)]].tolist() for rank in range(ranks)])
    return figures(parts) | {"us_a_step": round(statistics.median(times) * 1e6, 1)}


def batches(lengths: torch.Tensor, ranks: int, costs: torch.Tensor, budget: float, window: int) -> dict[str, float]:
    """`batch_by_cost`, whose batches are dealt to the ranks in turn; a last step with fewer is left out."""
    from torch_distinput import _C

    rows = _C.Dataset.range(0, len(lengths), 1).shuffle(None, 1, True)
    dataset = rows.batch_by_cost(costs, budget, window)
    start = time.process_time()
    own = sum(1 for _ in dataset.shard(ranks, 0).iterate(epoch=0, seed=0))
    seconds = time.process_time() - start
    found = list(dataset.iterate(epoch=0, seed=0))
    parts = [lengths[batch].tolist() for batch in found]
    steps = [parts[at : at + ranks] for at in range(0, len(parts) - ranks + 1, ranks)]
    return figures(steps) | {
        "us_a_step": round(seconds / own * 1e6, 1),
        "us_a_batch": round(seconds / len(found) * 1e6, 1),
        "rows_a_batch": round(len(lengths) / len(found), 1),
        "most_over_budget": round(max(costs[batch].sum().item() for batch in found) / budget, 4),
    }


def rebalanced(lengths: torch.Tensor, ranks: int) -> dict[str, float] | None:
    """transformers' sampler on the first global batches; None if it takes too long."""
    from transformers.trainer_pt_utils import BatchRebalanceSampler

    given = lengths.tolist()
    sampler = BatchRebalanceSampler(given, ROWS_A_RANK * ranks, ranks, 1, seed=1)
    order = torch.randperm(len(given), generator=torch.Generator().manual_seed(1)).tolist()
    parts, times = [], []
    for step in range(REBALANCED_STEPS):
        chosen = order[step * ROWS_A_RANK * ranks : (step + 1) * ROWS_A_RANK * ranks]
        start = time.perf_counter()
        assigned = sampler._assign(chosen, [given[row] for row in chosen])
        times.append(time.perf_counter() - start)
        parts.append([[given[row] for row in part[0]] for part in assigned])
        if times[0] > SLOWEST_REBALANCE:
            break
    return figures(parts) | {"us_a_step": round(statistics.median(times) * 1e6, 1), "steps": len(parts)}


def main() -> None:
    """Measures all worlds and prints them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--rebalance-up-to", type=int, default=64, help="ranks up to which transformers is measured")
    arguments = parser.parse_args()
    import machine

    torch.set_num_threads(1)
    packages = ["torch"]
    try:
        import transformers  # noqa: F401

        packages.append("transformers")
    except ImportError:
        arguments.rebalance_up_to = 0
    worlds: dict[int, dict] = {}
    neighbours = machine.Neighbours()
    for ranks in RANKS:
        lengths = lengths_of(max(ROWS_A_RANK * ranks * STEPS, 4 * WIDE_WINDOW))
        padded = lengths + 0.001 * lengths**2
        padded_budget = max(ROWS_A_RANK * padded.mean().item(), padded.max().item())
        worlds[ranks] = {
            "random": split(lengths, ranks, None),
            "balance": split(lengths, ranks, lengths),
            "balance, window 4": split(lengths, ranks, lengths, 4),
            "batch_by_cost": batches(lengths, ranks, lengths, BUDGET, WINDOW),
            "batch_by_cost, padded costs": batches(lengths, ranks, padded, padded_budget, WIDE_WINDOW),
        }
        if ranks <= arguments.rebalance_up_to:
            worlds[ranks]["transformers"] = rebalanced(lengths, ranks)
        print(f"{ranks} ranks")
        for kind, found in worlds[ranks].items():
            print(f"  {kind:28}", "  ".join(f"{name} {value}" for name, value in found.items()))
    others = round(neighbours.cores(), 2)
    print(f"others used {others} cores")
    if arguments.json:
        content = {**machine.describe(tuple(packages)), "others_used_cores": others, "ranks": worlds}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
