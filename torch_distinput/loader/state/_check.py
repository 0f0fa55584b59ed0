# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks a state of a DataLoader: all fields, before any of them is used."""

import re
import reprlib
from collections.abc import Callable
from typing import Any, get_args

import torch
import torch.distributed as dist

from torch_distinput.datasets._dataset import Dataset
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._draws import draws_from_torch, sampler_generator
from torch_distinput.loader.orders._exact_sampler import group_size_and_rank
from torch_distinput.loader.orders._exchanged import is_own_stream
from torch_distinput.loader.orders._order import StockOrder, stock_order
from torch_distinput.loader.state._native_state import wrong_kind
from torch_distinput.loader.state._position import order_of, size_of, stateful_sampler
from torch_distinput.recognize._stateful import has_state
from torch_distinput.typing import Split, Tail

STATE = "torch_distinput.DataLoader"
VERSION = 3

# The kinds of data that ranks read, by the names that states have for them.
_KINDS = {
    "native": "whose rows native code copies",
    "indices": "whose rows Python makes",
    "stream": "that each rank reads from a stream or sampler of its own",
}

_TORCHDATA = "_iterator_finished"  # a field of every state of torchdata's

Rule = tuple[str, Callable[[Any], bool]]


def state_of(config: LoaderConfig, state_dict: Any, runs_pipeline: Callable[[], bool]) -> dict[str, Any]:
    """The state inside `state_dict`, as this version writes it. Raises ValueError for a newer version and for what this
    class did not write. `runs_pipeline`: whether the next iterator of the loader runs a native pipeline."""
    op = "load_state_dict"
    state = state_dict.get(STATE) if isinstance(state_dict, dict) else None
    if state is None and isinstance(state_dict, dict) and _TORCHDATA in state_dict:
        raise ValueError(
            f"{op}: this is a state of torchdata's StatefulDataLoader, whose position in an epoch this class cannot "
            "take over. Read the rest of that epoch with StatefulDataLoader, and use this class from the next epoch "
            "on: `set_epoch` with its number, and states of its own."
        )
    if not isinstance(state, dict):
        raise ValueError(
            f"{op}: not a state of torch_distinput.DataLoader: it needs the key {STATE!r}, but has "
            f"{sorted(map(str, state_dict)) if isinstance(state_dict, dict) else type(state_dict).__name__}."
        )
    _check_fields(state, {"version": _whole(1)}, others=True)
    if state["version"] > VERSION:
        raise ValueError(f"{op}: the state is of version {state['version']}, but this library reads up to {VERSION}.")
    found = {name: value for name, value in state.items() if name != "version"}
    if state["version"] < 3 and "distributed" not in found:
        found["permutation"] = _permutation_of_older(config, found, runs_pipeline)
    return _upgraded(config, found) if state["version"] == 1 and "distributed" in found else found


def _upgraded(config: LoaderConfig, state: dict[str, Any]) -> dict[str, Any]:
    """Adds to a state of ranks of version 1 what it lacks: what decides its order, and the rank whose stream it is of.
    Removes the op that had the dataset's class as its name."""
    position = state["distributed"]
    if isinstance(position, dict) and state.get("kind") == "stream":
        position = position | {"rank": group_size_and_rank(config.ranks if config.distributed else True)[1]}
    elif isinstance(position, dict) and isinstance(position.get("pipeline"), list):
        position = position | {"pipeline": [op for op in position["pipeline"] if not str(op).startswith("zip({")]}
    return state | {"distributed": position} | order_of(config)


def _permutation_of_older(config: LoaderConfig, state: dict[str, Any], runs_pipeline: Callable[[], bool]) -> str | None:
    """The permutation of a state older than version 3, which does not name it: that of the loader's own path."""
    order = stock_order(config.batch_sampler)
    if order is None or not _draws_permutation(order, state):
        return None
    torchs = config.order == "torch" or not runs_pipeline()
    return "torch" if torchs else "native"


def _draws_permutation(order: StockOrder, state: dict[str, Any]) -> bool:
    """Whether `state` stands inside an epoch that has drawn a permutation of `order`, which its rest needs."""
    begun = type(state.get("rows")) is int and state["rows"] > 0 and state.get("finished") is False
    return order.shuffle and state.get("seed") is None and begun


