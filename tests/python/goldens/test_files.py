# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The rows of files that each worker reads, under every auto-shard policy, against the recordings."""

import itertools

import pytest
from goldens import cases_of, check_all, compare, differences, recipes, runnable

import torch_distinput as tdi

_TOO_FEW = "Could not apply FILE based sharding"


def _policy(case: dict) -> tdi.AutoShardPolicy:
    return tdi.AutoShardPolicy[case["in"]["policy"]]


def _has_too_few(case: dict) -> bool:
    return any(_TOO_FEW in worker.get("end", {}).get("message", "") for worker in case["out"]["per_worker"])


def _elements(stream: tdi.Dataset) -> list:
    return [compare.render(element) for element in itertools.islice(stream, 1000)]


def _rows(rendered: list) -> list:
    """The rows of the parts; where these are no batches, the elements."""
    parts = (part if isinstance(part, list) else [] if isinstance(part, dict) else [part] for part in rendered)
    return sorted(itertools.chain.from_iterable(parts))


def check_too_few(case: dict, streams) -> None:
    """Fewer files than workers: FILE is an error everywhere; AUTO loses no row and delivers none twice."""
    workers = range(case["in"]["W"])
    recipe = case["in"]["dataset"]
    if "files" not in recipe:
        recorded = case["out"]["per_worker"]
        got = [_elements(streams(worker)) for worker in workers]
        everything = list(map(compare.render, recipes.build(recipe)))
        for worker in workers:
            compare.expect_equal(f"worker {worker}", got[worker], everything[worker :: len(recorded)])
    elif _policy(case) == tdi.AutoShardPolicy.FILE:
        for worker in workers:
            with pytest.raises(tdi.InvalidArgumentError, match=rf"only {len(recipe['files'])} file\(s\)"):
                streams(worker)
    else:
        got = [_elements(streams(worker)) for worker in workers]
        compare.expect_equal("rows", _rows(sum(got, [])), _rows(list(map(compare.render, recipes.build(recipe)))))


def check_auto_shard(case: dict) -> None:
    given, out = case["in"], differences.wanted(case)
    dataset = recipes.build(given["dataset"])

    def stream(worker: int) -> tdi.Dataset:
        return tdi.testing.auto_shard(dataset, given["W"], worker, _policy(case))

    if "error" in out:
        compare.expect_error(out, lambda: stream(given["w"]))
    elif _has_too_few(case):
        check_too_few(case, stream)
    else:
        for worker, recorded in enumerate(out["per_worker"]):
            if "error" in recorded:
                compare.expect_error(recorded, lambda: stream(worker))
            elif "end" in recorded:
                compare.expect_error(recorded["end"], lambda: list(stream(worker)))
            else:
                compare.expect_equal(f"worker {worker}", _elements(stream(worker)), recorded["stream"])


def test_op_autoshard():
    check_all(runnable("op_autoshard"), check_auto_shard)


def check_worker_streams(case: dict) -> None:
    given, out = case["in"], differences.wanted(case)
    dataset = recipes.build(given["dataset"])

    def stream(worker: int) -> tdi.Dataset:
        return tdi.testing.worker_stream(dataset, given["W"], given["R"], worker, _policy(case))

    if _has_too_few(case):
        return check_too_few(case, stream)
    got = differences.trim_streams([_elements(stream(worker)) for worker in range(given["W"])], given["R"])
    for worker, recorded in enumerate(out["per_worker"]):
        compare.expect_equal(f"stream of worker {worker}", got[worker], recorded["stream"])


@pytest.mark.parametrize("chunk", range(4))
def test_worker_streams_files(chunk):
    check_all(runnable("worker_streams_files")[chunk::4], check_worker_streams)


def test_some_recordings_are_about_too_few_files():
    assert sum(map(_has_too_few, cases_of("worker_streams_files"))) > 10
