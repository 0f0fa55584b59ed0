# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`PerReplicaSpec`, the type of a `PerReplica`."""

from typing import Any


class PerReplicaSpec:
    """The type of a `PerReplica`: one spec for each replica of this process. Comparable, hashable, picklable.

    >>> tdi.PerReplicaSpec(tdi.TensorSpec((2,)), tdi.TensorSpec((1,))).specs[1].shape
    (1,)
    """

    __slots__ = ("specs",)

    def __init__(self, *specs: Any):
        self.specs = specs

    def __eq__(self, other: object) -> bool:
        return self.specs == other.specs if isinstance(other, PerReplicaSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash((PerReplicaSpec, self.specs))

    def __repr__(self) -> str:
        return f"PerReplicaSpec({', '.join(map(repr, self.specs))})"

    def __reduce__(self) -> tuple:
        return PerReplicaSpec, self.specs
