# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Arguments of a DataLoader that say something of a mesh's dims whose processes get the same rows."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch_distinput.loader._config import LoaderConfig


def peer_dims(
    config: LoaderConfig, argument: str, example: str, why_not_data: str
) -> Iterator[tuple[str, Any, int, int]]:
    """Of each dim that `argument`, a dict by names of dims, names: the name, the value, and coordinate and size of this
    process along it. Raises TypeError and ValueError, naming the dim, for another type, and for what is no dim or one
    that rows are dealt along, which ends with `why_not_data`. `example`: a right value of the argument."""
    given = getattr(config, argument)
    if not isinstance(given, Mapping):
        raise TypeError(
            f"DataLoader: `{argument}` must be a dict by names of the mesh's dims, such as {example}, but is a "
            f"{type(given).__name__}."
        )
    place = config.mesh_place
    if place is None:
        raise ValueError(f"DataLoader: `{argument}` names dims of a DeviceMesh, which `distributed` is not.")
    mesh: Any = config.distributed
    names = mesh.mesh_dim_names or ()
    for name, value in given.items():
        if name not in names:
            raise ValueError(
                f"DataLoader: `{argument}` names {name!r}, but the dims of the mesh are {', '.join(map(repr, names))}."
            )
        if name in place.dims:
            raise ValueError(
                f"DataLoader: `{argument}` names {name!r}, along which whole rows are dealt; {why_not_data}."
            )
        yield name, value, *place.others.get(name, (0, 1))
