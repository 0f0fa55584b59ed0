# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""As with torch, batches are inference tensors where they are delivered in `torch.inference_mode`, and only there."""

import contextlib
import functools

import pytest
import torch
from torch_datasets import Made

import torch_distinput as tdi

ROWS = torch.arange(400.0).reshape(100, 4)
DATA = torch.utils.data.TensorDataset(ROWS, torch.arange(100))
SPARSE = torch.eye(16).to_sparse()


@functools.cache
@torch.inference_mode(False)
def jagged():
    """Not before a test needs it: it imports a compiler."""
    return torch.nested.nested_tensor([torch.ones(n % 3 + 1) for n in range(16)], layout=torch.jagged)


def slices():
    return tdi.Dataset.from_tensor_slices((ROWS, torch.arange(100)))


def mirrored(dataset, **options):
    return tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(dataset, tdi.InputOptions(**options))


LOADERS = {
    "rows": lambda cls: cls(DATA, batch_size=4),
    "shuffled": lambda cls: cls(DATA, batch_size=4, shuffle=True),
    "list": lambda cls: cls(Made(100, lambda index: (ROWS[index], torch.tensor(index))), batch_size=4),
    "workers": lambda cls: cls(DATA, batch_size=4, num_workers=1),
    "dict": lambda cls: cls([{"x": ROWS[i], "name": str(i)} for i in range(40)], batch_size=4),
}
PIPELINES = {
    "plan": lambda: slices().batch(4),
    "rows": slices,
    "tiny": lambda: tdi.Dataset.range(1000).batch(2),
    "map": lambda: slices().map(lambda x, y: (x + 1, y)).batch(4),
    "map of batches": lambda: slices().batch(4).map(lambda x, y: (x + 1, y)),
    "parallel map": lambda: slices().map(lambda x, y: (x + 1, y), num_parallel_calls=2).batch(4),
    "stream": lambda: slices().filter(lambda x, y: True).batch(4).prefetch(2),
    "cache": lambda: slices().filter(lambda x, y: True).batch(4).take(12).cache().repeat(3),
    "jagged": lambda: tdi.Dataset.from_tensor_slices(jagged()).ragged_batch(2),
    "sparse": lambda: tdi.Dataset.from_tensor_slices(SPARSE).batch(2),
    "rebatch": lambda: slices().batch(4).rebatch([3, 5]),
    "images": lambda: (
        tdi.Dataset.from_tensor_slices(torch.ones(40, 3, 2, 2, dtype=torch.uint8))
        .batch(4)
        .normalize_images([0.5] * 3, [0.5] * 3)
    ),
    "replicas": lambda: mirrored(slices().batch(4)),
    "replicas of a map": lambda: mirrored(slices().map(lambda x, y: (x + 1, y)).batch(4)),
    "replicas without read-ahead": lambda: mirrored(slices().batch(4), per_replica_buffer_size=0),
    "loader": lambda: tdi.DataLoader(DATA, batch_size=4),
    "distributed loader": lambda: tdi.DataLoader(DATA, batch_size=4, distributed=True),
}


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tdi.PerReplica):
        return [tensor for part in value.values for tensor in tensors(part)]
    parts = value.values() if isinstance(value, dict) else value
    return [tensor for part in parts if not isinstance(part, str) for tensor in tensors(part)]


@pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS.keys())
def test_a_loader_gives_what_torchs_gives(make):
    with torch.inference_mode():
        theirs = [tensor.is_inference() for batch in make(torch.utils.data.DataLoader) for tensor in tensors(batch)]
        ours = [tensor.is_inference() for batch in make(tdi.DataLoader) for tensor in tensors(batch)]
    assert ours == theirs
    assert all(ours)


@pytest.mark.parametrize("made_in", [False, True])
@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES.keys())
def test_each_step_follows_the_mode_of_the_consumer(make, made_in):
    """Also a step that was read ahead while the consumer was in the other mode."""
    with torch.inference_mode() if made_in else contextlib.nullcontext():
        iterator = iter(make())
    for step in range(8):
        inference = step % 4 < 2
        with torch.inference_mode(inference):
            batch = tensors(next(iterator))
        assert {tensor.is_inference() for tensor in batch} == {inference}
        if inference:
            continue
        for tensor in batch:
            if not tensor.is_floating_point() or tensor.is_nested or tensor.is_sparse:
                continue
            weight = torch.ones((), requires_grad=True)
            (tensor * weight).sum().backward()  # saves the batch for the backward pass
            tensor.add_(1)
            assert tensor._version == 1


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES.keys())
def test_the_values_do_not_depend_on_the_mode(make):
    def values(inference):
        with torch.inference_mode(inference):
            return [(t.to_dense() if t.is_sparse else t.values() if t.is_nested else t).tolist()
                    for _, batch in zip(range(8), make()) for t in tensors(batch)]  # fmt: skip

    assert values(inference=True) == values(inference=False)
