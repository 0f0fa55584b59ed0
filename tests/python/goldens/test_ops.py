# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The splitters and the inference of the batch size against the recordings."""

import itertools

import pytest
from goldens import check_all, compare, differences, recipes, runnable

import torch_distinput as tdi


def check_sizes(case: dict) -> None:
    given, out = case["in"], case["out"]
    sizes = tdi.testing.batch_sizes_for_worker
    if "w" in given:
        compare.expect_equal("sizes", list(sizes(given["B"], given["W"], given["R"], given["w"])), out["sizes"])
        return
    got = [list(sizes(given["B"], given["W"], given["R"], worker)) for worker in range(given["W"])]
    compare.expect_equal("sizes of each worker", got, out["per_worker"])


def test_batch_sizes_for_worker():
    check_all(runnable("op_batch_sizes"), check_sizes)


def check_stream(make, out: dict) -> None:
    if "error" in out:
        compare.expect_error(out, lambda: list(make()))
        return
    stream = make()
    elements, iterator = [], iter(stream)
    end = None
    try:
        # A stream that should end soon must not keep the test from ending.
        elements = [compare.render(element) for element in itertools.islice(iterator, len(out["stream"]) + 5)]
    except Exception as error:  # noqa: BLE001
        end = error
    if isinstance(end, Exception) and "end" not in out:
        raise end
    if "end" in out:
        compare.expect_error(out["end"], lambda: list(stream))
    else:
        compare.expect_equal("stream", elements, out["stream"])
    if "spec_dim0" in out:
        compare.expect_equal("static dim 0", stream.element_spec.shape[0], out["spec_dim0"])
    if "element_spec" in out:
        compare.expect_equal("element_spec", compare.render_spec(stream.element_spec), out["element_spec"])


def check_legacy(case: dict) -> None:
    given = case["in"]
    dataset = recipes.build(given["dataset"])
    check_stream(lambda: tdi.testing.legacy_rebatch(dataset, given["N"]), case["out"])


def check_v2(case: dict) -> None:
    given = case["in"]
    dataset = recipes.build(given["dataset"])
    drop = given.get("rebatch_drop_remainder", False)
    check_stream(lambda: dataset.rebatch(given["sizes"], drop_remainder=drop), differences.wanted(case))


@pytest.mark.parametrize("chunk", range(4))
def test_legacy_splitter(chunk):
    check_all(runnable("op_legacy_split")[chunk::4], check_legacy)


@pytest.mark.parametrize("chunk", range(4))
def test_v2_splitter(chunk):
    check_all(runnable("op_v2_split")[chunk::4], check_v2)


def check_infer(case: dict) -> None:
    wanted = differences.wanted(case)["batch_size"]
    dataset = recipes.build(case["in"]["dataset"])
    if isinstance(wanted, dict):
        compare.expect_error(wanted, lambda: tdi.testing.infer_batch_size(dataset))
    else:
        compare.expect_equal("batch size", tdi.testing.infer_batch_size(dataset), wanted)


def test_inferred_batch_size():
    check_all(runnable("op_infer_batch_size"), check_infer)
