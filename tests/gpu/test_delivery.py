# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Batches on a CUDA device: right values, no waits, copies beside the consumer's own work, no memory left behind."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import torch_distinput as tdi

BATCH = 64


def images(batches: int) -> tdi.Dataset:
    rows = torch.randint(0, 256, (BATCH * 4, 3, 224, 224), dtype=torch.uint8)
    data = {"image": rows, "label": torch.arange(len(rows))}
    return tdi.Dataset.from_tensor_slices(data).repeat().batch(BATCH).take(batches)


def on_gpu(dataset: tdi.Dataset):
    return tdi.OneDeviceStrategy("cuda:0").distribute_dataset(dataset)


def run_at(folder: Path | None, program: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        cwd=folder,
        env=os.environ | environment,
    )


def run(program: str, **environment: str) -> str:
    """The output of `program`, run in a process of its own."""
    return run_at(None, program, **environment).stdout.strip()


def work(step: int) -> torch.Tensor:
    """Some milliseconds of kernels on the current stream."""
    a = torch.randn(4096, 4096, device="cuda:0", generator=torch.Generator("cuda:0").manual_seed(step))
    return a @ a


def test_batches_are_those_of_the_host():
    dataset = images(8)
    for there, here in zip(on_gpu(dataset), dataset, strict=True):
        assert torch.equal(there["image"].cpu(), here["image"])
        assert torch.equal(there["label"].cpu(), here["label"])


def test_a_thousand_kept_batches_never_change():
    kept = list(on_gpu(tdi.Dataset.range(4000).batch(4)))
    assert torch.equal(torch.cat(kept).cpu(), torch.arange(4000))


def test_all_kinds_of_leaves_arrive():
    ragged = torch.nested.nested_tensor([torch.arange(i) for i in range(1, 5)], layout=torch.jagged)
    sparse = torch.eye(4).to_sparse()
    dataset = tdi.Dataset.from_tensor_slices({"r": ragged, "s": sparse, "t": ["a", "b", "c", "d"]}).ragged_batch(4)
    batch = next(iter(on_gpu(dataset)))
    assert [row.tolist() for row in batch["r"].cpu().unbind()] == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert torch.equal(batch["s"].cpu().to_dense(), torch.eye(4))
    assert batch["t"] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_images_are_normalized_behind_the_copy(dtype, layout):
    rows = torch.randint(0, 256, (BATCH * 3 + 5, 32, 32, 3), dtype=torch.uint8)
    data = {"image": rows, "label": torch.arange(len(rows))}
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    dataset = tdi.Dataset.from_tensor_slices(data).batch(BATCH).normalize_images(mean, std, dtype, layout)
    there = on_gpu(dataset)
    assert "done by the devices" in there.explain()
    for batch, reference in zip(there, dataset, strict=True):
        assert torch.equal(batch["image"].cpu(), reference["image"])
        assert torch.equal(batch["label"].cpu(), reference["label"])


def test_what_autograd_saved_is_there_when_it_is_wanted():
    rows = torch.arange(4000.0).reshape(1000, 4)
    weight = torch.ones(4, device="cuda:0", requires_grad=True)
    losses = [(batch * weight).sum() for batch in on_gpu(tdi.Dataset.from_tensor_slices(rows).batch(10))]
    sum(losses).backward()
    assert torch.equal(weight.grad.cpu(), rows.sum(0))


def test_pin_memory_without_a_device_gathers_into_page_locked_memory():
    rows = torch.arange(400_000.0).reshape(-1, 100)
    loader = tdi.DataLoader(torch.utils.data.TensorDataset(rows), 100, pin_memory=True, num_workers=1)
    arrived = []
    for (batch,) in loader:
        assert batch.is_pinned()
        arrived.append(batch.to("cuda:0", non_blocking=True))  # the page-locked batch is freed while the copy runs
    assert torch.equal(torch.cat(arrived).cpu(), rows)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, row):
        return torch.full((10_000,), float(row)), row


def test_batches_of_worker_processes_are_page_locked_where_they_lie():
    threads = threading.active_count()
    loader = tdi.DataLoader(Rows(), 10, num_workers=2, pin_memory=True)
    assert "page-locked once" in str(loader.explain())
    stream, arrived = torch.cuda.Stream(), []
    for values, numbers in loader:
        assert values.is_pinned() and numbers.is_pinned()
        assert threading.active_count() == threads
        with torch.cuda.stream(stream):  # the slab is let go of while the copy runs
            arrived.append((values.to("cuda:0", non_blocking=True), numbers.to("cuda:0", non_blocking=True)))
    torch.cuda.synchronize()
    assert torch.equal(torch.cat([numbers for _, numbers in arrived]).cpu(), torch.arange(2000))
    assert all(torch.equal(values, numbers[:, None].expand_as(values).float()) for values, numbers in arrived)


