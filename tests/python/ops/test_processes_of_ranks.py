# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`map` with `num_workers` on several ranks, each of which has processes of its own."""

import pipelines
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi


def steps_of_rank(rank, workers, state):
    """The rows of each step of this rank, and the loader's state after it."""
    rows = tdi.Dataset.range(41).shuffle(seed=2).map(number_and_draw, num_workers=workers).batch(6)
    loader = tdi.DataLoader(rows.with_options(tdi.Options(seed=3)), batch_size=None, distributed=True)
    if state is not None:
        loader.load_state_dict(state)
    return [(pipelines.plain(batch)[-1], loader.state_dict()) for batch in loader]


def number_and_draw(x):
    return torch.stack([x.float(), torch.rand((), generator=tdi.random())])


def joined(ranks):
    return [sum((rows for rows, _ in step), []) for step in zip(*ranks, strict=True)]


def test_ranks_share_each_batch_and_go_on_in_other_numbers():
    here = joined(returned(run_ranks(steps_of_rank, 1, None, None)))
    ranks = returned(run_ranks(steps_of_rank, 3, 2, None, may_fork=True))
    assert joined(ranks) == here and len(here) == 7
    (_, state), *_ = ranks[0]
    assert joined(returned(run_ranks(steps_of_rank, 2, 1, state, may_fork=True))) == here[1:]
