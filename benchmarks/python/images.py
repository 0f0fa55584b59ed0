# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""JPEGs of 500 x 375 pixels from a tar archive and a folder in the page cache to batches of 64 images of 224 x 224.

    python benchmarks/python/images.py --json benchmarks/results/images.json

The limit is a bare loop of libjpeg-turbo's full decode in two threads, without resizing (libturbojpeg.so.0 through
ctypes, which releases the GIL). The rival is torch's DataLoader with Pillow in two worker processes. "script" is one
with an ImageFolder and normalized floats, with `from torch.utils.data import DataLoader` and with the line changed,
both with two workers. All sides run in turn and then in the opposite order; figures are medians. A quick look:
`--images 256 --turns 1`.
"""

import argparse
import ctypes
import io
import json
import statistics
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import folder_of_images
import machine
import numpy as np
import torch
from PIL import Image

import torch_distinput as tdi

BATCH, WIDTH, HEIGHT, SIDE, THREADS = 64, 500, 375, 224, 2


def write_images(root: Path, count: int) -> None:
    """Smooth colours with noise, about 60 kB each."""
    generator = np.random.default_rng(0)
    for number in range(count):
        small = generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(small).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC), dtype=np.float32)
        noisy = smooth + generator.normal(0, 10, smooth.shape)
        path = root / str(number % 10) / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=85)


def bare_decode(root: Path) -> Callable[[], None]:
    """Decodes all images with libjpeg-turbo into warm memory."""
    turbo = ctypes.CDLL("libturbojpeg.so.0")
    turbo.tjInitDecompress.restype = ctypes.c_void_p
    rgb = 0
    files = [path.read_bytes() for path in sorted(root.rglob("*.jpg"))]

    def decode(some: list[bytes]) -> None:
        handle = ctypes.c_void_p(turbo.tjInitDecompress())
        to = ctypes.create_string_buffer(WIDTH * HEIGHT * 3)
        for data in some:
            size = ctypes.c_ulong(len(data))
            if turbo.tjDecompress2(handle, data, size, to, WIDTH, 0, HEIGHT, rgb, 0) != 0:
                raise RuntimeError("tjDecompress2 failed")
        turbo.tjDestroy(handle)

    def run() -> None:
        threads = [threading.Thread(target=decode, args=(files[i::THREADS],)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return run


def ours(root: Path, op: Callable[[tdi.Dataset], tdi.Dataset]) -> Callable[[], None]:
    options = tdi.Options(num_threads=THREADS)
    batches = op(tdi.ImageFolder(root).decode_image()).batch(BATCH).with_options(options)

    def run() -> None:
        for _ in batches:
            pass

    return run


def from_tar(archive: Path, op: Callable[[tdi.Dataset], tdi.Dataset]) -> Callable[[], None]:
    rows = tdi.TarDataset(archive).decode_members()
    batches = op(rows.decode_image(key="jpg")).batch(BATCH).with_options(tdi.Options(num_threads=THREADS))

    def run() -> None:
        for _ in batches:
            pass

    return run


def write_tar(root: Path, archive: Path) -> None:
    """The images in WebDataset's layout."""
    with tarfile.open(archive, "w") as tar:
        for path in sorted(root.rglob("*.jpg")):
            tar.add(path, path.name)
            number = tarfile.TarInfo(path.stem + ".cls")
            number.size = len(path.parent.name)
            tar.addfile(number, io.BytesIO(path.parent.name.encode()))