def test_batches_of_worker_processes_come_to_a_device():
    batches = list(tdi.DataLoader(Rows(), 10, num_workers=2, device="cuda:0"))
    assert torch.equal(torch.cat([numbers for _, numbers in batches]).cpu(), torch.arange(2000))
    assert all(torch.equal(values, numbers[:, None].expand_as(values).float()) for values, numbers in batches)


def test_copies_run_beside_kernels_and_next_never_waits():
    iterator = iter(on_gpu(images(40)))
    for _ in range(10):
        next(iterator)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for step in range(10):
            with torch.profiler.record_function("next"):
                next(iterator)
            work(step)
        torch.cuda.synchronize()
    events = profile.events()
    nexts = [e.time_range for e in events if e.name == "next" and e.device_type == torch.autograd.DeviceType.CPU]
    waits = [e for e in events if "Synchronize" in e.name and e.device_type == torch.autograd.DeviceType.CPU]
    assert not [w for w in waits for n in nexts if n.start <= w.time_range.start < n.end]
    gpu = [e for e in events if e.device_type == torch.autograd.DeviceType.CUDA]
    copies = [e.time_range for e in gpu if "HtoD" in e.name]
    kernels = [e.time_range for e in gpu if "gemm" in e.name.lower()]
    assert any(c.start < k.end and k.start < c.end for c in copies for k in kernels)


def test_small_leaves_are_one_copy():
    fields = {f"f{i}": torch.zeros(1600, 64) for i in range(64)}
    iterator = iter(on_gpu(tdi.Dataset.from_tensor_slices(fields).batch(16)))
    for _ in range(10):
        next(iterator)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(50):
            next(iterator)
        torch.cuda.synchronize()
    assert sum("HtoD" in event.name for event in profile.events()) <= 60


def test_a_graph_is_recorded_while_the_loader_runs():
    iterator = iter(on_gpu(images(200)))
    static = next(iterator)["image"].clone()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        static.float().sum()
    torch.cuda.current_stream().wait_stream(side)
    for _ in range(20):
        next(iterator)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            total = static.float().sum()
        graph.replay()
    assert total.item() == static.float().sum().item()


def test_next_raises_inside_a_recording_and_loses_nothing():
    iterator = iter(on_gpu(tdi.Dataset.range(12).batch(4)))
    next(iterator)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        with pytest.raises(tdi.FailedPreconditionError, match="records a graph"):
            next(iterator)
    assert next(iterator).tolist() == [4, 5, 6, 7]


def test_copies_have_a_stream_of_their_own():
    dataset = on_gpu(images(4))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        list(dataset)
        for _ in range(64):  # more streams than torch's pool has
            with torch.cuda.stream(torch.cuda.Stream()):
                torch.zeros(1000, device="cuda:0").add_(1)
        torch.cuda.synchronize()
    streams = {True: set(), False: set()}
    for event in profile.profiler.kineto_results.events():
        if event.device_type() == torch.autograd.DeviceType.CUDA:
            streams["HtoD" in event.name()].add(event.device_resource_id())
    assert len(streams[True]) == 1
    assert not streams[True] & streams[False]


def test_a_graph_on_the_stream_of_the_last_step_stays_the_users():
    iterator = iter(on_gpu(tdi.Dataset.range(400).batch(4)))
    stream, other, static = torch.cuda.Stream(), torch.cuda.Stream(), torch.zeros(4, device="cuda:0")
    expected = iter(tdi.Dataset.range(400).batch(4))
    for _ in range(20):
        with torch.cuda.stream(stream):
            assert torch.equal(next(iterator).cpu(), next(expected))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            static.add_(1)
            with torch.cuda.stream(other):
                batch = next(iterator)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(batch.cpu(), next(expected))
    assert static.tolist() == [20.0] * 4


