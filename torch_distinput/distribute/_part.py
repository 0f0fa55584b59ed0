# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The part of a step that a process gets without exchanging anything with others."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch_distinput import _C
from torch_distinput.distribute._multi_worker import MultiWorkerMirroredStrategy
from torch_distinput.distribute._strategy import NativeStrategy


@dataclass(frozen=True)
class Part:
    """Part `index` of `count`, in the place of a process group: it has a rank and a size."""

    index: int
    count: int

    def rank(self) -> int:
        return self.index

    def size(self) -> int:
        return self.count


WHOLE = Part(0, 1)


class PartStrategy(MultiWorkerMirroredStrategy):
    """Gives one process part `part` of each global batch, by arithmetic alone. Not for `reduce` and `gather`."""

    def __init__(self, part: Part, devices: Sequence[str]):
        self._group, self._dimension = None, None
        NativeStrategy.__init__(self, _C.PartStrategy(part.index, part.count, list(devices)))
