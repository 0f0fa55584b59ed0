# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A row that is made again is bit for bit what the training saw, random transforms included."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from numbered_pipelines import CHAINS, has_random_access, rows

import torch_distinput as tdi


def jittered(dataset: tdi.Dataset) -> tdi.Dataset:
    """Adds random numbers of the row."""
    return dataset.map(lambda row: (row, torch.rand(3, generator=tdi.random())))


def same(one, other) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@given(CHAINS, st.integers(0, 2))
def test_an_element_is_rebuilt_as_it_was(chain, epoch):
    dataset = jittered(rows(chain)).with_options(tdi.Options(seed=5))
    assume(has_random_access(dataset))
    seen = {}
    for element in dataset._native.iterate(epoch=epoch):
        seen.setdefault(int(element[0]), element)
    for row, element in seen.items():
        assert same(dataset.rebuild(epoch, row), element)


@given(CHAINS, st.integers(1, 4), st.booleans(), st.booleans(), st.sampled_from([None, 7]))
def test_a_row_of_a_loaders_batch_is_rebuilt_as_it_was(chain, batch, batches_itself, distributed, seed):
    dataset = jittered(rows(chain))
    if batches_itself:
        dataset = dataset.batch(batch)
    assume(has_random_access(dataset) and next(iter(dataset), None) is not None)
    loader = tdi.DataLoader(
        dataset, batch_size=None if batches_itself else batch, distributed=distributed or None, seed=seed
    )
    for epoch in range(2):
        seen = {}
        for numbers, noise in loader:
            for i, row in enumerate(numbers.tolist()):
                seen.setdefault(row, (numbers, noise) if batches_itself else (numbers[i], noise[i]))
        for row, element in seen.items():
            assert same(dataset.rebuild(epoch, row, loader), element)


def test_an_image_is_rebuilt_with_its_random_crop(tmp_path):
    images = torch.randint(256, (6, 3, 20, 20), dtype=torch.uint8)
    dataset = tdi.Dataset.from_tensor_slices(images).shuffle().random_resized_crop(8).horizontal_flip()
    loader = tdi.DataLoader(dataset, batch_size=4, seed=1)
    for step, batch in enumerate(loader):
        for image, row in zip(batch, loader.rows_of(0, step).tolist(), strict=True):
            assert torch.equal(dataset.rebuild(0, row, loader), image)


def test_a_row_that_the_epoch_does_not_have_is_refused():
    with pytest.raises(IndexError, match="`row` must be a row of the epoch, but is 9"):
        tdi.Dataset.range(20).take(5).rebuild(0, 9)


def test_a_loader_of_another_dataset_is_refused():
    with pytest.raises(ValueError, match="rebuild: `loader` must be a loader of this dataset"):
        tdi.Dataset.range(3).rebuild(0, 1, tdi.DataLoader(tdi.Dataset.range(3)))


def test_another_object_is_no_loader():
    with pytest.raises(TypeError, match="rebuild: `loader` must be a DataLoader of this library, but is a int"):
        tdi.Dataset.range(3).rebuild(0, 1, 7)


def test_an_op_without_random_access_is_named():
    with pytest.raises(ValueError, match="`filter` has no random access"):
        tdi.Dataset.range(9).filter(lambda row: row > 1).map(lambda row: row).rebuild(0, 3)
