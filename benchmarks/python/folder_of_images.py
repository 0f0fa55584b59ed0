# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A script's ImageFolder and transforms: torchvision's where it is installed, else classes that do the same with Pillow
and have torchvision's names and attributes."""

import math
import types
from pathlib import Path

import numpy as np
import torch
from PIL import Image


def default_loader(path: str) -> Image.Image:
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


class ImageFolder(torch.utils.data.Dataset):
    def __init__(self, root: Path, transform):
        self.classes = sorted(entry.name for entry in root.iterdir())
        self.samples = [
            (str(path), number) for number, name in enumerate(self.classes) for path in sorted((root / name).iterdir())
        ]
        self.loader, self.transform, self.target_transform = default_loader, transform, None

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int):
        path, number = self.samples[index]
        return self.transform(self.loader(path)), number


class Compose:
    def __init__(self, transforms: list):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class Resize:
    def __init__(self, size: int):
        self.size, self.max_size, self.antialias = size, None, True
        self.interpolation = types.SimpleNamespace(value="bilinear")

    def __call__(self, image):
        short = min(image.size)
        size = [self.size if side == short else int(self.size * side / short) for side in image.size]
        return image.resize(size, Image.Resampling.BILINEAR)


class CenterCrop:
    def __init__(self, size: int):
        self.size = (size, size)

    def __call__(self, image):
        (height, width), (w, h) = self.size, image.size
        top, left = round((h - height) / 2), round((w - width) / 2)
        return image.crop((left, top, left + width, top + height))


class RandomResizedCrop:
    def __init__(self, size: int):
        self.size, self.scale, self.ratio, self.antialias = (size, size), (0.08, 1.0), (3 / 4, 4 / 3), True
        self.interpolation = types.SimpleNamespace(value="bilinear")

    def _box(self, width: int, height: int) -> tuple[int, int, int, int]:
        low, high = torch.log(torch.tensor(self.ratio)).tolist()
        for _ in range(10):
            area = width * height * torch.empty(1).uniform_(*self.scale).item()
            ratio = math.exp(torch.empty(1).uniform_(low, high).item())
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                top = int(torch.randint(0, height - h + 1, (1,)).item())
                left = int(torch.randint(0, width - w + 1, (1,)).item())
                return left, top, left + w, top + h
        return 0, 0, width, height

    def __call__(self, image):
        return image.crop(self._box(*image.size)).resize(self.size[::-1], Image.Resampling.BILINEAR)


class RandomHorizontalFlip:
    def __init__(self, p: float = 0.5):
        self.p = p

    def __call__(self, image):
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if torch.rand(1).item() < self.p else image


class ToTensor:
    def __call__(self, image):
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)


class Normalize:
    def __init__(self, mean: list[float], std: list[float]):
        self.mean, self.std = mean, std

    def __call__(self, image):
        return image.sub_(torch.tensor(self.mean)[:, None, None]).div_(torch.tensor(self.std)[:, None, None])


def vision() -> types.SimpleNamespace:
    """The names that a script imports, and `kind`, which says whose they are."""
    try:
        from torchvision import transforms
        from torchvision.datasets import ImageFolder as Folder

        return types.SimpleNamespace(kind="torchvision", ImageFolder=Folder, transforms=transforms)
    except (ImportError, RuntimeError):  # the latter where it was built for another torch
        pass
    for kind in (ImageFolder, ImageFolder.__getitem__, default_loader):
        kind.__module__ = "torchvision.datasets.folder"
    names = (Compose, Resize, CenterCrop, RandomResizedCrop, RandomHorizontalFlip, ToTensor, Normalize)
    for kind in names:
        kind.__module__ = "torchvision.transforms.transforms"
    transforms = types.SimpleNamespace(**{kind.__name__: kind for kind in names})
    return types.SimpleNamespace(kind="Pillow, without torchvision", ImageFolder=ImageFolder, transforms=transforms)