def check(config: LoaderConfig, state: dict[str, Any], runs_pipeline: Callable[[], bool]) -> dict[str, Any]:
    """A copy of `state`, which must fit this loader; raises ValueError that names the field, the rule and the value."""
    if "distributed" not in state and config.distributed:
        raise ValueError("load_state_dict: a loader with `distributed` cannot load the state of one without it.")
    if "distributed" in state and not config.distributed:
        _check_one_process()
    if "distributed" in state:
        _check_distributed(config, state, runs_pipeline)
    else:
        _check_plain(config, state, runs_pipeline)
    return dict(state)


def _check_one_process() -> None:
    """Raises ValueError in a group, where each process would read the whole rest."""
    world = dist.get_world_size() if dist.is_initialized() else 1
    if world > 1:
        raise ValueError(
            "load_state_dict: the state is of a loader with `distributed`, which this one lacks: in a group of "
            f"{world} processes, each would read all of the rest. Pass `distributed=True`."
        )


def _check_plain(config: LoaderConfig, state: dict[str, Any], runs_pipeline: Callable[[], bool]) -> None:
    # A state has `order` only if the loader was given one; older states lack `num_batches`.
    state = {"order": None, "num_batches": None, "failed": None} | state
    size = size_of(config)
    of_its_type = (f"the dataset's number of rows, {size}", lambda value: type(value) is type(size))
    _check_fields(state, {"size": of_its_type}, others=True)
    _check_size(state["size"], size)
    _check_fields(state, _plain_rules(config, state))
    _check_seed(config, state["seed"])
    _check_parts(config, state, runs_pipeline)
    if state["native"] is not None:
        _check_native("native", state["native"])
    if state["finished"]:
        return
    workers = state["num_workers"]
    if config.is_stream and state["native"] is None and workers != config.num_workers:
        raise ValueError(
            f"load_state_dict: the state is of a stream in {workers} worker processes, but the loader has "
            f"num_workers={config.num_workers}, with which each worker reads another share of the stream; use "
            f"num_workers={workers}."
        )
    if state["workers"] is not None and workers != config.num_workers:
        raise ValueError(
            f"load_state_dict: the state holds states of the dataset in {workers} worker processes, but the loader has "
            f"num_workers={config.num_workers}."
        )


def _plain_rules(config: LoaderConfig, state: dict[str, Any]) -> dict[str, Rule]:
    order = stock_order(config.batch_sampler)
    drawn = order is not None and _draws_permutation(order, state)
    permutation = ("'torch' or 'native', which has drawn the order", lambda value: value in ("torch", "native"))
    torchs = torch.default_generator if draws_from_torch(config) else None
    generators = torchs, config.generator, sampler_generator(config)
    return {
        "epoch": _whole(0),
        "finished": _FLAG,
        "batches": _whole(0),
        "num_batches": _optional(_whole(0)),
        "failed": _FAILED,
        "rows": _whole(0, None if order is None else order.size),
        "num_workers": _whole(0),
        "size": _ANY,  # compared above
        "seed": _optional(_whole(0, 2**64 - 1)),
        "base_seed": _optional(_whole(-(2**63))),
        "reused": _FLAG,
        "rng": _generator_rule("torch's generator", generators[0]),
        "generator": _generator_rule("the loader's generator", generators[1]),
        "sampler_generator": _generator_rule("the sampler's generator", generators[2]),
        "first": ("None or states of the generators", lambda value: value is None or _are_states(value, generators)),
        "dataset": _ANY,
        "stream": _ANY,
        "ended": _FLAG,
        "sampler": _ANY,
        "workers": ("None or a dict of the states in workers", lambda value: value is None or isinstance(value, dict)),
        "native": ("None or a dict", lambda value: value is None or isinstance(value, dict)),
        "permutation": permutation if drawn else _optional(permutation),
        "order": (f"the loader's, {config.order!r}", lambda value: value == config.order),
    }


def _check_parts(config: LoaderConfig, state: dict[str, Any], runs_pipeline: Callable[[], bool]) -> None:
    """Checks that `state` has exactly those states of dataset, stream, sampler, workers and pipeline that it needs."""
    if state["workers"] is not None:
        _check_fields(state["workers"], _workers_rules(state["num_workers"]), "workers.")
    if (state["native"] is None) == (isinstance(config.dataset, Dataset) and runs_pipeline()):
        raise ValueError(
            "load_state_dict: a loader over a pipeline of torch_distinput cannot load the state of one over other "
            "data, and vice versa."
        )
    reads_stream = config.is_stream and state["native"] is None
    if state["stream"] is not None and (not reads_stream or state["num_workers"] > 0):
        raise _unfit("stream", "", False, state["stream"])
    stateful = has_state(config.dataset)
    if stateful != (state["dataset"] is not None or state["workers"] is not None):
        raise _unfit("dataset", "a state of the dataset", stateful, state["dataset"])
    sampler = stateful_sampler(config) is not None
    if sampler != (state["sampler"] is not None):
        raise _unfit("sampler", "a state of the sampler", sampler, state["sampler"])


