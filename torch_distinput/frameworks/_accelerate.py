# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Accelerate: `accelerator.prepare` keeps this library's DataLoader, distributed and on the accelerator's device.

Accelerate has no hook for loaders of other libraries: `prepare` rebuilds them as its own class, `skip_first_batches` as
torch's, and `gather_for_metrics` needs equal shapes on all processes. This module wraps these three functions, and the
one that `gather` calls, which ends the process where shapes differ. It does so when Accelerate first meets a loader of
this library; the wrappers pass all other loaders on to the original functions.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

import accelerate
import torch
from accelerate import data_loader as accelerates
from accelerate.state import GradientState, PartialState
from accelerate.utils import broadcast, operations, recursively_apply

from torch_distinput._C import StepInfo
from torch_distinput.frameworks._distribute import distributed_copy, draws_order
from torch_distinput.frameworks._gather import check_shapes, gather_rows, rows_that_count
from torch_distinput.loader._config import own_arguments
from torch_distinput.loader._data_loader import DataLoader, deliver_to, progress_of, skipping
from torch_distinput.loader.orders._draws import draw_seed


class _Reporter:
    """Tells Accelerate's GradientState that a loader is in use, and which step is the last one."""

    def __init__(self, loader: DataLoader):
        self._loader, self._fields = loader, loader.__dict__
        self._active = False

    def step(self, info: StepInfo) -> None:
        """Called for each step, so it only writes a field."""
        if not self._active:
            self._active = True
            self._fields["remainder"] = 0  # no row is repeated, so none must be cut off
            GradientState()._add_dataloader(self._loader)
        self._fields["end_of_dataloader"] = info.is_last

    def end(self) -> None:
        """Also called for a loop that was left early, and for an iterator that is freed."""
        if self._active:
            self._active = False
            self._fields["end_of_dataloader"] = False
            GradientState()._remove_dataloader(self._loader)


def observer_of(loader: DataLoader) -> _Reporter | None:
    """A loader that was left out of `prepare` is reported too, where the program uses Accelerate at all."""
    if not PartialState._shared_state:
        return None
    install()
    return _Reporter(loader)


def prepared(
    loader: torch.utils.data.DataLoader,
    device: torch.device | None,
    *,
    split_batches: bool = False,
    even_batches: bool = True,
    seed: int | None = None,
    mesh: Any = None,
) -> DataLoader:
    """What `prepare` makes of `loader`: itself where it is distributed already, else a distributed copy of it.

    Args:
        device: where batches arrive if the user did not say it; None: on the CPU.
        split_batches: `batch_size` is that of all processes together.
        even_batches: kept for `join_uneven_inputs`; steps are equal anyway, and no row is repeated.
        seed: of `shuffle=True` without one; None: drawn by the first process.
        mesh: the accelerator's mesh; only its data-parallel dimensions count.
    """
    install()
    if not isinstance(loader, DataLoader) or not own_arguments(loader).distributed:
        if draws_order(loader):
            seed = _seed_of(loader, seed)
        result = distributed_copy(loader, True if mesh is None else mesh, seed, device, whole_batches=split_batches)
    else:
        result = loader
        if own_arguments(result).device is None and device is not None:
            deliver_to(result, device)
    if result.batch_sampler is not None:
        result.batch_sampler.even_batches = even_batches
    result.__dict__["use_stateful_dataloader"] = True  # save_state and load_state ask for the loader's state
    return result


def _seed_of(loader: torch.utils.data.DataLoader, given: int | None) -> int:
    """The loader's own, the given one, or what the first process draws as torch's RandomSampler would."""
    own = own_arguments(loader).seed if isinstance(loader, DataLoader) else None
    if own is not None:
        return own
    drawn = draw_seed(loader.generator) if given is None else given
    return int(broadcast(torch.tensor(drawn, device=PartialState().device)))


def install() -> None:
    """Wraps Accelerate's functions, once."""
    if getattr(accelerate.Accelerator.gather_for_metrics, "_wrapped_by_torch_distinput", False):
        return
    accelerate.Accelerator.gather_for_metrics = _gathering(accelerate.Accelerator.gather_for_metrics)
    # Of all backends of torch.distributed.
    operations._gpu_gather = functools.partial(_gpu_gather, operations._gpu_gather)
    prepare = _moved_out(accelerates.prepare_data_loader, _call_prepare)
    wrappers["prepare"] = functools.partial(_prepare_data_loader, prepare)
    skip = _moved_out(accelerates.skip_first_batches, _call_skip)
    wrappers["skip"] = functools.partial(_skip_first_batches, skip)


wrappers: dict[str, Callable] = {}


def _moved_out(function: Any, instead: Any) -> Callable:
    """What `function` was, as a function of its own; `function` runs the code of `instead` from now on.

    Programs import `skip_first_batches` and `prepare_data_loader` by name, often before there is a loader. A wrapper in
    Accelerate's modules would not reach those names, so the function object itself gets other code.
    """
    original = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    function.__code__, function.__defaults__ = instead.__code__, None
    return original


def _call_prepare(*args: Any, **kwargs: Any) -> Any:  # runs among the globals of Accelerate's module
    from torch_distinput.frameworks._accelerate import wrappers

    return wrappers["prepare"](*args, **kwargs)


def _call_skip(*args: Any, **kwargs: Any) -> Any:
    from torch_distinput.frameworks._accelerate import wrappers

    return wrappers["skip"](*args, **kwargs)


def _prepare_data_loader(
    original: Callable, dataloader: Any, device: Any = None, *args: Any, split_batches: bool = False, **kwargs: Any
) -> Any:
    if not isinstance(dataloader, DataLoader):
        return original(dataloader, device, *args, split_batches=split_batches, **kwargs)
    return prepared(
        dataloader,
        device if kwargs.get("put_on_device") else None,
        split_batches=split_batches,
        even_batches=kwargs.get("even_batches", True),
        seed=kwargs.get("data_seed"),
        mesh=kwargs.get("torch_device_mesh"),
    )


def _skip_first_batches(original: Callable, dataloader: Any, num_batches: int = 0) -> Any:
    if isinstance(dataloader, DataLoader) and own_arguments(dataloader).distributed:
        return skipping(dataloader, num_batches)
    return original(dataloader, num_batches)


def _gathering(original: Callable) -> Callable:
    @functools.wraps(original)
    def gather_for_metrics(self: Any, input_data: Any, use_gather_object: bool = False) -> Any:
        loader = self.gradient_state.active_dataloader
        if not isinstance(loader, DataLoader) or progress_of(loader).info is None:
            return original(self, input_data, use_gather_object)
        input_data = rows_that_count(input_data, loader)
        if use_gather_object or not _only_tensors(input_data):
            return original(self, input_data, use_gather_object)
        return gather_rows(input_data, loader)

    gather_for_metrics.__dict__["_wrapped_by_torch_distinput"] = True
    return gather_for_metrics


def _gpu_gather(original: Callable, tensor: Any) -> Any:
    loader = GradientState().active_dataloader
    if isinstance(loader, DataLoader) and progress_of(loader).info is not None:
        shapes: list[tuple[int, ...]] = []
        recursively_apply(lambda leaf: shapes.append(tuple(leaf.shape)), tensor)
        check_shapes(shapes, loader, PartialState().device)
    return original(tensor)


def _only_tensors(value: Any) -> bool:
    try:
        recursively_apply(lambda tensor: tensor, value, error_on_other_type=True)
    except TypeError:
        return False
    return True
