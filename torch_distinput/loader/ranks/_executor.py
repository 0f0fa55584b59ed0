# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(executor=)`: what its workers do, and which loaders they can work for."""

from dataclasses import replace

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset, asks_for_streams
from torch_distinput.distribute._called_pipeline import called_pipeline, why_unplanned
from torch_distinput.distribute._distributed import native_of
from torch_distinput.distribute._executed_work import PipelineWork
from torch_distinput.executors._called_functions import CalledFunctions
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


def why_called(config: LoaderConfig, plan: Plan) -> str | None:
    """Why workers can call functions of the pipeline only; None: they make parts of steps. Raises ValueError where
    they can do neither."""
    if plan.dataset is None:
        raise ValueError("DataLoader: `executor` excludes a sampler of the program's own, which only it can read.")
    if not isinstance(config.dataset, Dataset):
        return None
    if asks_for_streams(config.dataset):
        return "each rank reads streams of its own."
    if config.dataset.options().on_error is not None:
        return "only reading tells which rows `Options(on_error=...)` leaves."
    return why_unplanned(native_of(plan.dataset))


def with_called_functions(config: LoaderConfig, shares: int, why: str) -> tuple[LoaderConfig, CalledFunctions]:
    """The loader of a pipeline whose functions workers call, in `shares` processes. Raises ValueError, which says
    `why`, where there are none."""
    assert config.executor is not None, "checked by the caller"
    native, called = called_pipeline("DataLoader", config.dataset, config.executor, shares, config.prefetch_bytes, why)
    return replace(config, dataset=Dataset(native)), called
