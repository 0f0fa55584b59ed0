# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Applies tests/goldens/deliberate_differences.json: the wanted outcome where it differs from the recorded one.

A rule takes a copy of a case's `out` and returns the wanted one. Rules are keyed by the first id pattern of an entry.
"""

import copy
import fnmatch
import functools
import json
from typing import Any

import torch
from places import GOLDENS

from goldens import cases_of

NO_END = {"for_end": "StopIteration", "get_next_end": {"error": "OutOfRangeError"}, "optional_end": "empty optional"}


@functools.cache
def entries() -> list[dict]:
    return json.loads((GOLDENS / "deliberate_differences.json").read_text())["differences"]


def wanted(case: dict) -> dict:
    """The case's `out` after every rule whose pattern matches its id."""
    out = copy.deepcopy(case["out"])
    for entry in entries():
        rule = RULES.get(entry["ids"][0])
        patterns = entry["ids"] + ALSO.get(entry["ids"][0], [])
        if rule is not None and any(fnmatch.fnmatchcase(case["id"], pattern) for pattern in patterns):
            out = rule(case, out)
    for pattern, rule in OURS.items():
        if fnmatch.fnmatchcase(case["id"], pattern):
            out = rule(case, out)
    return out


def rows_of(value: Any) -> int:
    """The number of rows of a rendered part: dim 0 of its first leaf."""
    if isinstance(value, list):
        return len(value)
    if isinstance(value, dict):
        if "shape" in value:
            return value["shape"][0] if value["shape"] else 1
        if "tuple" in value:
            return rows_of(value["tuple"][0])
        if "map" in value:
            return rows_of(next(iter(value["map"].values())))
    return 1


def _mixed_sources(case: dict, out: dict) -> dict:
    """L8: the outcome of policy DATA; recorded for the zip, computed for the rest."""
    for twin in cases_of("op_autoshard"):
        same = {key: value for key, value in twin["in"].items() if key != "policy"}
        if twin["in"]["policy"] == "DATA" and same == {k: v for k, v in case["in"].items() if k != "policy"}:
            return {**out, **copy.deepcopy(twin["out"])}
    rows = [row for part in case["in"]["dataset"]["of"] for row in _rows_of_recipe(part)]
    workers = case["in"]["W"]
    return {**out, "per_worker": [{"stream": rows[worker::workers]} for worker in range(workers)]}


