# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The state of a rank under policy STREAMS in parts, one for each of its streams and one that all ranks share.

A checkpoint that is loaded by key then brings each rank the streams that are dealt to it now, on any number of ranks.
"""

from typing import Any

from torch_distinput.loader.state._check import STATE

SHARED = "all_streams"
_OF_RANK = ("cursor", "row", "input")
_FROM_START = {"element": 0, "part": 0, "part_rows": 0, "row": 0, "ended": False}


def parts_of(state_dict: dict[str, Any]) -> dict[str, Any] | None:
    """The state of a rank by the names of its parts; None where policy STREAMS is not applied. The part of the rank's
    first stream has what belongs to no stream: its rows so far, and its functions of batches."""
    position = state_dict[STATE].get("distributed")
    if not isinstance(position, dict) or position.get("policy") != "STREAMS":
        return None
    streams = _streams_in(position)
    shared = {name: value for name, value in position.items() if name not in (*_OF_RANK, "streams")}
    parts: dict[str, Any] = {SHARED: state_dict[STATE] | {"distributed": shared, "count": streams["count"]}}
    own: dict[int, dict[str, Any]] = {stream: {"ended": False} for stream in range(streams["begin"], streams["end"])}
    for ended in streams["ended"]:
        own |= {stream: {"ended": True} for stream in range(ended["begin"], ended["end"])}
    for begun in streams["begun"]:
        own[begun["stream"]] = {"ended": False, "begun": begun}
    if own:
        own[streams["begin"]]["rank"] = _rank_of(position, streams)
    return parts | {_name(stream): part for stream, part in own.items()}


def state_of_parts(parts: dict[str, Any], here: dict[str, Any]) -> dict[str, Any]:
    """The state with which the rank whose state is `here` goes on in the streams that it reads. `parts`: all that
    `parts_of(here)` names, from all ranks of a run after the same step. Raises ValueError for others."""
    if parts_of(here) is None:
        raise ValueError("load_state_dict: saved under policy STREAMS, but it is not applied here; see `explain()`.")
    own = _streams_in(here[STATE]["distributed"])
    names = {stream: _name(stream) for stream in range(own["begin"], own["end"])}
    lacking = [name for name in (SHARED, *names.values()) if name not in parts]
    if lacking:
        raise ValueError(f"load_state_dict: the state must have the key {lacking[0]!r}, but has {sorted(parts)}.")
    try:
        loader = dict(parts[SHARED])
        count, shared = loader.pop("count"), loader["distributed"]
        if count != own["count"]:
            raise ValueError(f"load_state_dict: saved of {count} streams, but here the data has {own['count']}.")
        position = _position_in(shared, {stream: parts[name] for stream, name in names.items()}, here[STATE], own)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"load_state_dict: the state is damaged: {type(error).__name__}: {error}.") from error
    return {STATE: loader | {"distributed": position}}


def _position_in(shared: dict[str, Any], parts: dict[int, Any], here: dict[str, Any], own: dict[str, Any]) -> Any:
    ranks = [part["rank"] for part in parts.values() if "rank" in part]
    begun = [part["begun"] for part in parts.values() if "begun" in part]
    streams = {
        "count": own["count"],
        "begin": own["begin"],
        "end": own["end"],
        "turns": max([0, *(rank["streams"]["turns"] for rank in ranks), *(at["turn"] for at in begun)]),
        "ended": [{"begin": stream, "end": stream + 1} for stream, part in parts.items() if part["ended"]],
        "begun": begun,
    }
    sampled = [rank["streams"]["sampled"] for rank in ranks if "sampled" in rank["streams"]]
    if sampled:
        streams["sampled"] = [sum(counts) for counts in zip(*sampled, strict=True)]
    world = here["distributed"]["ranks"]
    if len(ranks) == 1 and shared["ranks"] == world and _same(ranks[0]["streams"], own):
        return shared | _with_streams(ranks[0]["own"], streams)
    rows = sum(rank["own"]["row"] for rank in ranks)
    return shared | {"ranks": world, "row": rows, "cursor": _FROM_START, "streams": streams}


def _rank_of(position: dict[str, Any], streams: dict[str, Any]) -> dict[str, Any]:
    """What the state of a rank has besides its streams."""
    of_all = {name: value for name, value in streams.items() if name not in ("ended", "begun")}
    own: dict[str, Any] = {name: position[name] for name in _OF_RANK if name in position}
    return {"own": _with_streams(own, None), "streams": of_all}


def _streams_in(position: dict[str, Any]) -> dict[str, Any]:
    """The states of the streams, which the ops of the rank's batches read; at the start, of those to be read."""
    at = position["input"]["state"] if "input" in position else position
    while "streams" not in at:
        at = at["input"]
    return at["streams"]


def _with_streams(position: dict[str, Any], streams: Any) -> dict[str, Any]:
    """A copy of `position` with other `streams`."""

    def replaced(at: dict[str, Any]) -> dict[str, Any]:
        return at | ({"streams": streams} if "streams" in at else {"input": replaced(at["input"])})

    if "input" not in position:
        return position | {"streams": streams}
    return position | {"input": position["input"] | {"state": replaced(position["input"]["state"])}}


def _same(streams: dict[str, Any], own: dict[str, Any]) -> bool:
    return all(streams[name] == own[name] for name in ("count", "begin", "end"))


def _name(stream: int) -> str:
    return f"stream_{stream}"
