# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where frameworks register that follow a DataLoader, so that it depends on none of them."""

from typing import Any, Protocol

from torch_distinput._C import StepInfo


class Observer(Protocol):
    """Follows one iterator of a distributed DataLoader."""

    def step(self, info: StepInfo) -> None:
        """A step is about to be handed out."""

    def end(self) -> None:
        """The last step is over; may be called several times."""


class Framework(Protocol):
    """A framework that programs may import later than this library, or not at all."""

    def meet(self) -> None:
        """A loader may be about to be handed to the framework."""

    def observer_of(self, loader: Any) -> Observer | None:
        """An observer of a new iterator of `loader`; None if the program does not use the framework."""


_frameworks: list[Framework] = []


def register(framework: Framework) -> None:
    """Adds a framework, for the life of the process."""
    _frameworks.append(framework)


def observer_of(loader: Any) -> Observer | None:
    """The observer of the first framework that has one for a new iterator of `loader`."""
    return next(filter(None, (framework.observer_of(loader) for framework in _frameworks)), None)


class AskedWhetherPrepared:
    """The attribute `_is_accelerate_prepared` of a DataLoader that is not prepared yet.

    Accelerate reads it from a loader that it is about to prepare, and sets it on one that it prepared. That read
    installs the hooks: it is the first known moment at which the program uses Accelerate with a loader of this library.
    """

    def __get__(self, loader: Any, owner: type) -> bool:
        if loader is not None:
            for framework in _frameworks:
                framework.meet()
        return False
