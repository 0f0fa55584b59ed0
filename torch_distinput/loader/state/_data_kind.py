# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The kinds of data that ranks read, by the names that states have for them."""

from __future__ import annotations

KINDS = {
    "native": "whose rows native code copies",
    "indices": "whose rows Python makes",
    "stream": "that each rank reads from a stream or sampler of its own",
}


def other_data(saved: str, own: str | None) -> ValueError:
    """The error for a state of data of the kind `saved`, loaded over data of the kind `own`; None: not a stream, but
    not known yet which of the others."""
    here = "that the ranks share" if own is None else KINDS[own]
    return ValueError(
        f"load_state_dict: the state is of data {KINDS[saved]}, but the loader has data {here}. Pass the dataset, "
        "`sampler`, `collate_fn` and options of workers of the loader that was saved; `explain()` says how they decide."
    )
