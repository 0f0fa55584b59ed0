# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Wrong arguments: the natural exception type, and a text that names the op, the parameter, the rule and the value."""

import numpy as np
import pytest
import torch
from refusals import RANGE, mirrored, refused

import torch_distinput as tdi

LOADER = tdi.DataLoader(torch.arange(6), batch_size=2, distributed=True)

WRONG_NUMBERS = [
    ("batch", lambda: RANGE.batch(0), "batch: `batch_size`", "at least 1", "0"),
    ("batch", lambda: RANGE.batch(-3), "batch: `batch_size`", "at least 1", "-3"),
    ("rebatch", lambda: RANGE.batch(2).rebatch(-1), "rebatch: `batch_sizes`", "-1"),
    ("rebatch", lambda: RANGE.batch(2).rebatch([]), "rebatch: `batch_sizes`", "empty"),
    ("rebatch", lambda: RANGE.batch(2).rebatch([0, 0]), "rebatch: `batch_sizes`", "0"),
    ("take", lambda: RANGE.take(-2), "take: `count`", "-2"),
    ("skip", lambda: RANGE.skip(-2), "skip: `count`", "-2"),
    ("repeat", lambda: RANGE.repeat(-2), "repeat: `count`", "-2"),
    ("shard", lambda: RANGE.shard(0, 0), "shard: `num_shards`", "0"),
    ("shard", lambda: RANGE.shard(2, 2), "shard: `index`", "2"),
    ("shard", lambda: RANGE.shard(2, -1), "shard: `index`", "-1"),
    ("shuffle", lambda: RANGE.shuffle(0), "shuffle: `buffer_size`", "at least 1", "0"),
    ("prefetch", lambda: RANGE.prefetch(-2), "prefetch: `buffer_size`", "-2"),
    ("map", lambda: RANGE.map(abs, num_parallel_calls=0), "map: `num_parallel_calls`", "0"),
    ("range", lambda: tdi.Dataset.range(0, 5, 0), "range: `step`", "0"),
    ("options", lambda: RANGE.with_options(tdi.Options(num_threads=-1)), "`num_threads`", "-1"),
    ("options", lambda: RANGE.with_options(tdi.Options(prefetch=-1)), "`prefetch`", "-1"),
    ("skip_limit", lambda: tdi.Options(on_error=tdi.Skip(max_fraction=1.5)), "`max_fraction`", "1.5"),
    ("on_error", lambda: tdi.Options(on_error="ignore"), "`on_error`", "'ignore'"),
    ("epoch", lambda: RANGE.set_epoch(-1), "set_epoch: `epoch`", "-1"),
    ("loader epoch", lambda: LOADER.set_epoch(-1), "set_epoch: `epoch`", "at least 0", "-1"),
    ("loader step", lambda: LOADER.global_valid(-3, 2), "global_valid: `step`", "at least 0", "-3"),
    ("loader steps", lambda: LOADER.global_valid(0, -1), "global_valid: `k`", "at least 1", "-1"),
]


@pytest.mark.parametrize("call", [row[1:] for row in WRONG_NUMBERS], ids=[row[0] for row in WRONG_NUMBERS])
def test_a_wrong_number_is_named_when_the_op_is_called(call):
    make, *words = call
    with refused(ValueError, *words):
        make()


WRONG_TYPES = [
    (lambda: LOADER.set_epoch("x"), "set_epoch: `epoch`", "'x'"),
    (lambda: LOADER.global_valid("x"), "global_valid: `step`", "'x'"),
    (lambda: LOADER.global_valid(0, None), "global_valid: `k`", "None"),
    (lambda: tdi.DataLoader(range(6), shuffle=True, seed="x"), "DataLoader: `seed`", "'x'"),
    (lambda: tdi.DataLoader(range(6), shuffle=True, seed=2.5), "DataLoader: `seed`", "2.5"),
    (lambda: RANGE.explain("x"), "explain: `strategy`", "a Strategy", "str"),
    (lambda: mirrored().distribute_dataset(RANGE.batch(2)).set_epoch("x"), "set_epoch: `epoch`", "'x'"),
    (lambda: mirrored().distribute_dataset(RANGE.batch(2)).reduce(0, 3), "reduce: `fn`", "int"),
    (
        lambda: tdi.distributed_mean(torch.tensor(1.0), None),
        "distributed_mean: `info`",
        "StepInfo",
        "is None",
        "last_info",
    ),
    (
        lambda: tdi.scaled_mean(torch.tensor(1.0), None, torch.ones(1)),
        "scaled_mean: `info`",
        "StepInfo",
        "is None",
        "last_info",
    ),
    (lambda: tdi.restore_order(torch.ones(2), None), "restore_order: `info`", "StepInfo", "is None", "last_info"),
]