def script(loader: type, root: Path, random: bool) -> Callable[[], None]:
    """A pass of a script over an ImageFolder, its batches as floats."""
    vision = folder_of_images.vision()
    names = vision.transforms
    numbers = [names.ToTensor(), names.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    shapes = [names.RandomResizedCrop(SIDE), names.RandomHorizontalFlip()]
    if not random:
        shapes = [names.Resize(256), names.CenterCrop(SIDE)]
    rows = vision.ImageFolder(root, names.Compose([*shapes, *numbers]))
    batches = loader(rows, BATCH, shuffle=random, num_workers=THREADS, persistent_workers=True)

    def run() -> None:
        for _ in batches:
            pass

    return run


class PillowRows(torch.utils.data.Dataset):
    """What torchvision's ImageFolder does, without torchvision."""

    def __init__(self, root: Path, crop: bool):
        self.paths, self.crop = sorted(root.rglob("*.jpg")), crop

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = Image.open(io.BytesIO(self.paths[index].read_bytes())).convert("RGB")
        if self.crop:
            image = image.resize((round(256 * WIDTH / HEIGHT), 256), Image.Resampling.BILINEAR)
            left, top = (image.width - SIDE) // 2, (256 - SIDE) // 2
            image = image.crop((left, top, left + SIDE, top + SIDE))
        else:
            image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous(), int(self.paths[index].parent.name)


def with_pillow(root: Path, crop: bool) -> Callable[[], None]:
    loader = torch.utils.data.DataLoader(
        PillowRows(root, crop), BATCH, num_workers=THREADS, persistent_workers=True, prefetch_factor=4
    )

    def run() -> None:
        for _ in loader:
            pass

    return run


def main() -> None:
    """Prints milliseconds a batch and shares of the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    neighbours = machine.Neighbours()
    with tempfile.TemporaryDirectory() as folder:
        root, archive = Path(folder, "train"), Path(folder, "train.tar")
        root.mkdir()
        write_images(root, arguments.images)
        write_tar(root, archive)
        kilobytes = sum(path.stat().st_size for path in root.rglob("*.jpg")) / arguments.images / 1000
        chains: dict[str, Callable[[tdi.Dataset], tdi.Dataset]] = {
            "resize": lambda rows: rows.resize((SIDE, SIDE)),
            "resize 256, center crop": lambda rows: rows.resize(256).center_crop(SIDE),
            "random resized crop": lambda rows: rows.random_resized_crop(SIDE),
        }
        torchs, changed = torch.utils.data.DataLoader, tdi.DataLoader
        sides = {
            "limit: bare full decode": bare_decode(root),
            **{f"tar: {name}": from_tar(archive, op) for name, op in chains.items()},
            **{name: ours(root, op) for name, op in chains.items()},
            "script, resize and crop: torch's DataLoader": script(torchs, root, random=False),
            "script, resize and crop: the line changed": script(changed, root, random=False),
            "script, random crop and flip: torch's DataLoader": script(torchs, root, random=True),
            "script, random crop and flip: the line changed": script(changed, root, random=True),
            "DataLoader + Pillow, 2 workers: resize": with_pillow(root, crop=False),
            "DataLoader + Pillow, 2 workers: resize 256, center crop": with_pillow(root, crop=True),
        }
        times: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(arguments.turns + 1):
            for name in list(sides)[:: 1 if turn % 2 else -1]:
                start = time.perf_counter()
                sides[name]()
                if turn > 0:  # the first one warms up
                    times[name].append((time.perf_counter() - start) * 1e3 * BATCH / arguments.images)
        del sides
    limit = times["limit: bare full decode"]
    results: dict[str, dict[str, float]] = {
        name: {
            "ms_per_batch": round(statistics.median(found), 2),
            "of_limit": round(statistics.median(one / bare for one, bare in zip(found, limit, strict=True)), 3),
        }
        for name, found in times.items()
    }
    for name, figures in results.items():
        print(f"{name:58} {figures['ms_per_batch']:7.2f} ms a batch {figures['of_limit']:6.2f} of the limit")
    for name in ("script, resize and crop", "script, random crop and flip"):
        pairs = zip(times[f"{name}: torch's DataLoader"], times[f"{name}: the line changed"], strict=True)
        results[f"{name}: the line changed"]["times_torchs"] = round(statistics.median(a / b for a, b in pairs), 2)
        print(f"{name}: {results[f'{name}: the line changed']['times_torchs']} times as fast with the line changed")
    others = round(neighbours.cores(), 2)
    print(f"images of {kilobytes:.0f} kB; others used {others} cores")
    if arguments.json:
        content = {
            **machine.describe(("torch", "pillow")),
            "others_used_cores": others,
            "image_kb": round(kilobytes, 1),
            "transforms": folder_of_images.vision().kind,
            "results": results,
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
