# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Processes as a launcher of Accelerate's starts them."""

import os
from collections.abc import Callable
from typing import Any

import ranks


def launch(function: Callable[..., Any], *args: Any, world: int = 2, limit: float = 120) -> list[Any]:
    """What `function(rank, *args)` returns in `world` processes, by rank."""
    return ranks.returned(ranks.run_ranks(launched, world, function, world, *args, limit=limit, may_fork=True))


def launched(rank: int, function: Callable[..., Any], world: int, *args: Any) -> Any:
    """`function(rank, *args)` in the environment that a launcher makes."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
    # The group exists already, so that no process connects to this address.
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="1", ACCELERATE_USE_CPU="1")
    return function(rank, *args)
