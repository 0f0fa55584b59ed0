# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Each worker's stream of parts, and whole steps of one process, against the recordings."""

import pytest
from goldens import check_all, compare, differences, drivers, recipes, runnable

import torch_distinput as tdi


def check_worker_streams(case: dict) -> None:
    given, out = case["in"], differences.wanted(case)
    dataset = recipes.build(given["dataset"])
    policy = tdi.AutoShardPolicy[given["policy"]]
    streams = [
        tdi.testing.worker_stream(dataset, given["W"], given["R"], worker, policy) for worker in range(given["W"])
    ]
    got = differences.trim_streams([list(map(compare.render, stream)) for stream in streams], given["R"])
    for worker, (stream, recorded) in enumerate(zip(got, out["per_worker"])):
        compare.expect_equal(f"stream of worker {worker}", stream, recorded["stream"])
    compare.expect_equal("static dim 0", streams[0].element_spec.shape[0], out["spec_dim0"])


@pytest.mark.parametrize("chunk", range(4))
def test_worker_streams(chunk):
    check_all(runnable("worker_streams")[chunk::4], check_worker_streams)


@pytest.mark.parametrize("chunk", range(2))
def test_mirrored_split(chunk):
    check_all(runnable("mirrored_split")[chunk::2], drivers.check_case)


def test_mirrored_named():
    check_all(runnable("mirrored_named"), drivers.check_case)


def check_spec(case: dict) -> None:
    distributed = drivers.distribute(case["in"])
    compare.expect_equal("element_spec", compare.render_spec(distributed.element_spec), case["out"]["element_spec"])
    assert iter(distributed).element_spec == distributed.element_spec


def test_element_spec():
    check_all(runnable("element_spec"), check_spec)
