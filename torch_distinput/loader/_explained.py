# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The report on a DataLoader, and the stats of all ranks."""

from dataclasses import asdict
from typing import Any

from torch import distributed as dist

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute import _peer_values
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.observe._explanation import Branch, Explanation
from torch_distinput.observe._members import MemberStats
from torch_distinput.observe._network import NetworkStats
from torch_distinput.observe._stats import Stats
from torch_distinput.observe._workers import WorkersStats

# Fields of `Stats` that have fields.
_PARTS: dict[str, Any] = {"network": NetworkStats, "members": MemberStats, "workers": WorkersStats}


def size_facts(config: LoaderConfig, steps: int | None) -> list[str]:
    """The steps of an epoch, and the rows of the first and last one, for a loader of one process."""
    if steps is None:
        return ["steps: not known"]
    facts = [f"steps: {steps}"]
    size = config.batch_size
    if size is None or not config.auto_collation or steps == 0:
        return facts
    rows = len(config.dataset if config.is_stream else config.sampler)
    last = size if config.drop_last else rows - (steps - 1) * size
    return [*facts, f"rows of the first step: {min(size, rows)}", f"rows of the last step: {last}"]


def explained_loader(name: str, config: LoaderConfig, facts: list[str], ops: Branch | None) -> Explanation:
    """The report on a loader of the class `name`: `facts`, and below them `ops`; without `ops`, those of a dataset of
    this library, and what that reads over networks."""
    dataset = config.dataset
    if ops is None and isinstance(dataset, Dataset):
        explained = dataset.explain()
        ops = explained.ops
        facts = facts + [fact for fact in explained.facts if fact not in facts]
    return Explanation(f"{name}({type(dataset).__name__}, batch_size={config.batch_size})", facts, ops)


def gather_stats(stats: Stats, group: Any) -> list[Stats]:
    """The stats of all ranks of `group` (None: the default one), by rank. A collective."""
    if not dist.is_initialized():
        raise RuntimeError("verdict: `all_ranks=True` needs torch.distributed.init_process_group.")
    group = dist.group.WORLD if group is None else group
    everyone = _C.all_gather_bytes(group, _peer_values.encode(asdict(stats)))
    return [_stats_of(rank, data) for rank, data in enumerate(everyone)]


def _stats_of(rank: int, data: bytes) -> Stats:
    """The stats that `rank` sent."""
    whose = f"verdict: the stats of rank {rank}"
    values = _peer_values.decode(data, whose, None)
    _check_fields(whose, values, asdict(Stats()))
    parts: dict[str, Any] = {}
    for name, kind in _PARTS.items():
        if values[name] is not None:
            _check_fields(whose, values[name], asdict(kind()))
            parts[name] = kind(**values[name])
    return Stats(**values | parts)


def _check_fields(whose: str, values: Any, ours: dict[str, Any]) -> None:
    """Raises DistributedDatasetError unless `values` has the names of `ours`, and numbers, or tuples of them."""
    if type(values) is not dict or set(values) != set(ours):
        raise _C.DistributedDatasetError(
            f"{whose}: they must have the fields of this rank's; use one version of the library."
        )
    for name, value in values.items():
        if name in _PARTS:
            continue
        many = type(ours[name]) is tuple
        numbers = value if many and type(value) is tuple else (value,)
        if not all(type(number) in (int, float) or (number is None and not many) for number in numbers):
            raise _C.DistributedDatasetError(f"{whose}: `{name}` must be numbers, but is {str(value)[:40]!r}.")
