# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Classes with the names, attributes and results of torchvision's, for Pillow's images."""

import enum
import types

import numpy as np
import torch
from PIL import Image


def torchvision() -> types.SimpleNamespace:
    folder, transforms = types.ModuleType("folder"), types.ModuleType("transforms")

    def default_loader(path):
        return Image.open(path).convert("RGB")

    class ImageFolder(torch.utils.data.Dataset):
        def __init__(self, root, transform=None, target_transform=None, loader=default_loader):
            self.classes = sorted(entry.name for entry in root.iterdir())
            self.samples = [
                (str(path), number)
                for number, name in enumerate(self.classes)
                for path in sorted((root / name).iterdir())
            ]
            self.loader, self.transform, self.target_transform = loader, transform, target_transform

        def __len__(self):
            return len(self.samples)

        def __getitem__(self, index):
            path, number = self.samples[index]
            return self.transform(self.loader(path)), number

    class Compose:
        def __init__(self, parts):
            self.transforms = parts

        def __call__(self, image):
            for part in self.transforms:
                image = part(image)
            return image

    class InterpolationMode(enum.Enum):
        NEAREST = "nearest"
        BILINEAR = "bilinear"

    class Resize:
        def __init__(self, size):
            self.size, self.max_size, self.antialias = size, None, True
            self.interpolation = InterpolationMode.BILINEAR

        def __call__(self, image):
            short, factor = min(image.size), self.size / min(image.size)
            size = [self.size if side == short else int(self.size * side / short) for side in image.size]
            assert factor > 0
            return image.resize(size, Image.Resampling.BILINEAR)

    class CenterCrop:
        def __init__(self, size):
            self.size = (size, size)

        def __call__(self, image):
            (height, width), (w, h) = self.size, image.size
            top, left = round((h - height) / 2), round((w - width) / 2)
            return image.crop((left, top, left + width, top + height))

    class Grayscale:
        def __call__(self, image):
            return image

    class RandomHorizontalFlip:
        def __init__(self, p=0.5):
            self.p = p

    class RandomVerticalFlip:
        def __init__(self, p=0.5):
            self.p = p

    class RandomCrop:
        def __init__(self, size, padding=None):
            self.size, self.padding, self.pad_if_needed = (size, size), padding, False
            self.fill, self.padding_mode = 0, "constant"

    class RandomResizedCrop:
        def __init__(self, size, scale=(0.08, 1.0)):
            self.size, self.scale, self.ratio, self.antialias = (size, size), scale, (3 / 4, 4 / 3), True
            self.interpolation = InterpolationMode.BILINEAR

    class ColorJitter:
        def __init__(self, brightness, hue):
            self.brightness, self.contrast, self.saturation = (1 - brightness, 1 + brightness), None, None
            self.hue = (-hue, hue)

    class RandAugment:
        def __init__(self, num_ops=2, magnitude=9, interpolation=InterpolationMode.NEAREST, fill=None):
            self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, 31
            self.interpolation, self.fill = interpolation, fill

        def __call__(self, image):
            return image

    class PILToTensor:
        pass

    class ToTensor:
        def __call__(self, image):
            return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 255

    class Normalize:
        def __init__(self, mean, std):
            self.mean, self.std = mean, std

        def __call__(self, image):
            return (image - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[:, None, None]

    default_loader.__module__ = "torchvision.datasets.folder"
    ImageFolder.__module__ = ImageFolder.__getitem__.__module__ = "torchvision.datasets.folder"
    folder.ImageFolder = ImageFolder
    shapes = (Resize, CenterCrop, RandomCrop, RandomResizedCrop, RandomHorizontalFlip, RandomVerticalFlip)
    for kind in (Compose, *shapes, ColorJitter, RandAugment, Grayscale, PILToTensor, ToTensor, Normalize):
        kind.__module__ = "torchvision.transforms.transforms"
        setattr(transforms, kind.__name__, kind)
    transforms.InterpolationMode = InterpolationMode
    return types.SimpleNamespace(ImageFolder=ImageFolder, transforms=transforms)


def transform_of(vision, *more):
    names = vision.transforms
    numbers = [names.ToTensor(), names.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])]
    return names.Compose([names.Resize(32), names.CenterCrop(28), *more, *numbers])
