# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(executor=)`: what its workers do, and which loaders they can work for."""

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._distributed import native_of
from torch_distinput.distribute._executed_work import PipelineWork
from torch_distinput.executors._engine import Work
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._exact_sampler import group_size_and_rank
from torch_distinput.loader.ranks._executed_rows import RowsWork
from torch_distinput.loader.ranks._plan import Plan, input_options
from torch_distinput.recognize._fetch import Sifting


def work_of(config: LoaderConfig, plan: Plan) -> Work:
    """What the workers of this process do."""
    if plan.kind == "indices":
        return RowsWork(config.dataset, Sifting(config.collate_fn) if config.skips_rows else config.collate_fn)
    world, rank = group_size_and_rank(config.ranks)
    batch = config.global_batch(world) if config.auto_collation else None
    policy = _C.AutoShardPolicy.DATA
    return PipelineWork(config.dataset, batch, input_options(config), rank, world, policy=policy, seed=config.seed)


def check_executor(config: LoaderConfig, plan: Plan) -> None:
    """Raises ValueError on all ranks where a step's rows are not known before they are read."""
    if config.executor is None:
        return
    advice = "pass data with random access, or leave `executor` out."
    if plan.dataset is None:
        raise ValueError(f"DataLoader: `executor` asks workers for parts of steps, but this is a stream: {advice}")
    if plan.kind != "native":
        return
    if isinstance(config.dataset, Dataset) and config.dataset.options().on_error is not None:
        raise ValueError(
            "DataLoader: `executor` excludes `Options(on_error=...)`, where only reading tells which rows are left."
        )
    try:
        native_of(plan.dataset).iterate(epoch=0, seed=0, with_rows=False)
    except ValueError as error:
        raise ValueError(f"DataLoader: `executor` asks workers for parts of steps: {error} So {advice}") from None
