# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where the preprocessing layers do something else than Keras on purpose: ids, the reason, and what is wanted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from goldens import cases_of


@dataclass(frozen=True)
class Difference:
    """`wanted` makes the outcome from the case; None: the case has no counterpart here."""

    ids: tuple[str, ...]
    reason: str
    wanted: Callable[[dict], dict] | None


def is_now(**out: Any) -> Callable[[dict], dict]:
    return lambda case: out


def refused(error: str, stage: str) -> Callable[[dict], dict]:
    return is_now(error=error, stage=stage)


def over_the_last_dim(case: dict) -> dict:
    """Shape and dtype; the values too where Keras reduced a dim of 1, so that its result still has each vector."""
    out, sizes = case["out"], case["in"]["input"]["shape"]
    wanted = {"dtype": out["dtype"], "shape": [*sizes[:-1], out["shape"][-1]]}
    if sizes[1] == 1:
        join = max if case["in"]["args"]["output_mode"] == "multi_hot" else lambda column: sum(column)
        wanted["values"] = [[[join(column) for column in zip(*vectors)]] for vectors in out["values"]]
    return wanted


def as_int64(case: dict) -> dict:
    """The outcome of the twin case with int32."""
    twin = case["id"].replace("uint8", "int32")
    return next(other["out"] for other in cases_of("preprocessing") if other["id"] == twin)


def weighted_counts(case: dict) -> dict:
    """The recorded counts times the weights, the first of which is their mean."""
    twin = next(other for other in cases_of("preprocessing") if other["id"] == "TextVectorization/sparse/count")
    weights = case["in"]["args"]["idf_weights"]
    weights = [sum(weights) / len(weights), *weights]
    sparse = twin["out"]["sparse"]
    values = [value * weights[place[1]] for value, place in zip(sparse["values"], sparse["indices"])]
    return {"sparse": {**sparse, "values": values}, "dtype": "float32"}


def without(*keys: str) -> Callable[[dict], dict]:
    return lambda case: {key: value for key, value in case["out"].items() if key not in keys}


DIFFERENCES: list[Difference] = [
    Difference(
        ("*/symbolic/*",),
        "There are no symbolic tensors; `Dataset.element_spec` tells shape and dtype, which are those of a call: "
        "int64 for vectors of look-ups, which Keras promises as float32.",
        None,
    ),
    Difference(
        ("*/shape/multi_hot_r3_*", "*/shape/count_r3_*", "IntegerLookup/shape/tf_idf_r3_*"),
        "Keras documents that the last dim is reduced, and reduces dim 1 where there are three.",
        over_the_last_dim,
    ),
    Difference(
        ("TextVectorization/shape/tf_idf_r3",),
        "As above: each text becomes one vector; Keras makes a vector of each token.",
        is_now(shape=[2, 1, 6], values=[[[0.3, 0.0, 0.0, 0.3, 0.0, 0.0]], [[0.0, 0.1, 0.0, 0.0, 0.4, 0.0]]]),
    ),
    Difference(
        ("CategoryEncoding/range/*",),
        "Keras drops indices out of range without a word; the rows would be wrong and nobody would know.",
        refused("InvalidArgumentError", "call"),
    ),
    Difference(
        ("CategoryEncoding/sparse/multi_hot_e0x3", "CategoryEncoding/sparse/count_e0x3"),
        "Batches without rows work everywhere.",
        is_now(sparse={"indices": [], "values": [], "dense_shape": [0, 4]}, dtype="float32"),
    ),
    Difference(
        ("HashedCrossing/shape/int_e0x1",), "Batches without rows work everywhere.", is_now(shape=[0, 1], dtype="int64")
    ),
    Difference(("StringLookup/input_as/list_empty",), "An empty list has no tokens.", is_now(shape=[0], dtype="int64")),
    Difference(("CategoryEncoding/dtype/*_uint8",), "All integer types work.", as_int64),
    Difference(
        ("HashedCrossing/error/bins*",),
        "`num_bins` is checked when the layer is made; Keras takes 0 and returns whole hashes.",
        refused("ValueError", "init"),
    ),
    Difference(
        ("Discretization/boundaries/unsorted", "Discretization/boundaries/decreasing"),
        "Boundaries are checked when the layer is made.",
        refused("ValueError", "init"),
    ),
    Difference(
        ("Discretization/boundaries/huge",),
        "TensorFlow takes a denormal boundary for 0.",
        lambda case: {**case["out"], "values": [1, 1, *case["out"]["values"][2:]]},
    ),
    Difference(
        ("Hashing/sparse_in/*", "StringLookup/sparse_in/*"), "There are no sparse tensors of strings in torch.", None
    ),
    Difference(("HashedCrossing/error/ragged",), "A list of rows of one length is no ragged value.", None),
    Difference(
        ("StringLookup/ragged/int_3d",),
        "Values have one ragged dim, as torch's jagged tensors.",
        refused("ValueError", "call"),
    ),
    Difference(
        ("StringLookup/ragged/multi_hot_uniform_inner",),
        "Keras reduces dim 1 and fills the rows that are missing with the smallest integer.",
        is_now(ragged=[[[0, 1, 1, 0, 0]], [], [[1, 0, 0, 1, 0], [0, 0, 0, 0, 1]]], dtype="int64"),
    ),
    Difference(
        ("StringLookup/sparse_out/tf_idf",),
        "Keras cannot make sparse tf-idf vectors.",
        is_now(
            sparse={"indices": [[0, 0], [0, 1], [1, 3], [1, 4]], "values": [0.5, 0.5, 0.6, 0.8], "dense_shape": [2, 5]},
            dtype="float32",
        ),
    ),
    Difference(("TextVectorization/sparse/tf_idf",), "As above.", weighted_counts),
    Difference(
        ("TextVectorization/sparse/one_hot",),
        "Ragged rows of sparse vectors cannot be made; the error says so.",
        refused("ValueError", "call"),
    ),
    Difference(
        ("StringLookup/adapt/max2_oov2_maskMASK",),
        "`max_tokens` leaves no room; Keras drops as many tokens from the end as there are too few places.",
        refused("InvalidArgumentError", "adapt"),
    ),
    Difference(("TextVectorization/ngrams/zero",), "Widths are at least 1.", refused("ValueError", "init")),
    Difference(
        ("TextVectorization/unicode/not_utf8_adapt",),
        "`get_vocabulary` raises ValueError, which is the base of Keras' UnicodeDecodeError.",
        without("vocabulary"),
    ),
    Difference(
        ("Normalization/dtype_arg/adapt_float16",),
        "Sums are in double precision, where Keras sums in float16.",
        without("values", "mean", "variance"),
    ),
]