@pytest.mark.parametrize("call", WRONG_TYPES, ids=lambda call: call[1])
def test_a_wrong_type_is_named(call):
    make, *words = call
    with refused(TypeError, *words):
        make()


class Thing:
    """An object of a type that no parameter accepts."""

    def __repr__(self):
        return "<a thing>"


OPS = {
    "range": (lambda **given: tdi.Dataset.range(**{"start": 0} | given), ["start", "stop", "step"]),
    "list_files": (lambda **given: tdi.Dataset.list_files("*", **given), ["shuffle", "seed"]),
    "sample_from_datasets": (
        lambda **given: tdi.Dataset.sample_from_datasets(**{"datasets": [RANGE]} | given),
        ["datasets", "weights", "seed", "stop_on"],
    ),
    "choose_from_datasets": (
        lambda **given: tdi.Dataset.choose_from_datasets(**{"datasets": [RANGE], "choice": RANGE} | given),
        ["datasets", "choice"],
    ),
    "from_generator": (lambda **given: tdi.Dataset.from_generator(iter, None, **given), ["args"]),
    "batch": (lambda **given: RANGE.batch(**{"batch_size": 2} | given), ["batch_size", "drop_remainder"]),
    "ragged_batch": (lambda **given: RANGE.ragged_batch(**{"batch_size": 2} | given), ["batch_size", "drop_remainder"]),
    "rebatch": (lambda **given: RANGE.rebatch(**{"batch_sizes": 2} | given), ["batch_sizes", "drop_remainder"]),
    "shuffle": (RANGE.shuffle, ["buffer_size", "seed", "reshuffle_each_iteration"]),
    "repeat": (RANGE.repeat, ["count"]),
    "take": (RANGE.take, ["count"]),
    "skip": (RANGE.skip, ["count"]),
    "shard": (lambda **given: RANGE.shard(**{"num_shards": 2, "index": 0} | given), ["num_shards", "index"]),
    "enumerate": (RANGE.enumerate, ["start"]),
    "concatenate": (RANGE.concatenate, ["other"]),
    "prefetch": (RANGE.prefetch, ["buffer_size"]),
    "map": (lambda **given: RANGE.map(abs, **given), ["num_parallel_calls", "deterministic", "row_wise"]),
    "interleave": (
        lambda **given: RANGE.interleave(abs, **given),
        ["cycle_length", "block_length", "num_parallel_calls", "deterministic"],
    ),
    "window": (RANGE.window, ["size"]),
    "padded_batch": (
        lambda **given: RANGE.padded_batch(**{"batch_size": 2} | given),
        ["batch_size", "padded_shapes", "drop_remainder"],
    ),
    "bucket_by_length": (
        lambda **given: RANGE.bucket_by_length(abs, **{"bucket_boundaries": [2], "bucket_batch_sizes": [1, 1]} | given),
        ["bucket_boundaries", "bucket_batch_sizes", "padded_shapes", "pad_to_bucket_boundary", "no_padding"],
    ),
    "assert_cardinality": (RANGE.assert_cardinality, ["expected_cardinality"]),
    "normalize_images": (
        lambda **given: RANGE.normalize_images(**{"mean": [0], "std": [1]} | given),
        ["mean", "std", "dtype", "layout"],
    ),
    "apply": (RANGE.apply, ["transformation"]),
    "with_options": (RANGE.with_options, ["options"]),
    "set_epoch": (RANGE.set_epoch, ["epoch"]),
    "TextLineDataset": (lambda **given: tdi.TextLineDataset("f", **given), ["compression_type"]),
    "FixedLengthRecordDataset": (
        lambda **given: tdi.FixedLengthRecordDataset("f", **{"record_bytes": 1} | given),
        ["record_bytes", "header_bytes", "footer_bytes", "compression_type"],
    ),
    "Options": (
        tdi.Options,
        ["auto_shard_policy", "deterministic", "num_threads", "prefetch", "prefetch_bytes", "seed"],
    ),
    "Skip": (tdi.Skip, ["max_count", "max_fraction"]),
    "InputOptions": (
        tdi.InputOptions,
        ["fetch_to_device", "place_dataset_on_device", "per_replica_buffer_size", "weights", "peer_timeout"],
    ),
    "worker_stream": (
        lambda **given: tdi.testing.worker_stream(
            **{"dataset": RANGE, "num_workers": 1, "num_replicas_per_worker": 1, "worker_index": 0} | given
        ),
        ["dataset", "num_workers", "num_replicas_per_worker", "worker_index"],
    ),
}
PARAMETERS = [(op, make, parameter) for op, (make, parameters) in OPS.items() for parameter in parameters]


