# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ops that make one dataset of several."""

from collections.abc import Sequence
from typing import Any

from torch_distinput import _C
from torch_distinput.base._arguments import count, number, optional_integer, optional_text, sequence, text
from torch_distinput.base._structure import map_leaves
from torch_distinput.ops._base import Dataset, Ops, checked_native, native_of
from torch_distinput.ops._description import described
from torch_distinput.typing import SharesOf, StopOn


def _weights_entry(op: str, name: str, value: Any) -> float | tuple[int, list[float]]:
    """A weight, or an entry of a schedule of weights."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return number(op, name, value)
    if len(value) != 2:
        raise ValueError(f"{op}: `{name}` must be a number or a pair (step, weights), but is {value!r}.")
    return count(op, f"{name}[0]", value[0]), sequence(op, f"{name}[1]", value[1], number)


class CombiningOps(Ops[Dataset]):
    """What `Dataset` does with several datasets."""

    @classmethod
    @described
    def zip(cls, structure: Any) -> Dataset:
        """Elements of several datasets side by side; ends with the shortest dataset.

        Args:
            structure: tuples and dicts with a Dataset at each leaf; an element of the result has the element of that
                dataset in its place.

        >>> [(int(a), int(b)) for a, b in tdi.Dataset.zip((tdi.Dataset.range(3), tdi.Dataset.range(5, 7)))]
        [(0, 5), (1, 6)]
        """
        natives = map_leaves(lambda leaf: native_of(leaf) if isinstance(leaf, Ops) else leaf, structure)
        return cls._wrapped(_C.Dataset.zip(natives))

    @classmethod
    @described
    def sample_from_datasets(
        cls,
        datasets: Sequence[Dataset],
        weights: Sequence[float] | Sequence[tuple[int, Sequence[float]]] | None = None,
        seed: int | None = None,
        stop_on: StopOn = "all",
        *,
        by: SharesOf = "elements",
        key: str | None = None,
        elements_per_step: int | None = None,
    ) -> Dataset:
        """Each element comes from a dataset drawn at random; a dataset that has ended is not drawn again.

        Args:
            datasets: datasets with elements of one type. Random access if all of them have it.
            weights: the share of each dataset, at least 0; None: equal shares. They need not add up to 1. Each dataset
                has its share of any first n elements within a few elements, until one ends. Pairs `(step, weights)`
                change them: the first is for step 0, steps increase, and each dataset goes on after its last element.
                A dataset without weight waits; where all others have ended, the next weights hold before their step.
            seed: makes the draws reproducible; None uses the seed of the options, else one that is drawn once.
            stop_on: "all" ends when all datasets have ended; the others go on by their weights when one has. "first"
                ends before a dataset would be drawn that has ended, after the same number of elements in every epoch.
                A dataset that is to be drawn again from its start needs `repeat`.
            by: with "tokens", weights are shares of the rows along dim 0 of a leaf: elements are drawn by weight over
                the mean length of a dataset's elements. Lengths must be known without reading, as those of files of
                tokens and of `with_lengths` are; shares are right in the mean, and off by as much as lengths vary.
            key: the entry with the tokens, where elements have several leaves.
            elements_per_step: elements of a step of `weights`; None: a step is a batch of the first op after it that
                makes batches (also a DataLoader's), and without one an element.

        >>> mixed = tdi.Dataset.sample_from_datasets([tdi.Dataset.range(3), tdi.Dataset.range(10, 12)], seed=1)
        >>> sorted(int(number) for number in mixed)
        [0, 1, 2, 10, 11]
        """
        op = "sample_from_datasets"
        given = [] if weights is None else sequence(op, "weights", weights, _weights_entry)
        if weights is not None and not given:
            raise ValueError(f"{op}: `weights` must have one entry for each dataset, but is empty.")
        schedule = [entry for entry in given if isinstance(entry, tuple)]
        shares = [entry for entry in given if not isinstance(entry, tuple)]
        if schedule and shares:
            raise ValueError(f"{op}: `weights` must be numbers or pairs (step, weights), but has both.")
        natives = sequence(op, "datasets", datasets, checked_native)
        seed, stop = optional_integer(op, "seed", seed), text(op, "stop_on", stop_on)
        per_step = optional_integer(op, "elements_per_step", elements_per_step)
        unit, leaf = text(op, "by", by), optional_text(op, "key", key)
        native = _C.Dataset.sample_from_datasets(natives, shares, schedule, per_step, seed, stop, unit, leaf)
        return cls._wrapped(native)

    @classmethod
    @described
    def choose_from_datasets(cls, datasets: Sequence[Dataset], choice: Dataset) -> Dataset:
        """Element k comes from dataset number `choice[k]`.

        Args:
            datasets: datasets with elements of one type.
            choice: a dataset of int64 scalars from 0 to below `len(datasets)`; another index is a ValueError, and
                another type a TypeError: when the iterator is made where there is random access, else when it is
                reached.

        Ends with `choice`, or when the chosen dataset has ended. Random access if `choice` and all datasets have
        it; the choices of an epoch are then read first. More than 2**27 of them, or choices and datasets without
        end, are read in order.

        >>> odd, even = tdi.Dataset.range(1, 9, 2), tdi.Dataset.range(0, 9, 2)
        >>> chosen = tdi.Dataset.choose_from_datasets([even, odd], tdi.Dataset.from_tensor_slices([0, 0, 1]))
        >>> [int(number) for number in chosen]
        [0, 2, 1]
        """
        op = "choose_from_datasets"
        natives = sequence(op, "datasets", datasets, checked_native)
        return cls._wrapped(_C.Dataset.choose_from_datasets(natives, checked_native(op, "choice", choice)))

    @described
    def concatenate(self, other: Dataset) -> Dataset:
        """The elements of this dataset, then those of `other`, which must have elements of the same type.

        >>> [int(number) for number in tdi.Dataset.range(2).concatenate(tdi.Dataset.range(7, 9))]
        [0, 1, 7, 8]
        """
        return self._wrapped(self._native.concatenate(checked_native("concatenate", "other", other)))
