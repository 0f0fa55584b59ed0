# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Every public call with wrong arguments raises a TypeError or ValueError with a message of this library."""

import math

import pytest
import torch
from refusals import mirrored
from torch.utils.data import TensorDataset

import torch_distinput as tdi

ROWS = TensorDataset(torch.arange(6))


def rows():
    return tdi.Dataset.range(6)


def batches():
    return rows().batch(4)


def distributed():
    return mirrored().distribute_dataset(batches())


def in_replicas(call):
    return mirrored().run(lambda: call(tdi.get_replica_context()))


def info():
    steps = iter(tdi.OneDeviceStrategy("cpu").distribute_dataset(batches()))
    next(steps)
    return steps.step_info


def loader(**arguments):
    return list(tdi.DataLoader(ROWS, **arguments))


def options(policy, deterministic, threads, prefetch, size, on_error, seed):
    return tdi.Options(policy, deterministic, threads, prefetch, size, on_error, seed)


def pair():
    return tdi.PerReplica([torch.ones(2), torch.ones(2)])


def method(name, make=rows):
    return lambda *arguments: getattr(make(), name)(*arguments)


def not_read(call):
    """A function that accepts any arguments: those that a pipeline calls later are not under test."""
    return lambda *arguments: call(*arguments) and None


# Each call with valid arguments.
CALLS = {
    "range": (tdi.Dataset.range, (3, 9, 2)),
    "from_generator": (not_read(tdi.Dataset.from_generator), (lambda *args: iter([1, 2]), None, ())),
    "list_files": (tdi.Dataset.list_files, ("/etc/host*", True, 1)),
    "sample_from_datasets": (tdi.Dataset.sample_from_datasets, ([rows(), rows()], [0.5, 0.5], 1)),
    "choose_from_datasets": (tdi.Dataset.choose_from_datasets, ([rows(), rows()], rows())),
    "Dataset": (tdi.Dataset, (rows()._native,)),
    "batch": (method("batch"), (4, True)),
    "ragged_batch": (method("ragged_batch"), (4, True)),
    "rebatch": (method("rebatch", batches), ([2, 1], True)),
    "shuffle": (method("shuffle"), (3, 1, True)),
    "repeat": (method("repeat"), (2,)),
    "take": (method("take"), (2,)),
    "skip": (method("skip"), (2,)),
    "shard": (method("shard"), (2, 1)),
    "enumerate": (method("enumerate"), (1,)),
    "concatenate": (method("concatenate"), (rows(),)),
    "prefetch": (method("prefetch"), (2,)),
    "map": (method("map"), (lambda x: x, 2, True, None, True)),
    "filter": (method("filter"), (lambda x: x > 1,)),
    "flat_map": (method("flat_map"), (lambda x: rows(),)),
    "interleave": (method("interleave"), (lambda x: rows(), 2, 1, 2, True)),
    "window": (method("window"), (2,)),
    "padded_batch": (method("padded_batch"), (2, None, 0, True)),
    "bucket_by_length": (method("bucket_by_length"), (lambda x: x, [2, 4], [2, 2, 2], None, 0, False, False, False)),
    "assert_cardinality": (method("assert_cardinality"), (6,)),
    "normalize_images": (method("normalize_images"), ([0.5], [0.5], torch.float32, "NCHW")),
    "with_options": (method("with_options"), (tdi.Options(),)),
    "explain": (method("explain"), (mirrored(),)),
    "set_epoch": (method("set_epoch"), (1,)),
    "TextLineDataset": (tdi.TextLineDataset, ("/etc/hostname", None, None)),
    "FixedLengthRecordDataset": (tdi.FixedLengthRecordDataset, ("/etc/hostname", 1, 0, 0, None, None)),
    "Options": (options, (tdi.AutoShardPolicy.OFF, True, 1, 2, 100, "skip", 1)),
    "Skip": (tdi.Skip, (3, 0.5)),
    "InputOptions": (tdi.InputOptions, (True, "PER_WORKER", False, 1, "balanced", "drop", [1.0, 2.0], 3.0)),
    "InputContext": (tdi.InputContext, (2, 1, 4)),
    "get_per_replica_batch_size": (tdi.InputContext(2, 1, 4).get_per_replica_batch_size, (8,)),
    "ValueContext": (tdi.ValueContext, (1, 4)),
    "MirroredStrategy": (tdi.MirroredStrategy, (["cpu", "cpu"],)),
    "OneDeviceStrategy": (tdi.OneDeviceStrategy, ("cpu",)),
    "MultiWorkerMirroredStrategy": (tdi.MultiWorkerMirroredStrategy, (None, ["cpu"])),
    "run": (method("run", mirrored), (lambda *args, **kwargs: 1, (), {})),
    "reduce": (method("reduce", mirrored), ("SUM", pair(), 0)),
    "gather": (method("gather", mirrored), (pair(), 0)),
    "distribute_dataset": (method("distribute_dataset", mirrored), (batches(), tdi.InputOptions())),
    "from_function": (method("distribute_datasets_from_function", mirrored), (lambda context: rows().batch(2), None)),
    "values_from_function": (method("distribute_values_from_function", mirrored), (lambda context: 1,)),
    "partial batches": (lambda value: setattr(mirrored(), "enable_partial_batch_handling", value), (True,)),
    "set_epoch distributed": (lambda epoch: distributed().set_epoch(epoch), (1,)),
    "reduce distributed": (lambda fn: distributed().reduce(0, fn), (lambda state, step: state,)),
    "load distributed": (lambda state: iter(distributed()).load_state_dict(state), ({},)),
    "load": (lambda state: iter(rows()).load_state_dict(state), ({},)),
    "PerReplica": (tdi.PerReplica, ([1, 2],)),
    "all_reduce": (lambda op: in_replicas(lambda context: context.all_reduce(op, torch.ones(2))), ("SUM",)),
    "all_gather": (lambda axis: in_replicas(lambda context: context.all_gather(torch.ones(2), axis)), (0,)),
    "scaled_mean": (tdi.scaled_mean, (torch.tensor(1.0), info(), torch.ones(1))),
    "distributed_mean": (tdi.distributed_mean, (torch.tensor(1.0), info())),
    "restore_order": (tdi.restore_order, (torch.arange(4), info())),
    "check_zero_rows": (tdi.check_zero_rows, (torch.nn.Linear(3, 1), tdi.TensorSpec([None, 3]))),
    "TensorSpec": (tdi.TensorSpec, ([None, 3], torch.float32)),
    "StringSpec": (tdi.StringSpec, ([None], "utf-8")),
    "RaggedTensorSpec": (tdi.RaggedTensorSpec, ([None, None], torch.float32, 1)),
    "SparseTensorSpec": (tdi.SparseTensorSpec, ([None, 3], torch.float32)),
    "StepInfo": (tdi.StepInfo, (0, 0, 0, (1,), 1, 1, (1.0,), True, (True,))),
    "assert_resumable": (tdi.testing.assert_resumable, (rows(), True, 10)),
    "assert_paths_agree": (tdi.testing.assert_paths_agree, (rows(), 10)),
    "batch_sizes_for_worker": (tdi.testing.batch_sizes_for_worker, (8, 2, 2, 1)),
    "infer_batch_size": (tdi.testing.infer_batch_size, (rows(),)),
    "legacy_rebatch": (tdi.testing.legacy_rebatch, (batches(), 2)),
    "auto_shard": (tdi.testing.auto_shard, (rows(), 2, 1, tdi.AutoShardPolicy.DATA)),
    "worker_stream": (tdi.testing.worker_stream, (batches(), 2, 2, 1, tdi.AutoShardPolicy.DATA)),
    "DataLoader.set_epoch": (lambda epoch: tdi.DataLoader(ROWS, shuffle=True).set_epoch(epoch), (1,)),
    "DataLoader.global_valid": (tdi.DataLoader(ROWS, 2, distributed=True).global_valid, (0, 2)),
    "DataLoader.device": (lambda device: loader(device=device), ("cpu",)),
    "DataLoader.split": (lambda split: loader(distributed=True, split=split), ("tf",)),
    "DataLoader.tail": (lambda tail: loader(distributed=True, tail=tail), ("drop",)),
    "DataLoader.seed": (lambda seed: loader(shuffle=True, seed=seed), (1,)),
    "DataLoader.with_info": (lambda flag: loader(distributed=True, with_info=flag), (True,)),
    "DataLoader.prefetch_bytes": (lambda size: loader(prefetch_bytes=size), (100,)),
    "DataLoader.peer_timeout": (lambda seconds: loader(peer_timeout=seconds), (100.0,)),
    "DataLoader.generator": (lambda generator: loader(shuffle=True, generator=generator), (None,)),
}