def test_batches_are_gathered_into_new_memory_while_a_graph_is_recorded():
    static = torch.zeros(1 << 16, device="cuda:0")
    iterators = [iter(on_gpu(images(60))) for _ in range(4)]
    for iterator in iterators:  # each allocates page-locked and device memory of its own in its first steps
        graph = torch.cuda.CUDAGraph()
        started = threading.Thread(target=lambda it=iterator: [next(it) for _ in range(20)])
        with torch.cuda.graph(graph):
            started.start()
            for _ in range(200):
                static.add_(1)
            started.join()
        graph.replay()
    torch.cuda.synchronize()


def test_less_memory_than_for_all_batches_is_enough():
    program = (
        "import torch, torch_distinput as tdi\n"
        "rows = torch.zeros(4096, 1 << 16)\n"  # batches of 16 MiB; read-ahead would hold ten of them
        "torch.cuda.set_per_process_memory_fraction(100e6 / torch.cuda.get_device_properties(0).total_memory)\n"
        "d = tdi.OneDeviceStrategy('cuda:0').distribute_dataset(tdi.Dataset.from_tensor_slices(rows).batch(64))\n"
        "print(sum(int(batch.size(0)) for batch in d))\n"
    )
    assert run(program) == "4096"


def test_explain_reports_nothing_missing_for_delivery():
    told = on_gpu(images(1)).explain()
    assert "delivery:" not in told, told


def test_a_library_that_does_not_load_is_reported_once(tmp_path):
    package = Path(tdi.__file__).parent
    copy = tmp_path / package.name
    shutil.copytree(package, copy)
    (copy / "lib" / "libtorch_distinput_cuda.so").write_text("no library")
    program = (
        "import torch, torch_distinput as tdi\n"
        "d = tdi.OneDeviceStrategy('cuda:0').distribute_dataset(tdi.Dataset.range(64).batch(4))\n"
        "list(d); list(d)\n"
        "print('cannot be loaded' in d.explain())\n"
    )
    done = run_at(tmp_path, program)
    assert done.stdout.strip() == "True"
    assert done.stderr.count("cannot be loaded") == 1, done.stderr


def test_children_may_use_the_device_after_the_parent_described_what_it_wants():
    program = (
        "import os, torch, torch_distinput as tdi\n"
        "d = tdi.MirroredStrategy().distribute_dataset(tdi.Dataset.range(64).batch(4))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    torch.ones(1, device='cuda:0').item()\n"
        "    os._exit(0)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    assert run(program) == "0"


def test_a_rank_that_sees_one_device_takes_it():
    program = "import torch_distinput as tdi\nprint(tdi.MultiWorkerMirroredStrategy().devices[0])\n"
    assert run(program, LOCAL_RANK="3", CUDA_VISIBLE_DEVICES="0") == "cuda:0"


def test_epochs_left_early_take_no_memory():
    dataset = on_gpu(images(20))

    def epoch():
        for step, _ in enumerate(dataset):
            if step == 3:
                break
        torch.cuda.synchronize()

    for _ in range(5):
        epoch()
    before = torch.cuda.memory_reserved()
    for _ in range(20):
        epoch()
    assert torch.cuda.memory_reserved() <= before


def test_another_ranks_process_has_no_context_on_the_first_device():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two devices")
    program = (
        "import torch, torch_distinput as tdi\n"
        "rows = torch.zeros(64, 8, 8, 3, dtype=torch.uint8)\n"
        "rows = tdi.Dataset.from_tensor_slices(rows).batch(4).normalize_images([.5] * 3, [.5] * 3)\n"
        "d = tdi.OneDeviceStrategy('cuda:1').distribute_dataset(rows)\n"
        "d.explain(); list(d); torch.cuda.synchronize(1)\n"
        "print(torch._C._cuda_hasPrimaryContext(0))\n"
    )
    assert run(program) == "False"


@pytest.mark.parametrize("mode", ["inference", "autocast", "side stream", "compile"])
def test_right_in_every_mode(mode):
    rows = torch.arange(400.0).reshape(100, 4)
    dataset = on_gpu(tdi.Dataset.from_tensor_slices(rows).batch(10))
    double = torch.compile(lambda x: x * 2) if mode == "compile" else (lambda x: x * 2)
    stream = torch.cuda.Stream() if mode == "side stream" else torch.cuda.current_stream()
    with torch.inference_mode(mode == "inference"), torch.autocast("cuda", enabled=mode == "autocast"):
        with torch.cuda.stream(stream):
            result = torch.cat([double(batch) for batch in dataset])
            assert torch.equal(result.cpu(), rows * 2)
