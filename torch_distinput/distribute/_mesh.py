# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The processes of a DeviceMesh that rows are dealt to, and those that get the same rows.

torchtitan's, Accelerate's, Lightning's and torch's own meshes name the dims that rows are dealt along as `DATA_DIMS`
says, and those whose processes work on one replica of the model together as `MODEL_DIMS` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from torch_distinput import _C

DATA_DIMS, MODEL_DIMS = tuple(_C.data_dims()), tuple(_C.model_dims())

# Groups over several dims by their ranks: torch keeps every group that is made.
_groups: dict[tuple[int, ...], dist.ProcessGroup] = {}


@dataclass(frozen=True)
class MeshPlace:
    """Where this process stands in a mesh.

    Attributes:
        dims: the names that rows are dealt along, without those of one process; empty where all get all rows.
        group: the processes that rows are dealt to, by coordinate.
        peers: ranks of the default group that get the same rows, in the mesh's order, with this process's own.
        others: coordinate and size along each dim that `peers` differ in.
    """

    dims: tuple[str, ...]
    group: dist.ProcessGroup
    peers: tuple[int, ...]
    others: dict[str, tuple[int, int]]

    def described(self, share: str | None = None) -> str:
        """In a line, for reports. `share`: as of a DataLoader."""
        rows = f"rows are dealt along {', '.join(self.dims)}" if self.dims else "all processes get all rows"
        if len(self.peers) == 1:
            return rows
        how = {None: "each by its own reads", "node": "read once on each host"}.get(share, "read once for all of them")
        return f"{rows}; ranks {', '.join(map(str, self.peers))} get the same ones, {how}"


def place_in(op: str, name: str, mesh: dist.DeviceMesh, data_dims: Sequence[str] | None) -> MeshPlace:
    """Raises ValueError, naming `op` and its argument `name`, for a process outside of the mesh, and for dims whose
    meaning nothing tells."""
    coordinates = mesh.get_coordinate()
    if coordinates is None:
        raise ValueError(f"{op}: this process (rank {dist.get_rank()}) does not belong to `{name}`.")
    names = _names_of(op, name, mesh)
    chosen = _data_dims(op, names, mesh, data_dims)
    real = [dim for dim in range(mesh.ndim) if mesh.size(dim) > 1 and not _is_fake(mesh, dim)]
    along = [dim for dim in real if names[dim] in chosen]
    across = [dim for dim in real if names[dim] not in chosen]
    return MeshPlace(
        dims=tuple(names[dim] for dim in along),
        group=_group_along(op, name, mesh, along),
        peers=tuple(_ranks_along(mesh, across)),
        others={names[dim]: (coordinates[dim], mesh.size(dim)) for dim in across},
    )


def _names_of(op: str, name: str, mesh: dist.DeviceMesh) -> tuple[str, ...]:
    if mesh.mesh_dim_names is not None:
        return mesh.mesh_dim_names
    if mesh.ndim > 1:
        raise ValueError(
            f"{op}: `{name}` is a mesh of {mesh.ndim} dims without names, so that nothing says along which of them "
            "rows are dealt; make it with `mesh_dim_names=`."
        )
    return ("",)


def _data_dims(op: str, names: tuple[str, ...], mesh: dist.DeviceMesh, given: Sequence[str] | None) -> tuple[str, ...]:
    if given is not None:
        given = (given,) if isinstance(given, str) else tuple(given)
        unknown = [dim for dim in given if dim not in names]
        if unknown:
            raise ValueError(
                f"{op}: `data_dims` names {unknown[0]!r}, but the dims of the mesh are {', '.join(map(repr, names))}."
            )
        return given
    if mesh.ndim == 1 and names[0] not in MODEL_DIMS:
        return names
    for dim, name in enumerate(names):
        if name not in DATA_DIMS and name not in MODEL_DIMS and mesh.size(dim) > 1:
            raise ValueError(
                f"{op}: nothing says whether rows are dealt along {name!r} of a mesh of {', '.join(map(repr, names))}; "
                f"pass `data_dims=`. Known are {', '.join(DATA_DIMS)}, and {', '.join(MODEL_DIMS)}, whose processes "
                "get the same rows."
            )
    return tuple(name for name in names if name in DATA_DIMS)


def _is_fake(mesh: dist.DeviceMesh, dim: int) -> bool:
    """Whether no other process is behind this dim."""
    return dist.get_backend(mesh.get_group(dim)) == "fake"


def _ranks_along(mesh: dist.DeviceMesh, dims: list[int]) -> list[int]:
    """The ranks that differ from this process in these dims only, by their coordinates in the mesh's order."""
    here = mesh.get_coordinate()
    assert here is not None, "checked by the caller"
    index = tuple(slice(None) if dim in dims else here[dim] for dim in range(mesh.ndim))
    ranks: torch.Tensor = mesh.mesh[index]
    return ranks.flatten().tolist()


def _group_along(op: str, name: str, mesh: dist.DeviceMesh, dims: list[int]) -> dist.ProcessGroup:
    """The group of the processes that differ in these dims only. Their ranks in it are their coordinates, because peers
    must agree on who gets which rows."""
    ranks = _ranks_along(mesh, dims)
    if ranks != sorted(ranks):
        raise ValueError(
            f"{op}: ranks {ranks} of `{name}` must be in ascending order along the dims that rows are dealt along, as "
            "`init_device_mesh` makes them, because torch sorts the ranks of a group."
        )
    if len(dims) == 1:
        return mesh.get_group(dims[0])
    if len(ranks) == dist.get_world_size():
        return dist.group.WORLD  # type: ignore[return-value]  # it is initialised
    key = tuple(ranks)
    if key not in _groups:
        # Only its own members make it. What its processes exchange are bytes of the host.
        backend = "fake" if dist.get_backend() == "fake" else "gloo"
        _groups[key] = dist.new_group(ranks, backend=backend, use_local_synchronization=True)
    return _groups[key]
