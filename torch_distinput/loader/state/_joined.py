# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The states of all ranks of a DataLoader as one."""

from typing import Any

from torch_distinput.loader.state._check import STATE

_EQUAL = ("version", "kind", "epoch", "batches", "finished")


def joined(states: list[Any]) -> dict[str, Any]:
    """One state of `states`, which all ranks saved after the same step; it has a list of their native positions. Raises
    ValueError for other values and for states of different steps."""
    found: list[Any] = [state.get(STATE) if isinstance(state, dict) else None for state in states]
    if not found or not all(isinstance(state, dict) and "distributed" in state for state in found):
        raise ValueError(
            "load_state_dict: not a state of torch_distinput.DataLoader: a list must have the states of all ranks of a "
            "loader with `distributed`, as `state_dict` returned them."
        )
    first = found[0]
    for name in _EQUAL:
        for state in found:
            if state.get(name) != first.get(name):
                raise ValueError(
                    "load_state_dict: the states of a list must be saved after the same step, but "
                    f"`{name}` is {first.get(name)!r} in the first and {state.get(name)!r} in another one."
                )
    return {STATE: first | {"distributed": [state["distributed"] for state in found]}}
