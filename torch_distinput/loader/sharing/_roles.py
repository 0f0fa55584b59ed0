# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Whether ranks that agree on each step of their streams all read, or all take what others read."""

import torch.distributed as dist

from torch_distinput.distribute._store_values import posted_values
from torch_distinput.loader.sharing._sharing import SharingError

_READS, _FOLLOWS = "reads", "follows"


class Roles:
    """The roles of the ranks `dealt` of the job, of which `rank` is this one, in their part of the store."""

    def __init__(self, store: dist.Store, rank: int, dealt: list[int]):
        self._store, self._rank, self._dealt = store, rank, dealt

    def check(self, follows: bool, timeout: float) -> None:
        """Compares this rank's role with that of the one before it: all are the same where each is the same as that.
        Raises SharingError where it is not, because a rank that reads would wait for the steps of one that does not;
        and where that rank does not begin to read within `timeout` seconds."""
        mine, before = _FOLLOWS if follows else _READS, self._dealt[self._dealt.index(self._rank) - 1]
        self._store.set(str(self._rank), mine)
        late = (
            f"DataLoader: rank {before} is dealt rows with this one, but has not begun to read them within "
            f"{timeout:g} s (`peer_timeout`)."
        )
        (theirs,) = posted_values(self._store, [str(before)], timeout, late)
        if theirs == mine.encode():
            return
        other, own = ("takes", "reads") if mine == _READS else ("reads", "takes")
        raise SharingError(
            f"DataLoader: with `share`, all ranks that streams are dealt to must read them, or all must take what "
            f"their peers read, but rank {self._rank} {own} and rank {before} {other}, because the peers of one are "
            "on one host and those of the other are not: start as many ranks on each host as make their peers lie "
            'alike, or pass `share="broadcast"`.'
        )
