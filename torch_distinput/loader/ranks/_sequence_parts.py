# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(sequence=)`: peers of context parallelism get a part of each sequence."""

from typing import Any

from torch_distinput.distribute._sequence_cut import SequenceCut, as_sequence_cut
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.ranks._peer_dims import peer_dims


class SequenceParts:
    """What this process gets of a batch that its peers along some dims of the mesh share."""

    def __init__(self, cuts: list[tuple[SequenceCut, int, int]]):
        self._cuts = cuts

    def of(self, batch: Any) -> Any:
        """Its part of each sequence. Raises as `SequenceCut.cut`."""
        for cut, rank, size in self._cuts:
            batch = cut.cut(batch, rank, size)
        return batch


def sequence_parts(config: LoaderConfig) -> SequenceParts | None:
    """As `config.sequence` says, in the order of its names; None where batches stay whole. Raises as
    `peer_dims` and `as_sequence_cut`."""
    if config.sequence is None:
        return None
    cuts = []
    why = "only processes that get the same rows can share their sequences"
    for name, given, rank, size in peer_dims(config, "sequence", '{"cp": 1}', why):
        cut = as_sequence_cut("DataLoader", f"sequence[{name!r}]", given)
        if size > 1:
            cuts.append((cut, rank, size))
    return SequenceParts(cuts)
