# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The old spelling of `DistributedDataset.cardinality`, which was a property and is a method."""

import functools
import warnings
from typing import Any


class Cardinality(int):
    """A number that a call returns. Its use as the number itself warns."""

    def __call__(self) -> int:
        return int.__int__(self)


def _warning(name: str) -> Any:
    operation = getattr(int, name)

    @functools.wraps(operation)
    def use(self: Cardinality, *others: Any) -> Any:
        warnings.warn(
            "torch_distinput: `cardinality` of a DistributedDataset is a method: write `cardinality()`. The next "
            "release ends its use without a call.",
            DeprecationWarning,
            stacklevel=2,
        )
        return operation(self(), *others)

    return use


_KEPT = ("__new__", "__doc__", "__getattribute__", "__getnewargs__", "__sizeof__")
for _name in vars(int):
    if _name.startswith("__") and _name not in _KEPT:
        setattr(Cardinality, _name, _warning(_name))