def _unfit(field: str, what: str, wanted: bool, value: Any) -> ValueError:
    rule = f"{what}, which has `state_dict` and `load_state_dict`" if wanted else "None, because it has no state here"
    return ValueError(f"load_state_dict: `{field}` must be {rule}, but is {_shown(value)}.")


def _check_native(field: str, native: dict[str, Any]) -> None:
    found = wrong_kind(native)
    if found is not None:
        place, words, value = found
        raise ValueError(f"load_state_dict: `{field}.{place}` must be {words}, but is {_shown(value)}.")


def _workers_rules(count: int) -> dict[str, Rule]:
    flags = (f"a list of {count} bools", lambda value: _is_list(value, count) and all(type(x) is bool for x in value))
    return {
        "states": (f"a list of {count} states", lambda value: _is_list(value, count)),
        "begun": flags,
        "ended": flags,
        "last": _whole(0, count - 1),
    }


def _check_seed(config: LoaderConfig, seed: int | None) -> None:
    given = None if config.seed is None else config.seed % 2**64
    ours = isinstance(config.dataset, Dataset)
    if seed == given or (ours and given is None) or (ours and seed is None):
        return
    raise ValueError(f"load_state_dict: `seed` must be the loader's, {given}, but is {seed}: it decides the order.")


def steps_in(state: dict[str, Any]) -> dict[str, Any] | None:
    """How the steps of ranks were cut; None where the state does not say. Raises ValueError where this, or what orders
    the rows, is damaged."""
    _check_fields({"steps": None} | state, {"steps": _STEPS}, others=True)
    if state.get("steps") is not None:
        _check_fields(state, _ORDER_RULES | {"distributed": _DICT_OR_DICTS}, others=True)
    return state.get("steps")


def _check_distributed(config: LoaderConfig, state: dict[str, Any], runs_pipeline: Callable[[], bool]) -> None:
    own_stream = is_own_stream(config)
    _check_fields(
        {"num_batches": None, "steps": None, "failed": None, "committed": None, "digest": None} | state,
        _ORDER_RULES
        | {
            "steps": _STEPS,
            "finished": _FLAG,
            "batches": _whole(0),
            "num_batches": _optional(_whole(0)),
            "committed": _optional(_whole(0)),
            "digest": _DIGEST,
            "failed": _FAILED,
            "kind": (f"one of {tuple(_KINDS)}", lambda value: isinstance(value, str) and value in _KINDS),
            "distributed": _DICT if own_stream else _DICT_OR_DICTS,
            "rows": ("None or a text", lambda value: value is None or isinstance(value, str)),
        },
    )
    if own_stream != (state["kind"] == "stream"):
        raise other_data(state["kind"], "stream" if own_stream else None)
    _check_order(config, state)
    position = state["distributed"]
    if not own_stream:
        for of_rank in position if isinstance(position, list) else [position]:
            _check_native("distributed", of_rank)
        return
    rules = {"step": _whole(0), "row": _whole(0), "world": _whole(1), "rank": _whole(0), "inner": _DICT}
    _check_fields(position, rules, "distributed.")
    _check_plain(config, state_of(config, position["inner"], runs_pipeline), runs_pipeline)


def other_data(saved: str, own: str | None) -> ValueError:
    """The error for a state of data of the kind `saved`, loaded over data of the kind `own`; None: not a stream, but
    not known yet which of the others."""
    here = "that the ranks share" if own is None else _KINDS[own]
    return ValueError(
        f"load_state_dict: the state is of data {_KINDS[saved]}, but the loader has data {here}. Pass the dataset, "
        "`sampler`, `collate_fn` and options of workers of the loader that was saved; `explain()` says how they decide."
    )


def _check_size(saved: int | None, here: int | None) -> None:
    if saved != here:
        raise ValueError(
            f"load_state_dict: `size` must be the same: saved over {saved} rows, but the dataset has {here}."
        )


