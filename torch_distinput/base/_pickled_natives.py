# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Native values that pickle as the arguments of their constructors."""

import copyreg

from torch_distinput import _C


def _register(kind: type, *names: str) -> None:
    """`kind` pickles as the attributes `names`, which are its constructor's arguments in their order."""
    copyreg.pickle(kind, lambda value: (kind, tuple(getattr(value, name) for name in names)))


_register(
    _C.Options,
    "auto_shard_policy",
    "deterministic",
    "num_threads",
    "prefetch",
    "prefetch_bytes",
    "on_error",
    "seed",
)
_register(_C.Skip, "max_count", "max_fraction")
_register(_C.InputContext, "num_input_pipelines", "input_pipeline_id", "num_replicas_in_sync")
_register(_C.ValueContext, "replica_id_in_sync_group", "num_replicas_in_sync")