@pytest.mark.parametrize(("op", "make", "parameter"), PARAMETERS, ids=[f"{op}-{name}" for op, _, name in PARAMETERS])
def test_an_argument_of_a_wrong_type_is_named_when_the_op_is_called(op, make, parameter):
    with refused(TypeError, f"{op}: `{parameter}` must ", "but ") as caught:
        make(**{parameter: Thing()})
    assert "<a thing>" in str(caught.value) or "Thing" in str(caught.value)


WRONG_TYPES = [
    (lambda: RANGE.batch(1.5), "batch: `batch_size` must be an int, but is 1.5."),
    (lambda: RANGE.batch(True), "batch: `batch_size` must be an int, but is True."),
    (lambda: RANGE.batch(2, drop_remainder=1), "batch: `drop_remainder` must be a bool, but is 1."),
    (lambda: RANGE.rebatch([1, 1.5]), "rebatch: `batch_sizes[1]` must be an int, but is 1.5."),
    (
        lambda: RANGE.bucket_by_length(abs, [2.5], [1, 1]),
        "bucket_by_length: `bucket_boundaries[0]` must be an int, but is 2.5.",
    ),
    (
        lambda: RANGE.bucket_by_length(abs, [1], 3),
        "bucket_by_length: `bucket_batch_sizes` must be a sequence, but is 3.",
    ),
    (
        lambda: RANGE.padded_batch(2, padded_shapes="a"),
        "padded_batch: `padded_shapes` must hold sequences of ints and None, but has 'a'.",
    ),
    (lambda: tdi.Dataset.sample_from_datasets(3), "sample_from_datasets: `datasets` must be a sequence, but is 3."),
    (
        lambda: tdi.Dataset.sample_from_datasets([RANGE, RANGE], ["a", "b"]),
        "sample_from_datasets: `weights[0]` must be a number, but is 'a'.",
    ),
    (
        lambda: tdi.Dataset.sample_from_datasets([RANGE, RANGE], [None, 1]),
        "sample_from_datasets: `weights[0]` must be a number, but is None.",
    ),
    (lambda: RANGE.concatenate(3), "concatenate: `other` must be of type Dataset, but is a int."),
    (lambda: RANGE.apply(None), "apply: `transformation` must be callable, but is a NoneType."),
    (lambda: tdi.TextLineDataset("f", 3), "TextLineDataset: `compression_type` must be a str, but is 3."),
    (lambda: tdi.Skip(max_count=1.5), "Skip: `max_count` must be an int, but is 1.5."),
    (lambda: tdi.Skip(max_count=True), "Skip: `max_count` must be an int, but is True."),
    (lambda: tdi.Skip(max_fraction="a"), "Skip: `max_fraction` must be a number, but is 'a'."),
    (lambda: tdi.Options(deterministic=1), "Options: `deterministic` must be a bool, but is 1."),
    (lambda: tdi.Options(auto_shard_policy=2), "Options: `auto_shard_policy` must be an AutoShardPolicy, but is 2."),
]


