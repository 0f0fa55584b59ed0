# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ops that run a function on elements, and the one that turns images into numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.base._arguments import count, flag, instance, integer, number, optional_integer, sequence, text
from torch_distinput.ops._base import Dataset, Ops
from torch_distinput.ops._description import described
from torch_distinput.ops._preprocessing_layer import native_function
from torch_distinput.ops._processes import FunctionProcesses
from torch_distinput.typing import ImageLayout


class FunctionalOps(Ops[Dataset]):
    """What `Dataset` does to change or choose elements by what they hold."""

    @described
    def map(
        self,
        fn: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool = True,
        element_spec: Any = None,
        row_wise: bool = False,
        num_workers: int | None = None,
    ) -> Dataset:
        """`fn` of each element; the parts of a tuple are passed as several arguments.

        Args:
            fn: returns a structure of tensors, numpy arrays, numbers, strings or other objects, with the same structure
                and dtypes each time. `torch_distinput.random()` inside it returns a generator for the current row. A
                layer of `torch_distinput.preprocessing` runs natively.
            num_parallel_calls: how many calls run at a time, each on a thread of its own; None calls `fn` in the
                consumer's thread.
            deterministic: False lets a result that is ready overtake one that is not.
            element_spec: a structure of specs that the results fit; None takes the type of the first result.
            row_wise: promises that the rows of a batch are independent of each other, so that each replica may run `fn`
                on its own rows only.
            num_workers: how many processes run `fn`, for functions that keep Python's lock; None runs it in this one.
                They start as `multiprocessing` starts processes by default. Forked ones have a copy of all that `fn`
                refers to; for others, Python 3.14's default, it must pickle. What `fn` gets and returns is copied, and
                what it changes elsewhere stays in its process. In a daemonic process, which may have no children, such
                as a worker of a DataLoader, `fn` runs as with None.

        An exception of `fn` is raised by the iterator, with its own type and a note that names op and element (Python
        3.11 or later); `Options.on_error` can skip such elements.

        >>> list(tdi.Dataset.range(3).map(lambda number: number + 1))
        [tensor(1), tensor(2), tensor(3)]
        """
        calls = optional_integer("map", "num_parallel_calls", num_parallel_calls)
        processes = (
            None if num_workers is None else FunctionProcesses(count("map", "num_workers", num_workers, least=1))
        )
        if processes is not None and calls is not None:
            raise ValueError(
                "map: give `num_workers`, for processes, or `num_parallel_calls`, for threads, but not both."
            )
        deterministic = flag("map", "deterministic", deterministic)
        row_wise = flag("map", "row_wise", row_wise)
        function = native_function(fn)
        if processes is not None and isinstance(function, _C.Layer):
            raise ValueError(f"map: `num_workers` is for Python functions, but {type(fn).__name__} runs natively.")
        return self._wrapped(self._native.map(function, calls, deterministic, element_spec, row_wise, processes))

    @described
    def filter(self, fn: Callable[..., Any]) -> Dataset:
        """The elements for which `fn` returns True; the parts of a tuple are passed as several arguments.

        `fn` returns a bool or a scalar tensor of bool; the iterator raises TypeError for anything else. The number of
        elements is unknown before reading.

        >>> list(tdi.Dataset.range(5).filter(lambda number: number % 2 == 1))
        [tensor(1), tensor(3)]
        """
        return self._wrapped(self._native.filter(fn))

    @described
    def flat_map(self, fn: Callable[..., Dataset]) -> Dataset:
        """The elements of the datasets that `fn` returns for the elements, one dataset after the other.

        The parts of a tuple are passed to `fn` as several arguments. All datasets must have elements of one type.

        >>> [int(number) for number in tdi.Dataset.range(4).flat_map(lambda n: tdi.Dataset.range(int(n)))]
        [0, 0, 1, 0, 1, 2]
        """
        return self._wrapped(self._native.flat_map(fn))

    @described
    def interleave(
        self,
        fn: Callable[..., Dataset],
        cycle_length: int | None = None,
        block_length: int = 1,
        num_parallel_calls: int | None = None,
        deterministic: bool = True,
    ) -> Dataset:
        """The elements of the datasets that `fn` returns for the elements; several datasets take turns.

        Args:
            fn: as in `flat_map`.
            cycle_length: how many datasets take turns; None means 4, on every machine. When one ends, the next one
                takes its place at its turn.
            block_length: how many elements of a dataset come in a row.
            num_parallel_calls: threads that call `fn` and read the datasets ahead, at most `cycle_length`; -1: one for
                each CPU; None reads in the consumer's thread.
            deterministic: False lets a dataset that is ready overtake one that is not.

        >>> rounds = tdi.Dataset.range(2).interleave(lambda n: tdi.Dataset.from_tensors(n).repeat(2))
        >>> [int(number) for number in rounds]
        [0, 1, 0, 1]
        """
        op = "interleave"
        return self._wrapped(
            self._native.interleave(
                fn,
                optional_integer(op, "cycle_length", cycle_length),
                integer(op, "block_length", block_length),
                optional_integer(op, "num_parallel_calls", num_parallel_calls),
                flag(op, "deterministic", deterministic),
            )
        )

    @described
    def normalize_images(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        dtype: torch.dtype = torch.float32,
        layout: ImageLayout = "NCHW",
    ) -> Dataset:
        """Images of uint8 as floating-point numbers: `(byte / 255 - mean) / std`, on the device that gets the batch.

        Changes every uint8 leaf with at least 3 dims a row, [..., H, W, C] or [..., C, H, W]. The last dim is the
        channels if it is as long as `mean`, else the third last one.

        Args:
            mean: an entry for each channel, for values after the division by 255.
            std: likewise.
            dtype: torch.float32, torch.float16 or torch.bfloat16. A value is one fused multiply-add in float32 with
                factors that were rounded once, then rounded to `dtype`.
            layout: of the result: "NCHW" puts the channels before height and width, "NHWC" after them.

        >>> images = tdi.Dataset.from_tensor_slices(torch.zeros(2, 4, 4, 3, dtype=torch.uint8)).batch(2)
        >>> [batch.shape for batch in images.normalize_images([0.5] * 3, [0.25] * 3)]
        [torch.Size([2, 3, 4, 4])]
        """
        op = "normalize_images"
        means, stds = sequence(op, "mean", mean, number), sequence(op, "std", std, number)
        dtype = instance(op, "dtype", dtype, torch.dtype)
        return self._wrapped(self._native.normalize_images(means, stds, dtype, text(op, "layout", layout)))
