# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Splitters, inferred batch sizes and preprocessing layers against the recordings; layers' differences are listed."""

import fnmatch
import itertools

import pytest
from goldens import Mismatch, cases_of, check_all, compare, differences, layers, recipes, runnable
from goldens.layer_differences import DIFFERENCES, Difference

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


TOPIC = "preprocessing"
LAYERS = sorted({case["in"]["layer"] for case in cases_of(TOPIC)})

# The error classes of TensorFlow and Keras as ours; a class of theirs that has no place here is a ValueError or
# TypeError.
ERRORS = {
    "ValueError": (ValueError,),
    "TypeError": (TypeError,),
    "RuntimeError": (RuntimeError,),
    "InvalidArgumentError": (ValueError,),
    "FailedPreconditionError": (RuntimeError, ValueError),
    "OutOfRangeError": (ValueError,),
    "UnimplementedError": (TypeError, ValueError),
    "AttributeError": (ValueError,),
    "ZeroDivisionError": (ValueError,),
}


def difference_of(case: dict) -> Difference | None:
    for difference in DIFFERENCES:
        if any(fnmatch.fnmatchcase(case["id"], pattern) for pattern in difference.ids):
            return difference
    return None


def check(case: dict, folder) -> None:
    difference = difference_of(case)
    if difference is not None and difference.wanted is None:
        return
    out = case["out"] if difference is None else difference.wanted(case)
    if "error" in out:
        return check_error(case, out, folder)
    got = layers.run(case, folder, out)
    for key, wanted in out.items():
        if key in ("ragged_rank",) or (key == "shape" and "ragged" in out):
            continue
        if not layers.same(got.get(key), wanted):
            raise Mismatch(f"{key}: wanted {wanted!r}, got {got.get(key)!r}")


def check_error(case: dict, out: dict, folder) -> None:
    try:
        got = layers.run(case, folder, out)
    except layers.Stage as stage:
        if not isinstance(stage.error, ERRORS[out["error"]]) or stage.stage != out.get("stage", stage.stage):
            raise Mismatch(f"wanted {out['error']} in {out.get('stage')}, got {stage}") from stage
        return
    raise Mismatch(f"wanted {out['error']}, got {got!r}")


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.filterwarnings("ignore:Sparse invariant checks", "ignore:The PyTorch API of nested tensors")
def test_layers_do_what_keras_did(layer, tmp_path):
    cases = [case for case in cases_of(TOPIC) if case["in"]["layer"] == layer]
    check_all(cases, lambda case: check(case, tmp_path))


@pytest.mark.filterwarnings("ignore:Sparse invariant checks", "ignore:The PyTorch API of nested tensors")
def test_layers_do_what_keras_did_with_random_arguments(tmp_path):
    check_all(cases_of("preprocessing_random"), lambda case: check(case, tmp_path))


def test_every_difference_names_cases():
    ids = [case["id"] for case in cases_of(TOPIC)]
    for difference in DIFFERENCES:
        for pattern in difference.ids:
            assert fnmatch.filter(ids, pattern), f"no case has an id like {pattern}"
