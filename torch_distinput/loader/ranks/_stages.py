# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(stages=)`: pipeline stages that need no rows take their steps without them."""

from typing import Any

from torch_distinput.distribute._distributed import native_of
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.ranks._peer_dims import peer_dims
from torch_distinput.loader.ranks._plan import Plan


def check_stages(config: LoaderConfig, plan: Plan) -> None:
    """Raises ValueError on all ranks where some stages cannot take their steps without reading rows."""
    if config.stages is None:
        return
    advice = "pass data with random access, whose rows are known before they are read, or leave `stages` out."
    if plan.dataset is None:
        raise ValueError(f"DataLoader: `stages` leaves out rows, but only who reads this stream knows them: {advice}")
    try:
        native_of(plan.dataset).iterate(epoch=0, seed=0, with_rows=False)
    except ValueError as error:
        raise ValueError(f"DataLoader: `stages` leaves out rows: {error} So {advice}") from None
    if plan.follows is not None:
        raise ValueError(
            f"DataLoader: `stages` cannot follow a {type(plan.follows[0]).__name__} that reads the batch sampler of "
            "the loader."
        )


def needs_rows(config: LoaderConfig) -> bool:
    """Whether this process is in a stage that gets rows. Raises as `peer_dims`, and ValueError for other values than
    "ends"."""
    if config.stages is None:
        return True
    needed = True
    why = "each of its processes needs its own"
    for name, which, stage, stages in peer_dims(config, "stages", '{"pp": "ends"}', why):
        if which != "ends":
            raise ValueError(
                f'DataLoader: stages[{name!r}] must be "ends", the first stage and the last one, but is {which!r}.'
            )
        needed = needed and stage in (0, stages - 1)
    return needed


def peers_with_rows(config: LoaderConfig) -> tuple[int, ...]:
    """The ranks that get the same rows as this one, without those in stages that get none."""
    place = config.mesh_place
    assert place is not None, "checked by the caller"
    if config.stages is None:
        return place.peers
    mesh: Any = config.distributed
    dims = [mesh.mesh_dim_names.index(name) for name in config.stages]

    def has_rows(rank: int) -> bool:
        coordinates = (mesh.mesh == rank).nonzero()[0]
        return all(coordinates[dim].item() in (0, mesh.size(dim) - 1) for dim in dims)

    return tuple(rank for rank in place.peers if has_rows(rank))
