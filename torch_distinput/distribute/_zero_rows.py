# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks whether a model can take a batch of zero rows, which a replica without data in a step gets."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch_distinput._C import TensorSpec
from torch_distinput.base._arguments import function
from torch_distinput.base._spec import PerReplicaSpec
from torch_distinput.base._structure import children, map_leaves

_ADVICE = (
    'Where a layer cannot take zero rows, use InputOptions(tail="merge"), which joins a last step that lacks rows to '
    'the one before it, or tail="padded", which gives every replica full batches, or '
    "skip the layer on a replica whose `valid` is 0. docs/zero_rows.md lists what torch's layers and losses do."
)


def check_zero_rows(model: Callable, spec: Any) -> None:
    """Runs `model` forward and backward on zero rows, as a replica without data would. Does not change the model.

    Args:
        model: a module, on the device and in the mode (`train`, `eval`) in which it will be used; or any callable.
        spec: of the model's input, such as the `element_spec` of a dataset or a distributed dataset, or a part of it.
            The parts of a tuple are several arguments. Unknown inner dims count as 0, so declare them.

    Raises ValueError that names the layer that fails, or the parameter or buffer that is no longer finite; TypeError
    where `spec` holds anything but TensorSpecs.

    >>> tdi.check_zero_rows(torch.nn.Linear(20, 2), tdi.TensorSpec([None, 20]))
    """
    function("check_zero_rows", "model", model)
    arguments = map_leaves(lambda leaf: _zero_rows(leaf, _device_of(model)), spec)
    module = model if isinstance(model, torch.nn.Module) else None
    buffers = {} if module is None else {name: value.clone() for name, value in module.named_buffers()}
    watch = _Watch(module)
    devices = [tensor.device for tensor in _tensors(arguments) if tensor.device.type != "cpu"]
    try:
        with torch.random.fork_rng(devices, device_type=devices[0].type if devices else "cpu"), torch.enable_grad():
            outputs = _run("forward", watch, lambda: model(*arguments) if _is_tuple(arguments) else model(arguments))
            _check_gradients(module, outputs, watch)
        if module is not None:
            _check_finite("buffer", module.named_buffers(), "after a forward pass of zero rows")
    finally:
        watch.stop()
        with torch.no_grad():
            if module is not None:
                for name, value in buffers.items():
                    module.get_buffer(name).copy_(value)


def _zero_rows(leaf: Any, device: torch.device) -> torch.Tensor | None:
    if isinstance(leaf, PerReplicaSpec):
        leaf = leaf.specs[0]
    if leaf is None:
        return None
    if not isinstance(leaf, TensorSpec):
        raise TypeError(f"check_zero_rows: `spec` must hold TensorSpecs, but holds a {type(leaf).__name__}.")
    if not leaf.shape:
        raise ValueError(f"check_zero_rows: `spec` must have a dimension that counts rows, but holds {leaf!r}.")
    shape = [0, *(dim or 0 for dim in leaf.shape[1:])]
    return torch.zeros(shape, dtype=leaf.dtype, device=device)


def _device_of(model: Callable) -> torch.device:
    if isinstance(model, torch.nn.Module):
        for tensor in (*model.parameters(), *model.buffers()):
            return tensor.device
    return torch.device("cpu")


def _is_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and not hasattr(value, "_fields")


class _Watch:
    """Knows which layer of a module is running: the one entered last and not left."""

    def __init__(self, module: torch.nn.Module | None):
        self._inside: list[str] = []
        self._hooks = []
        for name, layer in () if module is None else module.named_modules():
            kind = f"{name} ({type(layer).__name__})" if name else type(layer).__name__
            self._hooks.append(layer.register_forward_pre_hook(lambda *_, kind=kind: self._inside.append(kind)))
            self._hooks.append(layer.register_forward_hook(lambda *_: self._inside.pop() and None))

    def layer(self) -> str:
        return f" in layer {self._inside[-1]}" if self._inside else ""

    def stop(self) -> None:
        for hook in self._hooks:
            hook.remove()


def _run(phase: str, watch: _Watch, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        raise ValueError(
            f"check_zero_rows: the {phase} pass of zero rows failed{watch.layer()}: {error} {_ADVICE}"
        ) from error


def _check_gradients(module: torch.nn.Module | None, outputs: Any, watch: _Watch) -> None:
    graph = [output for output in _tensors(outputs) if output.requires_grad]
    parameters = () if module is None else module.named_parameters()
    named = [(name, value) for name, value in parameters if value.requires_grad]
    if not graph or not named:
        return
    gradients = _run(
        "backward",
        watch,
        lambda: torch.autograd.grad(
            functools.reduce(torch.add, [one.sum() for one in graph]), [value for _, value in named], allow_unused=True
        ),
    )
    named_gradients = [(name, value) for (name, _), value in zip(named, gradients) if value is not None]
    _check_finite("gradient of parameter", named_gradients, "after a backward pass of zero rows")


def _check_finite(what: str, named: Iterable[tuple[str, torch.Tensor]], when: str) -> None:
    for name, value in named:
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise ValueError(f"check_zero_rows: the {what} '{name}' is not finite {when}. {_ADVICE}")


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in children(value) or () for tensor in _tensors(part)]
