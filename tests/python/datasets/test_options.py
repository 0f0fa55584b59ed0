# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Options, Skip and AutoShardPolicy."""

import enum

import pytest

import torch_distinput as tdi


def test_fields_are_unset_by_default():
    options = tdi.Options()
    for field in (
        "auto_shard_policy",
        "deterministic",
        "num_threads",
        "prefetch",
        "prefetch_bytes",
        "on_error",
        "seed",
    ):
        assert getattr(options, field) is None


def test_later_options_win_field_by_field():
    dataset = tdi.Dataset.range(3).with_options(tdi.Options(seed=1, prefetch=2))
    dataset = dataset.batch(2).with_options(tdi.Options(prefetch=3, deterministic=False))
    assert dataset.options() == tdi.Options(seed=1, prefetch=3, deterministic=False)


ONE, TWO = tdi.Options(seed=1, prefetch=2), tdi.Options(prefetch=3, num_threads=1)
BOTH = tdi.Options(seed=1, prefetch=3, num_threads=1)


@pytest.mark.parametrize(
    "join",
    [
        lambda one, two: tdi.Dataset.zip((one, two)),
        lambda one, two: tdi.Dataset.zip({"a": one, "b": {"c": two}}),
        lambda one, two: one.concatenate(two),
        lambda one, two: tdi.Dataset.sample_from_datasets([one, two]),
        lambda one, two: tdi.Dataset.choose_from_datasets([one], two),
    ],
)
def test_of_several_inputs_the_later_one_wins_field_by_field(join):
    joined = join(tdi.Dataset.range(3).with_options(ONE), tdi.Dataset.range(3).with_options(TWO))
    assert joined.options() == BOTH
    assert joined.batch(2).with_options(tdi.Options(seed=5)).options() == tdi.Options(seed=5, prefetch=3, num_threads=1)


@pytest.mark.parametrize("op", ["flat_map", "interleave"])
def test_options_inside_a_function_stay_inside(op):
    dataset = getattr(tdi.Dataset.range(3).with_options(ONE), op)(lambda x: tdi.Dataset.range(2).with_options(TWO))
    list(dataset)
    assert dataset.options() == ONE
    assert dataset.window(2).options() == dataset.padded_batch(2).options() == dataset.unique().options() == ONE


def test_joined_options_decide_what_iterators_do():
    def fails(x):
        raise KeyError("row")

    good, bad = tdi.Dataset.range(2), tdi.Dataset.range(2).map(fails)
    skipping = tdi.Options(on_error="skip")
    for dataset in (good.concatenate(bad.with_options(skipping)), good.with_options(skipping).concatenate(bad)):
        assert len(list(dataset)) == 2
    nested = good.with_options(skipping).flat_map(lambda x: good.concatenate(bad))
    assert len(list(nested)) == 4


def test_options_cannot_be_changed_and_can_be_compared():
    options = tdi.Options(seed=3, on_error=tdi.Skip(max_count=2))
    with pytest.raises(AttributeError):
        options.seed = 4
    assert options == tdi.Options(seed=3, on_error=tdi.Skip(max_count=2))
    assert options != tdi.Options(seed=3) != 3
    assert len({options, tdi.Options(seed=3, on_error=tdi.Skip(max_count=2))}) == 1
    assert repr(options) == "Options(on_error=Skip(max_count=2, max_fraction=None), seed=3)"


@pytest.mark.parametrize(
    ("given", "read"), [("raise", None), ("skip", "skip"), (tdi.Skip(), "skip"), (tdi.Skip(max_count=1),) * 2]
)
def test_on_error(given, read):
    assert tdi.Options(on_error=given).on_error == read


def test_wrong_values_are_named():
    with pytest.raises(ValueError, match='`on_error` must be "raise", "skip" or a Skip, but is \'ignore\''):
        tdi.Options(on_error="ignore")
    with pytest.raises(ValueError, match="`max_fraction`.*1.5"):
        tdi.Skip(max_fraction=1.5)
    with pytest.raises(ValueError, match="`prefetch`.*-1"):
        tdi.Options(prefetch=-1)


def test_policies_have_the_values_of_the_original():
    assert issubclass(tdi.AutoShardPolicy, enum.IntEnum)
    assert {policy.name: int(policy) for policy in tdi.AutoShardPolicy} == {
        "OFF": -1,
        "AUTO": 0,
        "FILE": 1,
        "DATA": 2,
        "HINT": 3,
    }
    policy = tdi.AutoShardPolicy.DATA
    assert tdi.Options(auto_shard_policy=policy).auto_shard_policy is policy


def test_constants():
    assert (tdi.INFINITE, tdi.UNKNOWN, tdi.SHARD_HINT) == (-1, -2, -1)
