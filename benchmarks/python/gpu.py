# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The path to a CUDA device, compared with bare copies and with torch's DataLoader plus a prefetcher.

    make bench-gpu       # python benchmarks/python/gpu.py --json benchmarks/results/gpu.json

Without a device the file says "not measured".
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from machine import describe
from torch.utils.data import DataLoader

import torch_distinput as tdi

IMAGES = 256  # of 3 x 224 x 224 bytes: 38.5 MB
REPEATS = 7


def driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def image_rows(batches: int) -> torch.Tensor:
    return torch.randint(0, 256, (IMAGES * batches, 3, 224, 224), dtype=torch.uint8)


def seconds(run: Callable[[], None]) -> float:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def median(run: Callable[[], None]) -> float:
    run()
    return statistics.median(seconds(run) for _ in range(REPEATS))


def through(loader: Iterable, work: Callable[[], None] = lambda: None) -> None:
    for _ in loader:
        work()


def ours(dataset: tdi.Dataset) -> tdi.DistributedDataset:
    return tdi.OneDeviceStrategy("cuda:0").distribute_dataset(dataset)


def prefetched(loader: Iterable) -> Iterator:
    """A prefetcher as people write it by hand: it copies the next batch on a stream of its own."""
    stream, ahead = torch.cuda.Stream(), None
    for batch in loader:
        with torch.cuda.stream(stream):
            coming = [tensor.cuda(non_blocking=True) for tensor in batch]
        if ahead is not None:
            yield ahead
        torch.cuda.current_stream().wait_stream(stream)
        for tensor in coming:
            tensor.record_stream(torch.cuda.current_stream())
        ahead = coming
    yield ahead


def bandwidth() -> dict:
    """Host to device, 38.5 MB batches, as a share of bare page-locked copies of the same bytes."""
    batches = 128  # 5 GB: what an epoch needs to begin is not its bandwidth
    rows = image_rows(4)
    block, target = rows[:IMAGES].pin_memory(), rows[:IMAGES].cuda()

    def bare() -> None:
        for _ in range(batches):
            target.copy_(block, non_blocking=True)

    dataset = ours(tdi.Dataset.from_tensor_slices(rows).repeat().batch(IMAGES).take(batches))
    limit, own = median(bare), median(lambda: through(dataset))
    return {
        "bare_gb_s": batches * block.nbytes / limit / 1e9,
        "ours_gb_s": batches * block.nbytes / own / 1e9,
        "share": limit / own,
    }


def many_fields() -> dict:
    """64 fields of 4 kB a batch, compared with `pin_memory` and `.to(non_blocking=True)` for each tensor."""
    batches = 200
    fields = {f"f{i}": torch.randn(16 * batches, 64) for i in range(64)}

    def tensor_by_tensor() -> None:
        for step in range(batches):
            for rows in fields.values():
                rows[step * 16 : step * 16 + 16].pin_memory().to("cuda", non_blocking=True)

    dataset = ours(tdi.Dataset.from_tensor_slices(fields).batch(16))
    theirs, own = median(tensor_by_tensor), median(lambda: through(dataset))
    return {
        "tensor_by_tensor_us": theirs / batches * 1e6,
        "ours_us": own / batches * 1e6,
        "times_faster": theirs / own,
        "tensor_by_tensor_copies": copies_per_batch(tensor_by_tensor, batches),
        "ours_copies": copies_per_batch(lambda: through(dataset), batches),
    }


def copies_per_batch(run: Callable[[], None], batches: int) -> float:
    """Copies to the device, as the profiler counts them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    return sum("HtoD" in event.name for event in profile.events()) / batches


def unpacking() -> dict:
    """The kernel from bytes to float32, as a share of the bytes that a copy on the device moves in the same time; and
    images a second with the kernel after the copy, compared with floats that cross the bus."""
    rows = image_rows(2).view(-1, 224, 224, 3)
    there = rows[:IMAGES].cuda()
    out = torch.empty(IMAGES, 3, 224, 224, device="cuda")
    source, target = torch.empty(2, there.nbytes * 5 // 2, dtype=torch.uint8, device="cuda")
    scale, shift = [1 / 255.0] * 3, [-0.5] * 3
    turns = 50

    def kernel() -> None:
        for _ in range(turns):
            torch.ops.torch_distinput.unpack_images(there, True, scale, shift, False, out)

    def bare() -> None:
        for _ in range(turns):
            target.copy_(source)

    limit, own = median(bare), median(kernel)
    batches = 64
    dataset = tdi.Dataset.from_tensor_slices(rows).repeat().batch(IMAGES).take(batches)
    dataset = dataset.normalize_images([0.5] * 3, [0.25] * 3)
    there_s, here_s = median(lambda: through(ours(dataset))), median(lambda: through(ours(dataset.map(lambda x: x))))
    return {
        "kernel_gb_s": turns * there.nbytes * 5 / own / 1e9,
        "share_of_a_copy": limit / own,
        "images_per_s": batches * IMAGES / there_s,
        "images_per_s_normalized_on_the_host": batches * IMAGES / here_s,
    }


def exposed() -> dict:
    """The load time that a step of 10 ms does not hide, as a share of the step."""
    rows, steps = image_rows(4), 50
    side = torch.randn(2048, 2048, device="cuda")
    cycles = int(0.010 * 100_000_000 / median(lambda: torch.cuda._sleep(100_000_000)))  # of 10 ms

    def work() -> None:
        torch.cuda._sleep(cycles)
        side.add_(1)

    dataset = tdi.Dataset.from_tensor_slices(rows)
    alone = median(lambda: through(range(steps), work))
    loader = DataLoader(torch.utils.data.TensorDataset(rows), IMAGES, pin_memory=True, num_workers=4)
    sides = {
        "torch_distinput": lambda: through(ours(dataset.repeat().batch(IMAGES).take(steps)), work),
        "DataLoader and a prefetcher, 4 steps": lambda: through(prefetched(loader), work),
    }
    taken = {name: median(run) for name, run in sides.items()}
    return {
        "step_ms": alone / steps * 1e3,
        "exposed_share": (taken["torch_distinput"] - alone) / alone,
        "beside": {name: value * 1e3 for name, value in taken.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results here")
    arguments = parser.parse_args()
    if torch.cuda.is_available():
        device = torch.cuda.get_device_properties(0)
        result = describe(("torch",)) | {
            "status": "measured",
            "device": device.name,
            "cuda": torch.version.cuda,
            "driver": driver(),
            "host_to_device": bandwidth(),
            "many_fields": many_fields(),
            "step_of_10_ms": exposed(),
            "unpacking": unpacking(),
        }
    else:
        result = {
            "status": "not measured",
            "reason": "no CUDA device on the machine that wrote this file",
            "command": "make bench-gpu",
        }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