WRONG = [None, object(), "x", "", "\ud800", b"x", 1.5, math.nan, math.inf, 1j, True, type(None), lambda *args: None]
WRONG += [-1, 0, -5, 2**31, 2**62, 2**63 - 1, -(2**63), 2**70, {1}, {}, {"a": object()}, torch.int64, rows()]
WRONG += [[], [object()], [None], [[1], [2, [3]]], [math.inf, -1.0], [0, 0, 0], [-1, -2], [2**62] * 3, [True, False]]

OTHERS_WORDS = (
    "incompatible",
    "Unable to cast",
    "has no attribute",
    "std::",
    "vector",
    "INTERNAL ASSERT",
    "object is not",
    "cannot be interpreted",
    "not subscriptable",
    "unsupported operand",
)


def look(value):
    """Calls everything on a dataset that needs no reading, and reads a few elements."""
    if isinstance(value, tdi.Dataset):
        value.cardinality(), value.explain(), value.element_spec
        for _ in zip(range(3), value):
            pass


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments(name):
    call, arguments = CALLS[name]
    for place in range(len(arguments)):
        for wrong in WRONG:
            try:
                look(call(*arguments[:place], wrong, *arguments[place + 1 :]))
            except (TypeError, ValueError, NotImplementedError, OSError, tdi.FailedPreconditionError) as error:
                text = str(error)
                assert text and not any(words in text for words in OTHERS_WORDS), (place, wrong, text)


@pytest.mark.parametrize("number", [1e39, -1e39, math.inf, 3.5e38, 1e-60, complex(1e39, -1e39)])
def test_numbers_beyond_a_dtype_become_what_torch_makes_of_them(number):
    (made,) = tdi.Dataset.from_generator(lambda: iter([number]), None)
    assert torch.equal(made, torch.tensor(number))
