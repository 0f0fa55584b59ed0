# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ops that keep elements or read them ahead, and the options of how a pipeline runs."""

from torch_distinput import _C
from torch_distinput.base._arguments import flag, instance, integer
from torch_distinput.ops._base import Dataset, Ops
from torch_distinput.ops._description import described


class BufferingOps(Ops[Dataset]):
    """How the elements of a `Dataset` are read."""

    @described
    def cache(self, *, shared: bool = False) -> Dataset:
        """Keeps elements in memory once they were read; later epochs take them from there.

        What comes before `cache` always runs as in epoch 0, so put `shuffle` after it.

        Args:
            shared: the ranks that a launcher has started on this host, and the processes that they fork, keep one copy
                together: each row is made by the rank that needs it first. All must make the same rows: ValueError
                where those of two ranks differ, of which it looks at one row each. Needs random access, and leaves that
                are tensors or strings.

        >>> list(tdi.Dataset.range(2).map(lambda n: n * 10).cache())
        [tensor(0), tensor(10)]
        """
        return self._wrapped(self._native.cache(flag("cache", "shared", shared)))

    @described
    def prefetch(self, buffer_size: int) -> Dataset:
        """Reads up to `buffer_size` elements ahead on another thread; -1: the library chooses the number."""
        return self._wrapped(self._native.prefetch(integer("prefetch", "buffer_size", buffer_size)))

    @described
    def with_options(self, options: _C.Options) -> Dataset:
        """The dataset with `options`; of several calls, the later one wins field by field.

        >>> tdi.Dataset.range(3).with_options(tdi.Options(seed=1)).options().seed
        1
        """
        return self._wrapped(self._native.with_options(instance("with_options", "options", options, _C.Options)))