def _check_order(config: LoaderConfig, state: dict[str, Any]) -> None:
    here = order_of(config)
    _check_size(state["size"], here["size"])
    if state["rows"] != here["rows"]:
        raise ValueError(
            f"load_state_dict: `rows` must be the same: saved over {state['rows']}, but the dataset has {here['rows']}."
        )
    for name, argument in (("shuffle", "shuffle"), ("given_seed", "seed")):
        if state[name] != here[name]:
            raise ValueError(
                f"load_state_dict: `{name}` must be the loader's `{argument}`, {here[name]}, but is {state[name]}: it "
                "decides the order."
            )


# A rule is what a value must be: in words, for messages, and as a predicate.

_ANY: Rule = ("anything", lambda value: True)
_DICT: Rule = ("a dict", lambda value: isinstance(value, dict))
_DICT_OR_DICTS: Rule = (
    "a dict, or a list of those of all ranks",
    lambda value: isinstance(value, dict) or (isinstance(value, list) and len(value) > 0 and all(map(_DICT[1], value))),
)
_FLAG: Rule = ("a bool", lambda value: type(value) is bool)
_FAILED: Rule = (
    "None or the rows that were left out, and their number over all ranks",
    lambda value: (
        value is None
        or (
            isinstance(value, dict)
            and isinstance(value.get("rows"), (list, tuple))
            and type(count := value.get("of_all_ranks")) is int
            and count >= len(value["rows"])
        )
    ),
)
_DIGEST: Rule = (
    "None or a text of 32 hexadecimal digits",
    lambda value: value is None or (isinstance(value, str) and re.fullmatch("[0-9a-f]{32}", value) is not None),
)
_STEPS: Rule = (
    "None or a dict of `batch`, `world`, `split`, `tail` and `weighted`",
    lambda value: value is None or _are_steps(value),
)


def _whole(least: int, most: int | None = None) -> Rule:
    words = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
    top = 2**63 - 1 if most is None else most
    return words, lambda value: type(value) is int and least <= value <= top


def _are_steps(value: Any) -> bool:
    rules = {
        "batch": _optional(_whole(1)),
        "world": _whole(1, 2**20),
        "split": ("", lambda split: split in get_args(Split)),
        "tail": ("", lambda tail: tail in get_args(Tail)),
        "weighted": _FLAG,
    }
    if not isinstance(value, dict) or value.keys() != rules.keys():
        return False
    return all(holds(value[name]) for name, (_, holds) in rules.items())


def _optional(rule: Rule) -> Rule:
    words, holds = rule
    return f"None or {words}", lambda value: value is None or holds(value)


# What orders the rows of ranks.
_ORDER_RULES: dict[str, Rule] = {
    "epoch": _whole(0),
    "seed": _optional(_whole(0, 2**64 - 1)),
    "size": _optional(_whole(0)),
    "shuffle": _optional(_FLAG),
    "given_seed": _optional(_whole(-(2**63))),
}


def _generator_rule(whose: str, generator: torch.Generator | None) -> Rule:
    if generator is None:
        return f"None, because nothing is drawn from {whose} here", lambda value: value is None
    return f"a state of {whose}", lambda value: _is_state(value, generator)


def _is_state(value: Any, generator: torch.Generator | None) -> bool:
    """Whether `value` is a state that `generator` accepts; None for no generator."""
    if generator is None or value is None:
        return generator is None and value is None
    try:
        torch.Generator(generator.device).set_state(value)
    except (TypeError, RuntimeError):
        return False
    return True


def _are_states(value: Any, generators: tuple[torch.Generator | None, ...]) -> bool:
    return _is_list(value, len(generators)) and all(map(_is_state, value, generators))


def _is_list(value: Any, size: int) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == size


def _check_fields(state: dict[str, Any], rules: dict[str, Rule], prefix: str = "", others: bool = False) -> None:
    for name, (words, holds) in rules.items():
        if name not in state:
            raise ValueError(f"load_state_dict: `{prefix}{name}` must be {words}, but the state lacks it.")
        if not holds(state[name]):
            raise ValueError(f"load_state_dict: `{prefix}{name}` must be {words}, but is {_shown(state[name])}.")
    unknown = state.keys() - rules.keys()
    if unknown and not others:
        raise ValueError(f"load_state_dict: no state has a field {min(map(str, unknown))!r}.")


def _shown(value: Any) -> str:
    return f"a tensor of {tuple(value.shape)}" if isinstance(value, torch.Tensor) else reprlib.repr(value)
