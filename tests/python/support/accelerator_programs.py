# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Programs on the fake accelerator, run by test_devices.py in a process of their own: an accelerator stays registered.

    python accelerator_programs.py FOLDER      # FOLDER holds the module _fake_accelerator

Prints one line of JSON: for each function below null, the traceback of its failure, or "skipped: " and a reason.
"""

import gc
import io
import itertools
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import traceback
import types
import unittest
from pathlib import Path

import numpy as np
import torch
from object_server import ObjectServer
from processes import wait_until

sys.path.insert(0, sys.argv[1])
import _fake_accelerator as fake

import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput.base._batch_format import pack
from torch_distinput.executors._answer_slabs import GivenSlabs, OwnSlabs
from torch_distinput.executors._processes import Processes
from torch_distinput.loader.paths import _native as native

# The parts of a backend's module `torch.fake` that torch's own Python calls.
torch._register_device_module(
    "fake",
    types.SimpleNamespace(
        is_available=lambda: True, current_device=lambda: 0, _is_in_bad_fork=lambda: False, cudart=lambda: fake
    ),
)

FIELDS = 64


def many_fields(batches: int) -> tdi.Dataset:
    """Batches of 16 rows with 64 fields of 4 kB: row r of field f holds f + r."""
    rows = torch.arange(batches * 16, dtype=torch.float32)[:, None]
    return tdi.Dataset.from_tensor_slices({f"f{i}": (rows + i).expand(-1, 64).clone() for i in range(FIELDS)}).batch(16)


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()


def in_steady_state_a_batch_is_one_copy_without_a_wait_or_an_allocation():
    iterator = iter(tdi.OneDeviceStrategy("fake:1").distribute_dataset(many_fields(80)))
    for _ in range(30):
        batch = next(iterator)
        fake.drain()
    fake.reset()
    steps = 0
    for batch in iterator:
        fake.drain()
        steps += 1
    counts = fake.counts()
    assert steps == 50
    assert counts["copies"] <= 50, counts
    assert counts["host_waits"] == 0, counts
    # Threads may get further ahead than in the first steps, but not with each step.
    assert counts["device_allocations"] <= 2 and counts["host_allocations"] <= 2, counts
    assert counts["wrong_device"] == 0, counts
    assert str(batch["f0"].device) == "fake:1"


def batches_hold_the_right_data_without_a_wait():
    fake.set_delay(200)
    expected = [batch["f3"] for batch in many_fields(20)]
    seen = [fake.snapshot(batch["f3"]) for batch in tdi.OneDeviceStrategy("fake:1").distribute_dataset(many_fields(20))]
    assert fake.counts()["host_waits"] == 0
    fake.drain()
    assert [s.bytes() for s in seen] == [raw(e) for e in expected]


def kept_batches_never_change():
    dataset = tdi.Dataset.range(4000).batch(4)
    kept = list(tdi.MirroredStrategy(["fake:0", "fake:1"]).distribute_dataset(dataset))
    assert len(kept) == 1000
    for i, step in enumerate(kept):
        assert step.values[0].cpu().tolist() == [4 * i, 4 * i + 1]
        assert step.values[1].cpu().tolist() == [4 * i + 2, 4 * i + 3]


def a_merged_last_step_arrives_whole():
    fake.set_delay(200)
    rows = tdi.Dataset.from_tensor_slices({"id": torch.arange(33), "x": torch.arange(33.0)[:, None].expand(-1, 2**18)})
    for dataset in (rows.batch(16), rows.batch(16).filter(lambda batch: True)):
        strategy = tdi.MirroredStrategy(["fake:0", "fake:1"])
        steps = list(strategy.distribute_dataset(dataset, tdi.InputOptions(tail="merge")))
        assert [[len(part) for part in step["id"].values] for step in steps] == [[8, 8], [9, 8]]
        seen = []
        for step in steps:
            for ids, x in zip(step["id"].values, step["x"].values):
                ids, x = ids.cpu(), x.cpu()
                assert torch.equal(x, ids[:, None].float().expand(-1, 2**18))
                seen += ids.tolist()
        assert seen == list(range(33))


def epochs_left_early_leave_nothing_behind():
    dataset = tdi.OneDeviceStrategy("fake:1").distribute_dataset(many_fields(10))

    def epoch():
        for step, _ in enumerate(dataset):
            if step == 2:
                break
        fake.drain()

    for _ in range(20):
        epoch()
    before = fake.counts()
    for _ in range(200):
        epoch()
    after = fake.counts()
    assert after["events"] <= before["events"] + 20, (before, after)
    assert after["device_allocations"] <= before["device_allocations"] + 20, (before, after)


def batches_of_a_python_map_and_a_generator_arrive_too():
    def numbers():
        yield from range(10)

    stream = tdi.Dataset.from_generator(numbers, tdi.TensorSpec((), torch.int64)).map(lambda x: x * 2).batch(4)
    steps = [batch.cpu().tolist() for batch in tdi.OneDeviceStrategy("fake:1").distribute_dataset(stream)]
    assert steps == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]


def strings_stay_on_the_host():
    dataset = tdi.Dataset.from_tensor_slices({"text": ["a", "bb", "c", "d"], "x": torch.arange(4)}).batch(2)
    first = next(iter(tdi.OneDeviceStrategy("fake:0").distribute_dataset(dataset)))
    assert first["text"] == ["a", "bb"]
    assert str(first["x"].device) == "fake:0"


def fetch_to_device_false_keeps_all_on_the_host():
    fake.reset()
    dataset = tdi.MirroredStrategy(["fake:0", "fake:1"]).distribute_dataset(
        tdi.Dataset.range(8).batch(4), tdi.InputOptions(fetch_to_device=False)
    )
    assert all(value.device.type == "cpu" for step in dataset for value in step.values)
    assert fake.counts()["copies"] == 0


def no_buffer_reads_and_copies_nothing_ahead():
    options = tdi.InputOptions(per_replica_buffer_size=0)
    iterator = iter(tdi.OneDeviceStrategy("fake:1").distribute_dataset(tdi.Dataset.range(12).batch(4), options))
    fake.reset()
    next(iterator)
    assert fake.counts()["copies"] == 1


def next_raises_inside_a_graph_capture_and_loses_nothing():
    iterator = iter(tdi.OneDeviceStrategy("fake:1").distribute_dataset(tdi.Dataset.range(8).batch(4)))
    next(iterator)
    fake.set_capturing(True)
    try:
        next(iterator)
    except tdi.FailedPreconditionError as error:
        assert "records a graph" in str(error)
    else:
        raise AssertionError("nothing was raised")
    finally:
        fake.set_capturing(False)
    assert next(iterator).cpu().tolist() == [4, 5, 6, 7]


def tensors_follow_the_inference_mode_at_delivery():
    """Also tensors whose copies were queued in the other mode."""
    steps = iter(tdi.OneDeviceStrategy("fake:1").distribute_dataset(tdi.Dataset.range(24).batch(4)))
    for step, inference in enumerate([True, False, False, True, True, False]):
        with torch.inference_mode(inference):
            batch = next(steps)
        assert batch.is_inference() == inference
        assert inference or batch._version == 0
        assert batch.cpu().tolist() == list(range(4 * step, 4 * step + 4))


def a_users_record_stream_protects_a_batch():
    stream = torch.Stream(device="fake:1")
    seen, expected = [], []
    for i, batch in enumerate(tdi.OneDeviceStrategy("fake:1").distribute_dataset(tdi.Dataset.range(400).batch(4))):
        batch.record_stream(stream)
        seen.append(fake.snapshot(batch))
        expected.append(raw(torch.arange(4 * i, 4 * i + 4)))
        del batch
    fake.drain()
    assert [s.bytes() for s in seen] == expected


def images_are_normalized_after_the_copy():
    images = torch.arange(24 * 8 * 8 * 3, dtype=torch.int64).remainder(253).to(torch.uint8).view(24, 8, 8, 3)
    dataset = tdi.Dataset.from_tensor_slices(images).batch(8).normalize_images([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])
    expected = list(dataset)
    there = tdi.OneDeviceStrategy("fake:1").distribute_dataset(dataset)
    assert "done by the devices" in there.explain()
    fake.reset()
    seen = list(there)
    assert fake.counts()["copied_bytes"] == images.numel()
    for batch, reference in zip(seen, expected, strict=True):
        assert batch.dtype == torch.float32
        assert torch.equal(batch.cpu(), reference)


def images_of_a_folder_are_normalized_after_the_copy():
    """Pillow's images, prepared by transforms of torchvision's shape."""
    from decoders import MISSING

    if MISSING:
        raise unittest.SkipTest(MISSING)
    try:
        from PIL import Image
    except ImportError as error:
        raise unittest.SkipTest(str(error)) from None
    from stand_in_torchvision import torchvision, transform_of

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "class").mkdir()
        for number in range(10):
            colour = (20 * number, 255 - 20 * number, 7 * number)
            Image.new("RGB", (40 + number, 50), colour).save(Path(folder) / "class" / f"{number}.png")
        vision = torchvision()
        dataset = vision.ImageFolder(Path(folder), transform_of(vision))
        for options in ({}, {"shuffle": True, "num_workers": 2}, {"sampler": [7, 2, 5, 5]}):
            draws = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
            here = list(tdi.DataLoader(dataset, 4, generator=draws[0], **options))
            fake.reset()
            there = list(tdi.DataLoader(dataset, 4, generator=draws[1], device="fake:1", **options))
            rows = sum(len(labels) for _, labels in here)
            # Bytes, then numbers of eight bytes, each part at an aligned offset.
            assert fake.counts()["copied_bytes"] < rows * (3 * 28 * 28 + 8) + 512 * len(here), options
            for (images, labels), (expected, numbers) in zip(there, here, strict=True):
                assert images.dtype == torch.float32 and torch.equal(images.cpu(), expected), options
                assert torch.equal(labels.cpu(), numbers), options


def batches_of_a_loader_without_a_device_are_gathered_into_page_locked_memory():
    fields = [torch.randn(96, 500) for _ in range(3)]
    loaders = {
        "ahead": tdi.DataLoader(torch.utils.data.TensorDataset(*fields), 8, pin_memory=True, num_workers=1),
        "alone": tdi.DataLoader(torch.utils.data.TensorDataset(*fields), 8, pin_memory=True),
        "sampler": tdi.DataLoader(torch.utils.data.TensorDataset(*fields), 8, sampler=list(range(96)), pin_memory=True),
    }
    pin, native.pin_memory = native.pin_memory, lambda batch, device: batch  # torch would hide a missing gather
    try:
        for name, loader in loaders.items():
            rows = []
            for batch in loader:
                assert all(field.is_pinned() for field in batch), name
                rows.append([field.clone() for field in batch])
            for i, field in enumerate(fields):
                assert torch.equal(torch.cat([row[i] for row in rows]), field), name
    finally:
        native.pin_memory = pin
    for batch in tdi.DataLoader(list(zip(*fields, strict=True)), 8, pin_memory=True):
        assert all(field.is_pinned() for field in batch), "made by Python"


class Rows(torch.utils.data.Dataset):
    """Row r: `sizes(r)` numbers r, and r."""

    def __init__(self, count, sizes):
        self.count, self.sizes = count, sizes

    def __len__(self):
        return self.count

    def __getitem__(self, row):
        return torch.full((self.sizes(row),), float(row)), row


def check_rows(batches, count):
    """That copies of batches of `Rows` have all rows in order."""
    assert torch.cat([numbers for _, numbers in batches]).tolist() == list(range(count))
    for values, numbers in batches:
        assert torch.equal(values, numbers[:, None].expand_as(values).float())


def with_workers(rows, batch_size, **arguments):
    return tdi.DataLoader(rows, batch_size, **{"num_workers": 2, "pin_memory": True} | arguments)


def page_locked(loader):
    return "page-locked once" in str(loader.explain())


def batches_of_worker_processes_lie_in_page_locked_memory_without_a_thread():
    loader = with_workers(Rows(40, lambda row: 3), 4)
    assert page_locked(loader)
    threads = threading.active_count()
    iterator = iter(loader)
    allocations = fake.counts()["host_allocations"]
    batches = list(iterator)
    assert threading.active_count() == threads
    assert fake.counts()["host_allocations"] <= allocations + 11  # a block of one byte for each, and no other
    assert all(values.is_pinned() and numbers.is_pinned() for values, numbers in batches)
    check_rows(batches, 40)


def slabs_are_page_locked_once_and_until_the_batches_are_gone():
    iterator = iter(with_workers(Rows(400, lambda row: 1000), 4))
    for _ in range(20):
        kept = next(iterator)
    locked = fake.counts()["registrations"]
    for _ in range(50):
        next(iterator)
    # As many more as the workers may get further ahead than they were, and not one with each batch.
    assert fake.counts()["registrations"] <= locked + 8, (locked, fake.counts())
    del iterator
    assert fake.counts()["registered"] == 1, fake.counts()
    assert kept[0].is_pinned() and kept[1].tolist() == [76, 77, 78, 79]
    del kept
    fake.drain()
    list(with_workers(Rows(4, lambda row: 1), 4))
    gc.collect()
    assert fake.counts()["registered"] == 0, fake.counts()


def memory_is_not_written_to_while_a_users_copy_reads_it():
    fake.set_delay(2000)
    stream, arrived = torch.Stream(device="fake:0"), []
    for values, numbers in with_workers(Rows(600, lambda row: 5000), 4, prefetch_factor=1):
        with stream:
            arrived.append([part.to("fake:0", non_blocking=True) for part in (values, numbers)])
        del values, numbers  # the copies have hardly begun
    fake.drain()
    check_rows([(values.cpu(), numbers.cpu()) for values, numbers in arrived], 600)


def slabs_that_grow_are_page_locked_anew():
    def size(row):
        return 4 * 3 ** (row // 8 % 9)

    batches = []
    for values, numbers in with_workers(Rows(288, size), 4):
        assert values.is_pinned()
        batches.append((values.to("fake:0", non_blocking=True).cpu(), numbers.clone()))
    check_rows(batches, 288)


def what_is_pickled_is_pinned_by_torch():
    def collate(rows):
        values = rows[0][0]
        return {"twice": [values, values], "object": types.SimpleNamespace, "array": values.numpy()}

    for batch in with_workers(Rows(24, lambda row: 1000), 1, collate_fn=collate):
        assert all(part.is_pinned() for part in batch["twice"])
        assert not torch.from_numpy(batch["array"]).is_pinned()


def batches_are_pinned_as_before_where_memory_cannot_be_page_locked():
    page_locks = sys.modules["torch_distinput.base._page_locks"]
    fake.set_most_registered(10_000)
    try:
        first = with_workers(Rows(80, lambda row: 10 + row // 4 * 160), 4)
        assert page_locked(first)
        batches = list(first)  # from some batch on by torch
        assert all(values.is_pinned() for values, _ in batches)
        again = with_workers(Rows(80, lambda row: 3), 4)
        assert "because cudaHostRegister failed with error 1" in str(again.explain())
        iterator = iter(again)
        pinning = iterator._pin_memory_thread
        assert all(values.is_pinned() for values, _ in iterator)
        del iterator
        assert not pinning.is_alive()
        assert "because `pin_memory_device` is given" in str(
            with_workers(Rows(8, lambda row: 3), 4, pin_memory_device="fake").explain()
        )
    finally:
        fake.set_most_registered(2**62)
        page_locks._refused = None


def batches_of_workers_for_a_device_are_copied_from_the_slabs():
    class Fields(Rows):
        def __getitem__(self, row):
            return {
                "x": torch.full((3, 5), float(row)),
                "n": row,
                "large": torch.full((2**17,), row, dtype=torch.int32),
            }

    for distributed in (False, True):
        loader = with_workers(Fields(60, None), 4, pin_memory=False, device="fake:1", distributed=distributed)
        fake.reset()
        iterator = iter(loader)
        for _ in range(5):
            next(iterator)
        fake.drain()
        before = fake.counts()
        assert before["registered"] > 0, before
        batches = list(iterator)
        counts = fake.counts()
        assert counts["copies"] - before["copies"] == 2 * len(batches) == 20, counts  # one for the small fields
        assert counts["host_waits"] == 0, counts
        assert counts["host_allocations"] <= 15, counts  # a block of one byte for a batch, and no other
        for step, batch in enumerate(batches, 5):
            assert batch["n"].cpu().tolist() == list(range(4 * step, 4 * step + 4))
            assert torch.equal(batch["x"].cpu(), batch["n"].cpu()[:, None, None].expand(-1, 3, 5).float())
            assert torch.equal(batch["large"].cpu()[:, -1], batch["n"].cpu().int())


def pin_memory_changes_nothing_for_batches_on_a_device():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(8))

    data = (
        torch.utils.data.TensorDataset(torch.arange(8)),
        tdi.Dataset.range(8),
        tdi.Dataset.range(8).map(lambda row: row),
        list(range(8)),
        Stream(),
    )
    for dataset, distributed in itertools.product(data, (None, True)):
        loader = tdi.DataLoader(dataset, 4, device="fake:1", pin_memory=True, distributed=distributed)
        batches = [batch[0] if isinstance(batch, list) else batch for batch in loader]
        assert [str(batch.device) for batch in batches] == ["fake:1"] * 2, (dataset, distributed)
        assert [batch.tolist() for batch in map(torch.Tensor.cpu, batches)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def batches_that_python_made_come_in_one_copy_without_a_wait():
    class Words(torch.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, row):
            return {
                "x": torch.full((30,), float(row)),
                "n": row,
                "word": f"w{row}",
                "odd": (row % 2 == 1, torch.ones(2, 3)),
            }

    fake.set_delay(200)
    expected = list(tdi.DataLoader(Words(), 8))
    for workers in (0, 2):
        iterator = iter(tdi.DataLoader(Words(), 8, device="fake:1", num_workers=workers))
        next(iterator)
        fake.drain()
        fake.reset()
        batches = list(iterator)
        counts = fake.counts()
        assert counts["copies"] == len(batches) == 7, counts
        assert counts["host_waits"] == 0, counts
        for batch, reference in zip(batches, expected[1:], strict=True):
            assert batch["word"] == reference["word"]
            assert str(batch["x"].device) == "fake:1"
            assert torch.equal(batch["x"].cpu(), reference["x"])
            assert torch.equal(batch["n"].cpu(), reference["n"])
            assert torch.equal(batch["odd"][0].cpu(), reference["odd"][0])
            assert torch.equal(batch["odd"][1].cpu(), reference["odd"][1])


def rows_that_an_executor_makes_arrive_on_the_devices():
    executor = tdi.Executor("processes", max_workers=1)
    pinned = tdi.DataLoader(tdi.Dataset.range(6), 3, pin_memory=True, executor=executor)
    fields = many_fields(3)
    loader = tdi.DataLoader(fields, batch_size=None, device="fake:1", executor=executor)
    strategy = tdi.MirroredStrategy(["fake:0", "fake:1"])
    steps = strategy.distribute_dataset(tdi.Dataset.range(6).batch(4), tdi.InputOptions(executor=executor))
    with pinned, loader:
        assert all(batch.is_pinned() for batch in pinned)
        for batch, expected in zip(loader, fields, strict=True):
            assert {str(value.device) for value in batch.values()} == {"fake:1"}
            assert all(torch.equal(value.cpu(), expected[name]) for name, value in batch.items())
    parts = [step.values for step in steps]
    assert [[str(part.device) for part in step] for step in parts] == [["fake:0", "fake:1"]] * 2
    assert [[part.cpu().tolist() for part in step] for step in parts] == [[[0, 1], [2, 3]], [[4], [5]]]


def rows_that_an_executor_makes_are_copied_from_slabs_that_are_page_locked_once():
    class Fields(Rows):
        def __getitem__(self, row):
            return {"n": row, "large": torch.full((2**15,), row, dtype=torch.int32)}

    executor = tdi.Executor("processes", max_workers=1)
    numbers = tdi.Dataset.range(240).map(lambda row: {"n": row, "large": row.int().expand(2**15).clone()})

    def drained(steps):
        for batch in steps:
            fake.drain()
            yield batch

    for dataset in (Fields(240, None), numbers):
        began = fake.counts()
        with tdi.DataLoader(dataset, 4, device="fake:1", executor=executor) as loader:
            iterator = iter(loader)
            kept = list(drained(itertools.islice(iterator, 20)))
            before = fake.counts()
            kept += drained(iterator)
            after = fake.counts()
            assert after["copies"] - before["copies"] == len(kept) - 20 == 40, (before, after)
            assert began["registrations"] < before["registrations"], (began, before)
            assert after["registrations"] <= before["registrations"] + 4, (before, after)
            assert after["host_allocations"] == began["host_allocations"], (began, after)  # nothing is put together
            for step, batch in enumerate(kept):
                assert batch["n"].cpu().tolist() == list(range(4 * step, 4 * step + 4))
                assert torch.equal(batch["large"].cpu()[:, -1], batch["n"].cpu().int())
    two = tdi.MirroredStrategy(["fake:0", "fake:1"])
    for options, locked in ({}, True), ({"fetch_to_device": False}, False):
        before = fake.counts()["registrations"]
        steps = two.distribute_dataset(tdi.Dataset.range(6).batch(4), tdi.InputOptions(executor=executor, **options))
        assert [[part.cpu().tolist() for part in step.values] for step in steps] == [[[0, 1], [2, 3]], [[4], [5]]]
        assert (fake.counts()["registrations"] > before) == locked
    del loader, iterator, kept, batch, steps
    gc.collect()
    for device in two.devices:  # lets go of what was copied
        fake.drain()
        list(tdi.DataLoader(tdi.Dataset.range(4), 4, device=str(device)))
    assert fake.counts()["registered"] == 0, fake.counts()


def answers_in_other_memory_are_put_together_in_page_locked_memory_that_is_used_again():
    executor = tdi.Executor(Processes, max_workers=1)  # without slabs, as Ray's store is
    numbers = tdi.Dataset.range(240).map(lambda row: {"n": row, "large": row.int().expand(2**15).clone()})
    with tdi.DataLoader(numbers, 4, device="fake:1", executor=executor) as loader:
        kept = []
        for batch in loader:
            fake.drain()
            kept.append(batch)
            if len(kept) == 20:
                before = fake.counts()
        after = fake.counts()
    assert after["copies"] - before["copies"] == 40, (before, after)
    assert after["host_allocations"] == before["host_allocations"], (before, after)
    assert after["registrations"] == before["registrations"], (before, after)
    for step, batch in enumerate(kept):
        assert batch["n"].cpu().tolist() == list(range(4 * step, 4 * step + 4))
        assert torch.equal(batch["large"].cpu()[:, -1], batch["n"].cpu().int())


def a_slab_stays_page_locked_while_something_views_it():
    own, given = OwnSlabs(), GivenSlabs()
    before = fake.counts()["registered"]
    place, fd = own.write(pack(torch.arange(3)))
    part = given.lent(place, os.dup(fd))[100:]
    del given
    gc.collect()
    assert fake.counts()["registered"] == before + 1 and part.is_pinned()
    del part
    assert fake.counts()["registered"] == before


def a_loader_takes_the_device_of_its_rank_or_the_only_one():
    rows = torch.utils.data.TensorDataset(torch.arange(8))
    seen = []
    for rank, visible in (("1", 2), ("3", 1)):
        os.environ["LOCAL_RANK"] = rank
        _C.count_devices_with("fake", lambda visible=visible: visible)
        try:
            seen += [str(batch[0].device) for batch in tdi.DataLoader(rows, 8, device="fake")]
            seen += [str(device) for device in tdi.MultiWorkerMirroredStrategy().devices]
        finally:
            del os.environ["LOCAL_RANK"]
            _C.count_devices_with("fake", lambda: 2)
    assert seen == ["fake:1", "fake:1", "fake:0", "fake:0"]


def values_with_more_than_bytes_use_their_own_to():
    weight, strided = torch.ones(2, 3, requires_grad=True), torch.arange(12).view(2, 6)[:, ::2]
    loader = tdi.DataLoader(range(2), 2, device="fake:1", collate_fn=lambda rows: {"w": weight * 2, "s": strided})
    batch = next(iter(loader))
    batch["w"].cpu().sum().backward()
    assert torch.equal(weight.grad, torch.full((2, 3), 2.0))
    assert torch.equal(batch["s"].cpu(), strided)


def replicas_reduce_and_gather_over_their_devices():
    two = tdi.MirroredStrategy(["fake:0", "fake:1"])
    rows = [torch.randn(5, 3), torch.randn(2, 3)]
    values = tdi.PerReplica([part.to(f"fake:{i}") for i, part in enumerate(rows)])

    def step(part):
        assert str(torch.accelerator.current_stream().device) == str(part.device)
        with torch.inference_mode():
            context = tdi.get_replica_context()
            return context.all_reduce("MEAN", {"first": part[:2], "n": torch.full((), len(part), device=part.device)})

    fake.set_delay(300)
    fake.reset()
    results = two.run(step, (values,))
    whole = two.gather(values, 0)
    total = two.reduce("SUM", tdi.PerReplica([part[:1] for part in values.values]))
    counts = fake.counts()
    assert counts["collectives"] == 4, counts
    fake.drain()
    for i, (first, n) in enumerate(zip(results["first"].values, results["n"].values, strict=True)):
        assert str(first.device) == f"fake:{i}"
        torch.testing.assert_close(first.cpu(), (rows[0][:2] + rows[1]) / 2)
        assert n.item() == 3.5
    assert torch.equal(whole.cpu(), torch.cat(rows))
    assert torch.equal(total.cpu(), rows[0][:1] + rows[1][:1])


def replicas_exchange_values_on_the_streams_of_their_functions():
    two = tdi.MirroredStrategy(["fake:0", "fake:1"])
    on_host = [torch.full((1000,), float(i + 1)).pin_memory() for i in range(2)]
    fake.set_delay(1, 20_000)

    def step(source):
        device = torch.accelerator.current_stream().device
        torch.accelerator.set_stream(torch.Stream(device))
        mine = torch.empty(1000, device=device)
        mine.copy_(source, non_blocking=True)  # slow on device 1, and on a stream that no other replica uses
        return tdi.get_replica_context().all_reduce("SUM", mine)

    for total in two.run(step, (tdi.PerReplica(on_host),)).values:
        fake.drain()
        assert torch.equal(total.cpu(), torch.full((1000,), 3.0))


def a_program_with_a_slow_device_is_copy_bound():
    fake.set_delay(3000)  # for each copy
    rows = tdi.Dataset.from_tensor_slices(torch.zeros(48, 2**18)).batch(4)
    options = tdi.Options(prefetch_bytes=1)  # each batch waits until the one before has been copied
    steps = iter(tdi.OneDeviceStrategy("fake:1").distribute_dataset(rows.with_options(options)))
    for _ in steps:
        pass
    stats = steps.stats()
    assert stats.copies == 12 and stats.copied_bytes == 48 * 2**20
    assert stats.verdict().bound == "copy" and stats.copy_seconds > 8 * 0.003, stats


def a_resumed_iterator_delivers_the_rest():
    dataset = tdi.OneDeviceStrategy("fake:1").distribute_dataset(tdi.Dataset.range(20).batch(4))
    iterator = iter(dataset)
    next(iterator)
    state = iterator.state_dict()
    rest = [batch.cpu().tolist() for batch in iterator]
    resumed = iter(dataset)
    resumed.load_state_dict(state)
    assert [batch.cpu().tolist() for batch in resumed] == rest


def the_next_epoch_is_read_before_it_is_asked_for_and_copied_after_that():
    server, file = ObjectServer(), io.BytesIO()

    def sent():
        return sum(entry.sent for entry in server.requests(operation="read"))

    try:
        np.save(file, np.arange(32).reshape(-1, 1) * np.ones((1, 4096), np.int64))
        server.put("bucket/rows", file.getvalue())
        rows = tdi.NumpyDataset(server.url("http", "bucket/rows")).shuffle()
        for options in ({}, {"distributed": True}, {"prefetch_bytes": 1}, {"distributed": True, "prefetch_bytes": 1}):
            before, loader = sent(), tdi.DataLoader(rows, 8, device="fake:1", seed=3, **options)
            first = [batch.cpu()[:, 0].tolist() for batch in loader]
            fake.drain()
            copies = fake.counts()["copies"]
            wait_until(lambda before=before: sent() > before + 33 * 4096 * 8)
            assert fake.counts()["copies"] == copies, options
            second = [batch.cpu()[:, 0].tolist() for batch in loader]
            assert loader.stats().copies == len(second) == 4
            assert first != second and sorted(sum(second, [])) == sorted(sum(first, [])) == list(range(32))
            expected = tdi.DataLoader(rows, 8, seed=3, distributed=options.get("distributed"))
            assert [[batch[:, 0].tolist() for batch in expected] for _ in range(2)] == [first, second], options
    finally:
        server.close()


HELPERS = (many_fields, raw, Rows, check_rows, with_workers, page_locked)
PROGRAMS = [value for name, value in list(globals().items()) if callable(value) and value.__module__ == __name__]
PROGRAMS = [program for program in PROGRAMS if program not in HELPERS]


def outcome(program) -> str | None:
    fake.drain()
    fake.reset()
    fake.set_delay(0)
    try:
        program()
    except unittest.SkipTest as reason:
        return f"skipped: {reason}"
    except BaseException:  # noqa: BLE001 - it is the result
        return traceback.format_exc()
    return None


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")  # what workers make is local to the programs, which are about its consumer
    print(json.dumps({program.__name__: outcome(program) for program in PROGRAMS}))