def _zipped_over_processes(case: dict, out: dict) -> dict:
    """L8 over processes: each batch of pairs in ceil(rows / replicas), part r * W + w for replica r of worker w."""
    given = case["in"]
    workers, local = given["W"], given["R"]
    pairs = list(zip(*(_rows_of_recipe(part) for part in given["dataset"]["of"])))
    batch = given["dataset"]["ops"][0][1]["n"]
    steps = []
    for first in range(0, len(pairs), batch):
        rows = pairs[first : first + batch]
        size = -(-len(rows) // (workers * local))
        places = [r * workers + w for w in range(workers) for r in range(local)]
        steps.append([_columns(rows[place * size : (place + 1) * size], 2) for place in places])
    return {**_indexed_files(case, out), "steps": steps, "n_steps": len(steps), "present": "all"}


def _columns(rows: list[tuple], count: int) -> dict:
    columns = [[row[column] for row in rows] or {"shape": [0]} for column in range(count)]
    return {"tuple": columns}


def _rows_of_recipe(recipe: dict) -> list:
    return list(range(recipe["n"])) if recipe["src"] == "range" else sum(recipe["files"], [])


def _indexed_files(case: dict, out: dict) -> dict:
    """L26: the exact number where files are indexed and every op knows its cardinality."""
    count = _count(case["in"]["dataset"]) if out.get("cardinality") == -2 else None
    return out if count is None else {**out, "cardinality": count}


def _count(recipe: dict) -> int | None:
    parts = [_count(part) for part in recipe.get("of", [])]
    if recipe["src"] == "zip" and None not in parts:
        count = min(parts)
    elif recipe["src"] in ("files", "range"):
        count = len(_rows_of_recipe(recipe))
    else:
        return None
    for name, arguments in recipe.get("ops", []):
        if name in ("batch", "ragged_batch", "padded_batch"):
            count = count // arguments["n"] if arguments.get("drop") else -(-count // arguments["n"])
        elif name == "repeat" and arguments.get("count", -1) >= 0:
            count *= arguments["count"]
        elif name != "map":
            return None
    return count


def trim_steps(case: dict, out: dict) -> dict:
    """L7: no steps without rows at the end, of a step table or of the workers' streams taken together."""
    for key in ("steps", "optional_steps", "get_next_steps"):
        while isinstance(out.get(key), list) and out[key] and not any(map(rows_of, out[key][-1])):
            out[key].pop()
    if "n_steps" in out:
        out["n_steps"] = len(out["steps"])
    if "per_worker" in out:
        streams = trim_streams([worker["stream"] for worker in out["per_worker"]], case["in"]["R"])
        out["per_worker"] = [{**worker, "stream": stream} for worker, stream in zip(out["per_worker"], streams)]
    return out


def trim_streams(streams: list[list], replicas: int) -> list[list]:
    """Cuts the workers' streams after the last step in which a worker has a row."""
    last = max((k // replicas for stream in streams for k, part in enumerate(stream) if rows_of(part)), default=-1)
    return [stream[: (last + 1) * replicas] for stream in streams]


def _scalars(case: dict, out: dict) -> dict:
    refused = {"error": "ValueError"}
    if "distribute_error" in out:
        return {"distribute_error": refused}
    if isinstance(out.get("for_end"), dict):
        return {**out, "for_end": refused, "get_next_end": refused, "optional_end": refused}
    return out


def _none_leaf(case: dict, out: dict) -> dict:
    """No driver fails; the one that failed gets the steps of the others."""
    failed = {key for key, end in out.items() if key in NO_END and end != NO_END[key] and isinstance(end, dict)}
    steps = out["steps"] + _lost_steps(case, out)
    again = {"optional_steps": steps} if "optional_end" in failed else {}
    return {**out, **{key: NO_END[key] for key in failed}, "steps": steps, **again}


def _lost_steps(case: dict, out: dict) -> list:
    """The steps that every driver failed to deliver: whole batches of a range, as from_function yields them."""
    if len(out["steps"]) == len(out["present"]) or case["in"].get("api") != "distribute_datasets_from_function":
        return []
    rows, batch = case["in"]["dataset"]["n"], case["in"]["dataset"]["ops"][-1][1]["n"]
    first = len(out["steps"]) * case["in"]["R"] * batch
    starts = [first + batch * replica for replica in range(case["in"]["R"])]
    parts = [list(range(start, min(start + batch, rows))) or {"shape": [0]} for start in starts]
    return [[{"tuple": [part, None]} for part in parts]]


def _known_inner_dims(case: dict, out: dict) -> dict:
    """L14: a dummy part has the inner dims of the parts that hold data."""
    if case["id"] != "from_function/mat_partly_known_dummy":
        return out
    inner = torch.tensor(out["steps"][0][0]).shape[1:]
    known = {"shape": [0, *inner]}
    steps = [[known if part == {"shape": [0, 0, 0]} else part for part in step] for step in out["steps"]]
    return {**out, "steps": steps}


def _killed(case: dict, out: dict) -> dict:
    """The case whose process died, and sizes that are all 0, with which the original never ends."""
    if case["in"].get("call") == "gather" and "process_killed_by_signal" in out:
        return {"value": {"shape": [0]}, "shape": [0], "dtype": case["in"]["dtype"]}
    out = _poisoned(case, out)
    no_sizes = "sizes" in case["in"] and case["in"]["sizes"] == [0]
    return {"error": "ValueError"} if "process_killed_by_signal" in out or no_sizes else out


def _poisoned(case: dict, out: dict) -> dict:
    """Gathers that the recorder ran in a process which an earlier case had broken.

    TensorFlow reports that error for every later collective of the process, valid or not: "The error could be from a
    previous operation. Restart your program to reset." In a process of its own the call does what concatenation does.
    """
    if "could be from a previous operation" not in out.get("message", ""):
        return out
    return _concatenated(case)


def _concatenated(case: dict) -> dict:
    """The result of gathering the case's values in a process of its own."""
    given, dtype = numbers_of(case["in"]["values"]), getattr(torch, case["in"]["dtype"])
    values = [torch.tensor(one) if isinstance(one, list) else torch.zeros(one["shape"]) for one in given]
    try:
        value = torch.cat([one.to(dtype) for one in values], case["in"]["axis"])
    except RuntimeError:
        return {"error": "InvalidArgumentError", "message": "the shapes differ"}
    shown = value.tolist() if value.numel() else {"shape": list(value.shape)}
    return {"value": json.loads(json.dumps(shown).replace("NaN", '"NaN"')), "shape": list(value.shape)} | {
        "dtype": case["in"]["dtype"]
    }


def numbers_of(values: Any) -> Any:
    if isinstance(values, list):
        return [numbers_of(value) for value in values]
    return float("nan") if values == "NaN" else values


def _parallel_batch(case: dict, out: dict) -> dict:
    """The outcome of the same case without num_parallel_calls, where one was recorded."""
    plain = without_parallel(case["in"])
    if plain == case["in"]:
        return out
    if "batch_size" in out:
        return {"batch_size": plain["dataset"]["ops"][0][1]["n"]}
    for twin in cases_of("mirrored_split") + cases_of("mirrored_named"):
        if twin["in"] == plain:
            return {**out, **copy.deepcopy(twin["out"])}
    raise LookupError(f"{case['id']}: no case without `parallel` was recorded")


def without_parallel(value: Any) -> Any:
    """A case's input with `num_parallel_calls` left out everywhere."""
    if isinstance(value, dict):
        return {key: without_parallel(part) for key, part in value.items() if key != "parallel"}
    return [without_parallel(part) for part in value] if isinstance(value, list) else value


def _sparse_empty(case: dict, out: dict) -> dict:
    """The steps of the same rows as strings, each row the sparse vector of its number."""
    twin = json.loads(json.dumps(case["in"]).replace('"sparse"', '"string"'))
    recorded = next(other["out"] for other in cases_of("mirrored_named") if other["in"] == twin)
    steps = [[_sparse_rows(part) for part in step] for step in recorded["steps"]]
    return {**out, **NO_END, "steps": steps, "n_steps": len(steps)}


def _sparse_rows(strings: Any) -> dict:
    rows = [int(string) for string in strings] if isinstance(strings, list) else []
    indices = [[place, column] for place, row in enumerate(rows) for column in range(row % 4)]
    values = [row + 1 for row in rows for _ in range(row % 4)]
    return {"sparse": {"indices": indices, "values": values, "dense_shape": [len(rows), 4]}}


def _one_ragged_dim(case: dict, out: dict) -> dict:
    """A batch of ragged rows would have two ragged dims, which is an error here."""
    return {**out, "stream": [], "end": {"error": "ValueError"}}


def _negative_axis(case: dict, out: dict) -> dict:
    """The original's range op fails on them; here they count from the last dimension, as in `reduce`."""
    has_dims = all(isinstance(one, (list, dict)) for one in case["in"]["values"])
    return _concatenated(case) if has_dims else out


RULES = {
    "mw/*": trim_steps,
    "protocol/card_*": _indexed_files,
    "mw/zip_file_range_*": _mixed_sources,  # for the entry's other patterns; OURS has the rule for processes
    "named/scalars*": _scalars,
    "named/with_none*": _none_leaf,
    "reduce/*": _killed,
    "from_function/mat_partly_known_dummy": _known_inner_dims,
    "infer/batch_parallel*": _parallel_batch,
    "named/sparse_empty_*": _sparse_empty,
}

# Differences of our own that the list does not name.
OURS = {
    "v2_special/ragged*": _one_ragged_dim,
    "mw/zip_file_range_*": _zipped_over_processes,
    "gather/*_-1": _negative_axis,
}

# The sizes that the entry names were recorded under another name.
ALSO = {"reduce/*": ["v2_special/*", "gather2/*"]}

# Entries without a rule: a test of that name asserts them, or their cases are pending or not among the goldens here.
ELSEWHERE = {
    "protocol/error_in_pipeline_*": "test_protocol.py",
    "protocol/*": "test_protocol.py",
    "protocol/graph_*": "test_protocol.py",
    "protocol/len": "test_protocol.py",
    "spec/*": "recipes.py declares what tracing would see",
    "infer/*forget_*": "recipes.py declares the forgotten shape",
    "filestream/*": "test_files.py",
    "from_function/options_*": "test_streams.py",
    "mw_error*/infinite_on_*": "no such topic here",
    "v1/has_experimental_run_v2": "test_v1.py",
}
