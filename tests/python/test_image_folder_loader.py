# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A DataLoader over torchvision's ImageFolder: the real one where it is installed, and classes of its shape."""

import types

import numpy as np
import pytest
import torch
from decoders import needs_decoders

import torch_distinput as tdi

Image = pytest.importorskip("PIL.Image")
pytestmark = needs_decoders


def stand_in() -> types.ModuleType:
    """Classes with the names, attributes and results of torchvision's, for Pillow's images."""
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

    class Resize:
        def __init__(self, size):
            self.size, self.max_size, self.antialias = size, None, True
            self.interpolation = types.SimpleNamespace(value="bilinear")

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

    class RandomHorizontalFlip:
        def __call__(self, image):
            return image

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
    for kind in (Compose, Resize, CenterCrop, RandomHorizontalFlip, ToTensor, Normalize):
        kind.__module__ = "torchvision.transforms.transforms"
        setattr(transforms, kind.__name__, kind)
    return types.SimpleNamespace(ImageFolder=ImageFolder, transforms=transforms)


def of_torchvision():
    torchvision = pytest.importorskip("torchvision", exc_type=(ImportError, RuntimeError))
    return types.SimpleNamespace(ImageFolder=torchvision.datasets.ImageFolder, transforms=torchvision.transforms)


@pytest.fixture(params=["stand-in", "torchvision"])
def vision(request):
    return stand_in() if request.param == "stand-in" else of_torchvision()


@pytest.fixture
def root(tmp_path):
    generator = np.random.default_rng(0)
    for number in range(9):
        path = tmp_path / f"class {number % 2}" / f"{number}.{'jpg' if number % 3 else 'png'}"
        path.parent.mkdir(exist_ok=True)
        small = Image.fromarray(generator.integers(0, 256, (6, 5, 3), dtype=np.uint8))
        small.resize((40 + number, 50), Image.Resampling.BICUBIC).save(path)
    return tmp_path


def transform_of(vision, *more):
    names = vision.transforms
    numbers = [names.ToTensor(), names.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])]
    return names.Compose([names.Resize(32), names.CenterCrop(28), *more, *numbers])


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_torchs_up_to_one_grey_level(vision, root, workers):
    dataset = vision.ImageFolder(root, transform_of(vision))
    options = {"batch_size": 4, "shuffle": True, "num_workers": workers}
    loader = tdi.DataLoader(dataset, generator=torch.Generator().manual_seed(3), **options)
    assert "path: native" in loader.explain()
    level = 1 / 255 / 0.2 + 1e-5
    rows = {}
    for images, labels in loader:
        assert images.dtype == torch.float32 and labels.dtype == torch.int64
        for image, label in zip(images, labels):
            matching = [
                row
                for row in range(len(dataset))
                if dataset[row][1] == label and (dataset[row][0] - image).abs().max() <= level
            ]
            assert len(matching) == 1
            rows[matching[0]] = None
    assert len(rows) == len(dataset)


def test_transforms_of_v2_are_known_too(root):
    vision = of_torchvision()
    v2 = pytest.importorskip("torchvision.transforms.v2")
    numbers = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)]
    for transform in (
        v2.Compose([v2.Resize(32), v2.CenterCrop(28), v2.Pad(2), *numbers]),
        v2.Compose([v2.ToImage(), v2.Resize((30, 41)), v2.CenterCrop(28), *numbers[1:]]),
        v2.Compose([v2.Resize((30, 41)), v2.PILToTensor()]),
    ):
        dataset = vision.ImageFolder(root, transform)
        loader = tdi.DataLoader(dataset, batch_size=4)
        assert "path: native" in loader.explain()
        for (ours, _), (theirs, _) in zip(loader, torch.utils.data.DataLoader(dataset, batch_size=4)):
            assert ours.dtype == theirs.dtype
            level = 1 if ours.dtype == torch.uint8 else 1 / 255 / 0.25 + 1e-5
            difference = (ours.float() - theirs.float()).abs()
            assert difference.max() <= 2 * level  # one of the JPEG's decoder, one of the resize
            assert difference.mean() <= 0.2 * level


def test_explain_says_which_transform_stays_in_python(vision, root):
    dataset = vision.ImageFolder(root, transform_of(vision, vision.transforms.RandomHorizontalFlip()))
    loader = tdi.DataLoader(dataset, batch_size=4)
    assert "the transform RandomHorizontalFlip runs in Python" in loader.explain()
    assert len(list(loader)) == 3


def test_a_new_transform_takes_effect(vision, root):
    dataset = vision.ImageFolder(root, transform_of(vision))
    loader = tdi.DataLoader(dataset, batch_size=3)
    batches = iter(loader)
    assert next(batches)[0].shape == (3, 3, 28, 28)
    dataset.transform.transforms[1] = vision.transforms.CenterCrop(20)
    assert next(batches)[0].shape == (3, 3, 20, 20)
    dataset.transform = lambda image: torch.zeros(2)
    assert next(batches)[0].shape == (3, 2)
