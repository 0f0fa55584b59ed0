# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The handle `Dataset`: iterating twice, epochs, cardinality and spec, printing, copying, options."""

import enum

import pytest
import torch
from torch.utils.data import DataLoader

import torch_distinput as tdi


def values(dataset):
    return [x.item() for x in dataset]


def test_iterating_twice_gives_another_epoch():
    dataset = tdi.Dataset.range(20).shuffle(seed=1)
    first, second = values(dataset), values(dataset)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    dataset.set_epoch(0)
    iterator = iter(dataset)
    assert iterator.epoch == 0
    assert values(iterator) == first


def test_an_iterator_is_its_own_iterator():
    iterator = iter(tdi.Dataset.range(3))
    assert iter(iterator) is iterator
    assert isinstance(iterator, tdi.DatasetIterator)
    next(iterator)
    assert values(iterator) == [1, 2]


def test_range_has_the_arguments_of_range():
    assert values(tdi.Dataset.range(3)) == [0, 1, 2]
    assert values(tdi.Dataset.range(2, 4)) == [2, 3]
    assert values(tdi.Dataset.range(5, 0, -2)) == [5, 3, 1]
    assert values(tdi.Dataset.range(0, 6, step=4)) == [0, 4]


def test_ops_chain():
    dataset = tdi.Dataset.range(6).map(lambda x: x * 2).enumerate(10).skip(1).take(2)
    assert [(i.item(), x.item()) for i, x in dataset] == [(11, 2), (12, 4)]
    assert values(tdi.Dataset.range(2).concatenate(tdi.Dataset.range(2)).repeat(2)) == [0, 1] * 4
    assert [b.tolist() for b in tdi.Dataset.range(5).batch(4).rebatch([1, 2])] == [[0], [1, 2], [3], [4]]
    assert [b.tolist() for b in tdi.Dataset.range(5).batch(4).rebatch(3)] == [[0, 1, 2], [3, 4]]
    assert values(tdi.Dataset.range(5).batch(4).unbatch().shard(2, 1).cache().prefetch(2)) == [1, 3]


def test_zip_puts_elements_side_by_side():
    numbers = tdi.Dataset.range(3)
    zipped = tdi.Dataset.zip({"a": numbers, "b": (numbers.batch(2), numbers)})
    assert [(z["a"].item(), z["b"][0].tolist(), z["b"][1].item()) for z in zipped] == [(0, [0, 1], 0), (1, [2], 1)]
    with pytest.raises(TypeError, match="zip: .*holds a int"):
        tdi.Dataset.zip((numbers, 3))


def test_an_iterator_prints_its_epoch_and_what_it_has_returned():
    dataset = tdi.Dataset.range(10).batch(4)
    iterator = iter(dataset)
    assert repr(iterator) == "DatasetIterator(epoch 0, 0 elements read)"
    next(iterator)
    assert repr(iterator) == "DatasetIterator(epoch 0, 1 element read)"
    iterator.close()
    assert repr(iterator) == "DatasetIterator(epoch 0, 1 element read)"
    assert repr(iter(dataset)) == "DatasetIterator(epoch 1, 0 elements read)"


def test_an_iterator_that_another_thread_uses_prints_too():
    shown = []
    dataset = tdi.Dataset.range(2).filter(lambda number: shown.append(repr(iterator)) or True)
    iterator = iter(dataset)
    next(iterator)
    assert shown[0] == "DatasetIterator()"


def test_len_cardinality_and_truth():
    dataset = tdi.Dataset.range(7).batch(2)
    assert len(dataset) == dataset.cardinality() == 4
    assert tdi.Dataset.range(0)
    assert dataset.repeat().cardinality() == tdi.INFINITE
    assert dataset.filter(lambda x: True).cardinality() == tdi.UNKNOWN
    for endless, word in ((dataset.repeat(), "infinite"), (dataset.filter(lambda x: True), "unknown")):
        assert endless
        with pytest.raises(TypeError, match=f"len: .*{word}"):
            len(endless)


def test_the_spec_of_an_element():
    dataset = tdi.Dataset.from_tensor_slices({"x": torch.zeros(5, 3), "y": [1, 2, 3, 4, 5]}).batch(2)
    assert dataset.element_spec == {
        "x": tdi.TensorSpec((None, 3), torch.float32),
        "y": tdi.TensorSpec((None,), torch.int64),
    }
    with pytest.raises(ValueError, match="element_spec"):
        _ = tdi.Dataset.range(0).map(lambda x: x).element_spec


def test_repr_is_the_chain_of_calls():
    text = repr(tdi.Dataset.range(6).shuffle(seed=7).batch(4))
    assert text.startswith("Dataset(range(")
    assert ").shuffle(" in text and ").batch(batch_size=4" in text and text.endswith("))")
    zipped = repr(tdi.Dataset.zip((tdi.Dataset.range(2), tdi.Dataset.range(3))))
    assert zipped.startswith("Dataset(zip(") and zipped.count("range(") == 2


def test_explain_has_a_line_for_each_op():
    lines = tdi.Dataset.range(6).shuffle(seed=7).batch(4).explain().splitlines()
    assert len(lines) >= 3
    for op in ("range", "shuffle", "batch"):
        assert any(op in line for line in lines)


def test_explain_with_a_strategy_tells_how_rows_are_assigned():
    dataset = tdi.Dataset.range(6).batch(4)
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    assert dataset.explain(strategy) == strategy.distribute_dataset(dataset).explain() != dataset.explain()


def test_a_dataset_is_made_by_its_constructors_only():
    with pytest.raises(TypeError, match="Dataset: make one with a constructor"):
        tdi.Dataset([1, 2])


def test_a_dataset_is_an_iterable_dataset_of_torch():
    dataset = tdi.Dataset.range(6)
    assert isinstance(dataset, torch.utils.data.IterableDataset)
    assert [batch.tolist() for batch in DataLoader(dataset, batch_size=4)] == [[0, 1, 2, 3], [4, 5]]


@pytest.mark.parametrize("batch", [False, True])
def test_workers_of_torch_share_the_elements(batch):
    dataset = tdi.Dataset.range(20).shuffle()
    dataset = dataset.batch(4) if batch else dataset
    loader = DataLoader(dataset, batch_size=None if batch else 4, num_workers=2, multiprocessing_context="fork")
    epochs = [torch.cat(list(loader)).tolist() for _ in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(20))] * 2
    assert epochs[0] != epochs[1]


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
    originals = {"OFF": -1, "AUTO": 0, "FILE": 1, "DATA": 2, "HINT": 3}
    assert {policy.name: int(policy) for policy in tdi.AutoShardPolicy} == originals | {"STREAMS": 4}  # one of our own
    policy = tdi.AutoShardPolicy.DATA
    assert tdi.Options(auto_shard_policy=policy).auto_shard_policy is policy


def test_constants():
    assert (tdi.INFINITE, tdi.UNKNOWN, tdi.SHARD_HINT) == (-1, -2, -1)
