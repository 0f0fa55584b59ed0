# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Says in one line where a state stands."""

from collections.abc import Mapping
from typing import Any


def place_of(state: Mapping[str, Any]) -> str:
    """The place of a loader's or an iterator's state, such as "epoch 0, batch 2 of 4, 64 of 100 rows". Leaves out what
    the state lacks, or has with a wrong type."""
    epoch, rank, world = _number(state, "epoch"), *_numbers(_inner(state, "distributed"), "rank", "world")
    parts = [] if epoch is None else [f"epoch {epoch}"]
    parts += _batches(state) if _number(state, "batches") is not None else _elements(state)
    parts += [] if rank is None or world is None else [f"rank {rank} of {world}"]
    return ", ".join(parts + ["ended"] * (state.get("finished") is True))


def described_iterator(iterator: Any, path: str, start: Any, position: Any) -> str:
    """An iterator of a loader in one line: its class, path, epoch and batch. Never raises: it may be half made."""
    words = [path]
    try:
        place = {"epoch": start.epoch, "batches": start.batches + position.yielded, "finished": position.finished}
        words.append(place_of(place | {"num_batches": position.num_batches}))
    except Exception:  # noqa: BLE001 - it has no position yet
        words.append("not open")
    return f"{type(iterator).__name__}({', '.join(words)})"


def counted(count: int, noun: str) -> str:
    """ "1 row", "2 rows"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _batches(state: Mapping[str, Any]) -> list[str]:
    """Batches and rows of a loader's state."""
    batch, total, rows, size = _numbers(state, "batches", "num_batches", "rows", "size")
    native, ranks = _inner(state, "native"), _inner(state, "distributed")
    if ranks:
        rows = _number(ranks, "row")
    elif native:
        rows = _number(_inner(native, "position"), "row")
    elif total is None:  # the rows of a batch are not known
        rows = None
    batches = f"batch {batch}" if total is None else f"batch {batch} of {total}"
    return [batches, *_rows(rows, size, " over all ranks" if "rank" in ranks else "")]


def _elements(state: Mapping[str, Any]) -> list[str]:
    """Steps or elements of a native iterator's state, and the rows in them."""
    place = _inner(state, "position")
    steps, elements = _number(state, "step"), _number(place, "position")
    parts = [counted(steps, "step")] if steps is not None else []
    parts += [counted(elements, "element")] if elements is not None else []
    return parts + _rows(_number(place if steps is None else state, "row"), None, "")


def _rows(rows: int | None, size: int | None, whose: str) -> list[str]:
    if rows is None:
        return []
    return [(counted(rows, "row") if size is None else f"{rows} of {counted(size, 'row')}") + whose]


def _inner(state: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = state.get(name)
    return value if isinstance(value, Mapping) else {}


def _number(state: Mapping[str, Any], name: str) -> int | None:
    value = state.get(name)
    return value if type(value) is int else None


def _numbers(state: Mapping[str, Any], *names: str) -> list[int | None]:
    return [_number(state, name) for name in names]
