# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The handle `DistributedDataset` and its iterator: cardinality, printing."""

import copy
import operator
import warnings

import pytest

import torch_distinput as tdi

STRATEGY = tdi.MirroredStrategy(["cpu", "cpu"])


def distributed(dataset):
    return STRATEGY.distribute_dataset(dataset)


@pytest.mark.parametrize(
    ("dataset", "wanted"),
    [
        (tdi.Dataset.range(10).batch(4), 3),
        (tdi.Dataset.range(10).repeat().batch(4), tdi.INFINITE),
        (tdi.Dataset.range(10).filter(lambda number: number > 3).batch(4), tdi.UNKNOWN),
    ],
)
def test_cardinality_is_a_method_as_that_of_a_dataset(dataset, wanted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        number = distributed(dataset).cardinality()
    assert number == wanted == dataset.cardinality() and type(number) is int


@pytest.mark.parametrize(
    "use",
    [
        lambda number: number == 3,
        lambda number: number != 2,
        lambda number: number > 0 and bool(number),
        lambda number: number + 1 == 4 and 6 // number == 2,
        lambda number: str(number) == repr(number) == f"{number}" == "3",
        lambda number: int(number) == 3 and operator.index(number) == 3 and {3: "three"}[number] == "three",
    ],
)
def test_cardinality_without_a_call_is_still_the_number_and_warns(use):
    number = distributed(tdi.Dataset.range(10).batch(4)).cardinality
    with pytest.warns(DeprecationWarning, match="write `cardinality\\(\\)`") as told:
        assert use(number)
    assert {one.filename for one in told} == {__file__}
    assert isinstance(number, int) and len(range(number)) == copy.copy(number)() == 3


def test_a_dataset_and_its_iterator_print_where_they_are_from_and_stand():
    dataset = distributed(tdi.Dataset.range(10).batch(4))
    assert repr(dataset) == (
        "DistributedDataset(Dataset(range(start=0, stop=10, step=1).batch(batch_size=4, drop_remainder=False)), "
        "MirroredStrategy('cpu', 'cpu'))"
    )
    steps = iter(dataset)
    assert repr(steps) == "DistributedIterator(before its first step)"
    next(steps), next(steps)
    assert repr(steps) == "DistributedIterator(epoch 0, step 2)"
    made = STRATEGY.distribute_datasets_from_function(lambda context: tdi.Dataset.range(2))
    assert repr(made) == "DistributedDataset(MirroredStrategy('cpu', 'cpu'))"
    assert repr(object.__new__(tdi.DistributedDataset)) == "DistributedDataset()"