@pytest.mark.parametrize(("make", "text"), WRONG_TYPES, ids=[text.partition(" must")[0] for _, text in WRONG_TYPES])
def test_the_text_for_a_wrong_type_says_what_is_right(make, text):
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value) == text


def test_an_index_that_is_an_array():
    with refused(ValueError, "TextLineDataset: `index`", "array([1, 2])"):
        tdi.TextLineDataset("f", index=np.array([1, 2]))


def test_what_stands_for_a_number_or_a_bool_is_taken():
    assert repr(RANGE.batch(np.int32(2), np.bool_(True))) == repr(RANGE.batch(2, True))
    assert repr(RANGE.batch(2).rebatch(torch.tensor([1, 2]))) == repr(RANGE.batch(2).rebatch(np.array([1, 2])))
    assert repr(RANGE.batch(2).rebatch(torch.tensor(3))) == repr(RANGE.batch(2).rebatch(3))
    assert tdi.Skip(np.int64(2), np.float32(0.5)) == tdi.Skip(2, 0.5)
    assert tdi.Options(deterministic=np.bool_(False), seed=np.uint8(3)) == tdi.Options(deterministic=False, seed=3)
    assert tdi.InputOptions(per_replica_buffer_size=np.int64(2)) == tdi.InputOptions(per_replica_buffer_size=2)


HUGE = [
    (lambda: RANGE.batch(2**70), "batch: `batch_size` must fit in 64 bits"),
    (lambda: RANGE.padded_batch(2, padded_shapes=[2**70]), "padded_batch: `padded_shapes` must fit in 64 bits"),
    (lambda: tdi.Options(seed=2**70), "Options: `seed` must fit in 64 bits"),
    (lambda: tdi.Skip(max_fraction=10**400), "Skip: `max_fraction` must fit in 64 bits"),
    (lambda: RANGE.interleave(abs, cycle_length=2**40), "interleave: `cycle_length` must be at most 1048576"),
]


@pytest.mark.parametrize(("make", "text"), HUGE, ids=[text.partition(" must")[0] for _, text in HUGE])
def test_a_number_that_is_too_large_is_named_when_the_op_is_called(make, text):
    with refused(ValueError, text, "but is 1"):
        make()


def test_slices_of_unequal_lengths():
    with refused(ValueError, "from_tensor_slices", "'x'", "'y'", "3", "2"):
        tdi.Dataset.from_tensor_slices({"x": torch.zeros(3), "y": torch.zeros(2)})


def test_slices_of_a_scalar():
    with refused(ValueError, "from_tensor_slices", "'x'", "scalar"):
        tdi.Dataset.from_tensor_slices({"x": torch.tensor(1)})


@pytest.mark.parametrize("value", [object(), {1, 2}])
def test_leaves_of_other_kinds(value):
    with refused(TypeError, "'x'", type(value).__name__):
        tdi.Dataset.from_tensors({"x": value})


def test_keys_that_are_no_strings():
    with refused(TypeError, "from_tensors", "keys of a dict must be str", "int"):
        tdi.Dataset.from_tensors({1: torch.zeros(1)})


@pytest.mark.parametrize("device", ["cuda:99", "warp", "cpu:x", ""])
def test_devices_that_do_not_exist(device):
    for make in (lambda: tdi.MirroredStrategy([device]), lambda: tdi.OneDeviceStrategy(device)):
        with refused(ValueError, device):
            make()


def test_weights_that_do_not_fit_the_replicas():
    with refused(ValueError, "`weights`", "3", "2"):
        mirrored().distribute_dataset(RANGE.batch(2), tdi.InputOptions(split="balanced", weights=[1, 2, 3]))


def test_zip_of_something_else_than_datasets():
    with refused(TypeError, "zip", "list"):
        tdi.Dataset.zip((RANGE, [1, 2]))


def test_a_read_only_array_is_taken_without_a_warning(recwarn):
    array = np.arange(4)
    array.flags.writeable = False
    assert [int(x) for x in tdi.Dataset.from_tensor_slices(array)] == [0, 1, 2, 3]
    assert not recwarn.list
