# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The rows of the ranks' steps, from a saved state, in one process."""

from dataclasses import replace
from typing import Any

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._distributed import native_of
from torch_distinput.distribute._strategy import MirroredStrategy
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.ranks._plan import assigned_indices, assigned_pipeline
from torch_distinput.loader.state._check import steps_in


def ledger_of_state(state: dict[str, Any], config: LoaderConfig | None) -> _C.RowLedger | None:
    """The rows of the epoch of `state`, of a loader with `distributed`, over the ranks that saved it; None where the
    state does not tell. `config`: of a loader that was given the same; None: not known, which is enough for the indices
    of a map-style dataset."""
    steps = steps_in(state)
    if steps is None or isinstance(state["distributed"], list):
        return None
    if config is None:
        if state["size"] is None or steps["weighted"]:
            return None
        config = LoaderConfig(dataset=range(state["size"]), shuffle=state["shuffle"], seed=state["given_seed"])
    config = replace(
        config,
        distributed=True,
        global_batch_size=steps["batch"],
        split=steps["split"],
        tail=steps["tail"],
        tail_given=True,
        drop_last=False,
    )
    replicas = MirroredStrategy(["cpu"] * steps["world"])
    if isinstance(config.dataset, Dataset):
        assigned = assigned_pipeline(config, replicas)[0]
    else:
        assigned = assigned_indices(config, replicas, "the state is read")
    return native_of(assigned).ledger(state["epoch"], state["seed"], state["distributed"])
