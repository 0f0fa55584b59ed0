# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The blocks of a dataset of Ray Data, in its order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy


class RayBlocks:
    """The blocks with rows that a dataset of Ray Data has made in the cluster's object store, which keeps them as long
    as this object exists. Raises TypeError for another object, and what the dataset's execution raises."""

    def __init__(self, ray_dataset: Any):
        kinds = {kind.__name__ for kind in type(ray_dataset).__mro__ if kind.__module__.startswith("ray.data")}
        if "Dataset" not in kinds:
            raise TypeError(
                f"from_ray: `ray_dataset` must be a ray.data.Dataset, but is a {type(ray_dataset).__name__}; a shard "
                "of one, such as `get_dataset_shard` returns, has rows of one rank: pass the whole dataset to each."
            )
        with _in_order(ray_dataset.context.execution_options):
            blocks = [block for bundle in ray_dataset.iter_internal_ref_bundles() for block in bundle.blocks]
        self._references = [block.ref for block in blocks if block.metadata.num_rows]

    def numbers(self) -> dict[str, numpy.ndarray]:
        """For each block its number, and in bytes what only this very block in the cluster has."""
        names = [numpy.frombuffer(reference.binary(), numpy.uint8) for reference in self._references]
        made = numpy.stack(names) if names else numpy.empty((0, 1), numpy.uint8)
        return {"block": numpy.arange(len(names)), "made": made}

    def columns(self, block: int) -> Any:
        """The columns of a block, as arrays whose dim 0 are its rows; those of texts have dtype object. Numbers are
        views of the store's memory where this host has the block."""
        import ray
        from ray.data.block import BlockAccessor

        return BlockAccessor.for_block(ray.get(self._references[block])).to_numpy()


@contextlib.contextmanager
def _in_order(options: Any) -> Iterator[None]:
    """Lets an execution keep the order of the rows, which Ray Data does not by default."""
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = before
