# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The preprocessing layers against the recordings of Keras; what differs on purpose is in layer_differences.py."""

import fnmatch

import pytest
from goldens import Mismatch, cases_of, check_all, layers
from goldens.layer_differences import DIFFERENCES, Difference

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
