# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Peers of a mesh compare the batches that they get.

Each posts one digest every 32 steps, and reads those that all have posted 32 steps before, so that nobody waits for a
peer that is less than 32 steps behind. All peers see the same digests and raise the same error.
"""

from __future__ import annotations

import contextlib
import hashlib
from functools import cached_property
from typing import Any

import torch.distributed as dist

from torch_distinput import _C
from torch_distinput.distribute._mesh import MeshPlace
from torch_distinput.distribute._store_values import posted_values
from torch_distinput.loader.ranks._batch_digest import BatchDigest

EVERY = 32  # steps
_DIGEST, _NO_ROWS = ", digest ", "of no rows"
_LONGEST = 500  # characters of a failure that peers are told


class Peers:
    """The ranks of a loader that get the same rows as this one. All of them make their loaders and begin to read their
    iterators in the same order, which numbers the keys of the store."""

    _loaders: dict[tuple[int, ...], int] = {}

    def __init__(self, place: MeshPlace):
        self.ranks, self.rank, self._iterators = place.peers, dist.get_rank(), 0
        loader = self._loaders[self.ranks] = self._loaders.get(self.ranks, 0) + 1
        name = hashlib.sha1(repr(self.ranks).encode()).hexdigest()[:16]
        self._loader, self._prefix = loader, f"tdi/peers/{name}/{loader}"

    def next_store(self) -> dist.Store:
        """The part of the store for the next iterator."""
        self._iterators += 1
        return self.store(str(self._iterators))

    def store(self, part: str) -> dist.Store:
        """The part `part` of this loader's store."""
        return dist.PrefixStore(f"{self._prefix}/{part}", dist.distributed_c10d._get_default_store())

    def job_store(self, part: str) -> dist.Store:
        """The part `part` of the store that this loader has on all ranks of the job."""
        return dist.PrefixStore(f"tdi/{part}/{self._loader}", dist.distributed_c10d._get_default_store())


class PeerCheck:
    """Compares the steps of one iterator with those of its peers. `timeout`: seconds that a peer may be late.
    `with_rows`: this process gets rows; else only counts are compared."""

    def __init__(self, peers: Peers, timeout: float, with_rows: bool = True):
        self._peers, self._timeout, self._with_rows = peers, timeout, with_rows
        self._steps = self._rows = self._posted = 0
        self._looked_at: tuple[str, BatchDigest | None] | None = None
        self._ended = False

    def after_step(self, info: _C.StepInfo, batch: Any) -> None:
        """Looks at one step of `EVERY`. Raises DistributedDatasetError where peers got another batch, or none."""
        if self._steps % EVERY == 0:
            self._post_and_compare()
            counts = f"step {info.step} of epoch {info.epoch} with {info.valid[0]} of {info.global_valid} rows"
            self._looked_at = f"{counts} after {self._rows} rows", BatchDigest(batch) if self._with_rows else None
        self._steps += 1
        self._rows += info.valid[0]

    def at_end(self) -> None:
        """Compares what is left, and the number of steps: waits for all peers to come to their ends."""
        if self._ended:
            return
        self._ended = True
        self._post_and_compare()
        self._looked_at = f"the end after {self._steps} steps and {self._rows} rows", None
        self._post_and_compare()
        self._compare(self._posted - 1)

    def leave(self, failure: str | None = None) -> None:
        """Tells peers that go on, and only them, that no more steps are taken, and the failure that is the reason. Does
        not wait."""
        if self._ended or not self._steps:
            return
        self._ended = True
        why = "" if failure is None else f", because it failed: {failure[:_LONGEST]}"
        with contextlib.suppress(RuntimeError):  # the store is gone, and peers see that, too
            self._post()
            self._looked_at = f"no step after {self._steps} steps{why}", None
            self._post()

    @cached_property
    def _store(self) -> dist.Store:
        return self._peers.next_store()

    def _post(self) -> None:
        """Posts what was looked at last."""
        if self._looked_at is not None:
            (what, digest), self._looked_at = self._looked_at, None
            said = _NO_ROWS if digest is None else digest.value()
            self._store.set(self._key(self._posted, self._peers.rank), f"{what}{_DIGEST}{said}")
            self._posted += 1

    def _post_and_compare(self) -> None:
        """Posts what was looked at last, and compares what was posted before it."""
        self._post()
        if self._posted > 1:
            self._compare(self._posted - 2)
        # All peers have posted what was just compared, and before that read what is two before it.
        if self._posted > 4:
            self._store.delete_key(self._key(self._posted - 5, self._peers.rank))

    def _compare(self, number: int) -> None:
        late = (
            f"DataLoader: ranks {_listed(self._peers.ranks)} get the same rows of the mesh, but within "
            f"{self._timeout:g} s (`peer_timeout`) not all of them took step {number * EVERY} of their iterators."
        )
        keys = [self._key(number, rank) for rank in self._peers.ranks]
        values = posted_values(self._store, keys, self._timeout, late)
        if _agree(values):
            return
        ranks: dict[bytes, list[int]] = {}
        for rank, value in zip(self._peers.ranks, values):
            ranks.setdefault(value, []).append(rank)
        said = [f"rank {_listed(of)}: {value[: 2 * _LONGEST].decode(errors='replace')}" for value, of in ranks.items()]
        raise _C.DistributedDatasetError(
            f"DataLoader: ranks {_listed(self._peers.ranks)} must get the same rows of the mesh, but got "
            f"{'; '.join(said)}. Give all of them the same data and the same seed."
        )

    @staticmethod
    def _key(number: int, rank: int) -> str:
        return f"{number}/{rank}"


def _agree(values: list[bytes]) -> bool:
    """Whether peers posted the same counts, and those with rows the same digest."""
    counts, _, digests = zip(*(value.rpartition(_DIGEST.encode()) for value in values), strict=True)
    return len(set(counts)) == 1 and len({*digests} - {_NO_ROWS.encode()}) <= 1


def _listed(ranks: Any) -> str:
    return ", ".join(map(str, ranks))
