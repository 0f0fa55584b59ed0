# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Trains a small net on a folder of images, stops in mid-epoch, resumes, and shows what the net sees.

    python examples/python/11_images.py [--sheet sheet.png]
    torchrun --nproc-per-node=2 examples/python/11_images.py

The images are scikit-learn's digits, written as PNG files with Pillow. `--sheet` writes one augmented batch as an
image, with the number and class of each row above it.
"""

import argparse
import os
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from sklearn.datasets import load_digits

import torch_distinput as tdi

BATCH, SIDE = 64, 24


def write_images(root: Path) -> None:
    """A folder for each digit, with images of 32 x 32 pixels."""
    digits = load_digits()
    for number, (values, digit) in enumerate(zip(digits.images, digits.target)):
        folder = root / str(digit)
        folder.mkdir(exist_ok=True)
        image = Image.fromarray((values * 255 / 16).astype("uint8"))
        image.resize((32, 32), Image.Resampling.BICUBIC).save(folder / f"{number:04}.png")


def augmented(root: Path) -> tdi.Dataset:
    """Batches of (uint8 images, class numbers)."""
    rows = tdi.ImageFolder(root).shuffle(seed=7).decode_image()
    rows = rows.random_resized_crop(SIDE, scale=(0.7, 1.0)).color_jitter(brightness=0.3, contrast=0.3)
    return rows.batch(BATCH).with_options(tdi.Options(seed=7))


def write_sheet(batch: tuple, path: Path, across: int = 8, scale: int = 3) -> None:
    """The images of a batch side by side, each below its row number and class."""
    images, labels = batch
    cell, head = SIDE * scale, 12
    sheet = Image.new("RGB", (across * cell, -(-len(images) // across) * (cell + head)))
    draw = ImageDraw.Draw(sheet)
    for row, (image, label) in enumerate(zip(images, labels)):
        left, top = row % across * cell, row // across * (cell + head)
        draw.text((left + 2, top), f"{row}: {int(label)}", fill="white")
        tile = Image.fromarray(image.permute(1, 2, 0).numpy())
        sheet.paste(tile.resize((cell, cell), Image.Resampling.NEAREST), (left, top + head))
    sheet.save(path)


def train(batches: tdi.Dataset, epochs: int) -> float:
    """The share of right answers in the last epoch."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 5, 2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 10 * 10, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    in_group = torch.distributed.is_initialized()
    net = torch.nn.parallel.DistributedDataParallel(model) if in_group else model
    strategy = tdi.MultiWorkerMirroredStrategy() if in_group else tdi.OneDeviceStrategy("cpu")
    steps = strategy.distribute_dataset(batches.normalize_images([0.5] * 3, [0.5] * 3))
    right = rows = 0
    for epoch in range(epochs):
        iterator, right, rows = iter(steps), 0, 0
        for step, _ in enumerate(range(len(steps))):
            if epoch == 1 and step == 5:  # as after a crash: another iterator goes on where this one was
                state, iterator = iterator.state_dict(), iter(steps)
                iterator.load_state_dict(state)
            images, labels = (strategy.local_results(leaf)[0] for leaf in next(iterator))
            answers = net(images)
            loss = F.cross_entropy(answers, labels, reduction="sum")
            optimizer.zero_grad()
            tdi.distributed_mean(loss, iterator.step_info).backward()
            optimizer.step()
            right += int((answers.argmax(1) == labels).sum())
            rows += len(labels)
    return right / rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sheet", type=Path, help="write one augmented batch to this PNG file")
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder))
        batches = augmented(Path(folder))
        if arguments.sheet:
            write_sheet(next(iter(batches)), arguments.sheet)
            print(f"wrote {arguments.sheet}")
        print(f"right in the last epoch: {train(batches, arguments.epochs):.0%}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
