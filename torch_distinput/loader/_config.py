# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""This library's arguments of a DataLoader: where its code reads them, and where others see them.

Subclasses written for torch's class have attributes of their own, and some have the names of arguments of ours. So the
library reads its arguments from one frozen object under a private name. The public names only show them: a subclass's
own attribute, property or method of that name takes the place of what is shown.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from torch_distinput.typing import Order, Split, Tail

if TYPE_CHECKING:
    from torch_distinput.loader._data_loader import DataLoader


_Value = TypeVar("_Value")


@dataclass(frozen=True)
class LoaderConfig:
    """The arguments of a DataLoader that torch's has not, with the defaults of its constructor.

    `tail_given`: whether the user passed `tail`, of which None means "zero_rows".
    """

    distributed: bool | Any = None
    global_batch_size: int | None = None
    device: str | torch.device | None = None
    split: Split = "balanced"
    tail: Tail = "zero_rows"
    seed: int | None = None
    with_info: bool = False
    prefetch_bytes: int | None = None
    peer_timeout: float = 300.0
    order: Order | None = None
    snapshot_every_n_steps: int | None = None
    tail_given: bool = False


ARGUMENTS = tuple(field.name for field in fields(LoaderConfig) if field.name != "tail_given")


class Shown(Generic[_Value]):
    """A public name that a subclass may take for itself: without `__set__`, so that an attribute of the loader comes
    before it. `value(loader)` is what the name shows."""

    def __init__(self, value: Callable[[Any], _Value]):
        self._value = value
        self.__doc__ = value.__doc__

    def __get__(self, loader: Any, owner: type) -> _Value:
        return self if loader is None else self._value(loader)  # type: ignore[return-value]


def argument(name: str) -> Any:
    """Shows an argument where the constructor was torch's only, which leaves the default."""
    return Shown(lambda loader: getattr(loader._loader_config, name))


def configure(loader: DataLoader, config: LoaderConfig) -> None:
    """Gives `loader` its arguments. They are shown as attributes of the loader, from which frameworks copy it, unless
    the subclass has its own."""
    before = loader._loader_config
    for name in ARGUMENTS:
        found = loader.__dict__.get(name, before)
        shows = found is before or found is getattr(before, name)
        if shows and isinstance(inspect.getattr_static(type(loader), name), Shown):
            loader.__dict__[name] = getattr(config, name)
    loader.__dict__["_loader_config"] = config


def refuses(loader: DataLoader, name: str) -> bool:
    """Whether `name` is one of the arguments, and no subclass of the user's may have an attribute of that name."""
    return name in ARGUMENTS and type(loader).__module__.partition(".")[0] == "torch_distinput"
