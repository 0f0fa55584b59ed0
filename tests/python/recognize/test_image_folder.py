# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A DataLoader over torchvision's ImageFolder: the real one where it is installed, and classes of its shape."""

import types

import numpy as np
import pytest
import torch
from decoders import encoded, needs_decoders

import torch_distinput as tdi

Image = pytest.importorskip("PIL.Image")
stand_in = pytest.importorskip("stand_in_torchvision")
transform_of = stand_in.transform_of
pytestmark = needs_decoders


def of_torchvision():
    torchvision = pytest.importorskip("torchvision", exc_type=(ImportError, RuntimeError))
    return types.SimpleNamespace(ImageFolder=torchvision.datasets.ImageFolder, transforms=torchvision.transforms)


@pytest.fixture(params=["stand-in", "torchvision"])
def vision(request):
    return stand_in.torchvision() if request.param == "stand-in" else of_torchvision()


@pytest.fixture
def root(tmp_path):
    generator = np.random.default_rng(0)
    for number in range(9):
        path = tmp_path / f"class {number % 2}" / f"{number}.{'jpg' if number % 3 else 'png'}"
        path.parent.mkdir(exist_ok=True)
        small = Image.fromarray(generator.integers(0, 256, (6, 5, 3), dtype=np.uint8))
        small.resize((40 + number, 50), Image.Resampling.BICUBIC).save(path)
    return tmp_path


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


def test_large_jpegs_are_resized_as_by_torch(vision, tmp_path):
    """They are not decoded at a fraction of their size, which this library's own pipelines do."""
    generator = np.random.default_rng(0)
    (tmp_path / "class").mkdir()
    for number in range(4):
        noise = Image.fromarray(generator.integers(0, 256, (300, 250 + number, 3), dtype=np.uint8))
        noise.save(tmp_path / "class" / f"{number}.jpg", quality=90)
    dataset = vision.ImageFolder(tmp_path, transform_of(vision))
    loader = tdi.DataLoader(dataset, batch_size=4)
    assert "path: native" in loader.explain()
    ((images, _),) = loader
    for row, image in enumerate(images):
        assert (dataset[row][0] - image).abs().max() <= 2 / 255 / 0.2 + 1e-5


def jpeg(width: int, height: int) -> bytes:
    noise = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return encoded(Image.fromarray(noise), "JPEG")


def error_of(loader) -> Exception:
    with pytest.raises(Exception) as caught:
        list(loader)
    return caught.value


CUTS = {"head": 300, "first bytes": 3, "half": 1500, "empty": 0}
WAYS = [{}, {"num_workers": 1}, {"sampler": [0]}, {"distributed": True}]


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("cut", CUTS)
def test_a_truncated_image_is_an_os_error_as_in_torch(vision, tmp_path, cut, options):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "x.jpg").write_bytes(jpeg(50, 40)[: CUTS[cut]])
    dataset = vision.ImageFolder(tmp_path, vision.transforms.ToTensor())
    assert isinstance(error_of(torch.utils.data.DataLoader(dataset)), OSError)
    error = error_of(tdi.DataLoader(dataset, **options))
    assert isinstance(error, OSError)
    if "sampler" in options:  # Pillow's own: torch reads what native code could not
        return
    assert isinstance(error, tdi.InvalidArgumentError)
    what = "the image is empty" if cut == "empty" else "JPEG: the data is truncated"
    assert str(error).startswith("decode_image: row 0 (") and "x.jpg" in str(error) and what in str(error)
    assert isinstance(error.__cause__, OSError) and str(error.__cause__) == what


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"sampler": [0, 1]}, {"distributed": True}], ids=str)
def test_images_of_different_size_are_a_runtime_error_as_in_torch(vision, tmp_path, options):
    (tmp_path / "class").mkdir()
    for number, width in enumerate((50, 51)):
        (tmp_path / "class" / f"{number}.jpg").write_bytes(jpeg(width, 40))
    dataset = vision.ImageFolder(tmp_path, vision.transforms.ToTensor())
    assert isinstance(error_of(torch.utils.data.DataLoader(dataset, batch_size=2)), RuntimeError)
    error = error_of(tdi.DataLoader(dataset, batch_size=2, **options))
    assert isinstance(error, RuntimeError)
    if "sampler" not in options:
        assert isinstance(error, tdi.UnequalRowsError) and isinstance(error, ValueError)
        assert "must have one shape, but is (3, 40, 50) in element 0" in str(error)


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
    dataset = vision.ImageFolder(root, transform_of(vision, vision.transforms.Grayscale()))
    loader = tdi.DataLoader(dataset, batch_size=4)
    assert "the transform Grayscale runs in Python" in loader.explain()


def with_random_transforms(vision, root):
    names = vision.transforms
    crops = [names.RandomResizedCrop(24, scale=(0.3, 1)), names.RandomCrop(20, padding=2)]
    flips = [names.RandomHorizontalFlip(), names.RandomVerticalFlip(0.3), names.ColorJitter(0.3, hue=0.1)]
    return vision.ImageFolder(root, names.Compose([*crops, *flips, names.PILToTensor()]))


def test_random_transforms_are_the_ops_of_this_library(vision, root):
    rows = tdi.ImageFolder(root).decode_image().random_resized_crop(24, scale=(0.3, 1)).random_crop(20, padding=2)
    rows = rows.horizontal_flip().vertical_flip(0.3).color_jitter(brightness=0.3, hue=0.1)
    loader = tdi.DataLoader(with_random_transforms(vision, root), batch_size=4, shuffle=True, seed=5)
    assert "path: native" in loader.explain()
    assert "random numbers of RandomResizedCrop, RandomCrop, RandomHorizontalFlip" in loader.explain()
    expected = rows.shuffle(seed=5).skip(0).batch(4).with_options(tdi.Options(seed=5))
    for _ in range(2):
        for (ours, labels), (images, numbers) in zip(loader, expected, strict=True):
            assert torch.equal(ours, images)
            assert torch.equal(labels, numbers)


def test_rand_augment_of_pillows_images_is_this_librarys(vision, root):
    names = vision.transforms

    def loader(*transforms):
        chain = names.Compose([names.CenterCrop(24), *transforms])
        return tdi.DataLoader(vision.ImageFolder(root, chain), batch_size=4, shuffle=True, seed=5)

    native = loader(names.RandAugment(3, magnitude=20), names.PILToTensor())
    assert "path: native" in native.explain() and "random numbers of RandAugment" in native.explain()
    rows = tdi.ImageFolder(root).decode_image().center_crop(24).rand_augment(3, 20).shuffle(seed=5).skip(0).batch(4)
    for (ours, _), (images, _) in zip(native, rows.with_options(tdi.Options(seed=5)), strict=True):
        assert torch.equal(ours, images)
    reason = 'the transform RandAugment is native for Pillow\'s images, `interpolation` "nearest" and no `fill` only'
    for transforms in (
        (names.PILToTensor(), names.RandAugment()),
        (names.RandAugment(interpolation=names.InterpolationMode.BILINEAR), names.PILToTensor()),
        (names.RandAugment(fill=7), names.PILToTensor()),
    ):
        assert reason in loader(*transforms).explain()


@pytest.mark.parametrize("options", [{"shuffle": True}, {"shuffle": True, "num_workers": 2}, {"sampler": [3, 1, 4]}])
def test_random_transforms_follow_torchs_seed_and_states(vision, root, options):
    dataset = with_random_transforms(vision, root)

    def images(loader):
        return [batch for batch, _ in loader]

    def same(left, right):
        return len(left) == len(right) and all(map(torch.equal, left, right))

    loader = tdi.DataLoader(dataset, batch_size=2, **options)
    torch.manual_seed(3)
    first, second = images(loader), images(loader)
    torch.manual_seed(3)
    again = iter(loader)
    begun = [next(again)[0]]
    state = loader.state_dict()
    assert same(begun + images(again), first)
    assert not same(first, second)
    restored = tdi.DataLoader(dataset, batch_size=2, **options)
    restored.load_state_dict(state)
    assert same(begun + images(restored), first)
    assert same(images(restored), second)


def test_a_new_transform_takes_effect(vision, root):
    dataset = vision.ImageFolder(root, transform_of(vision))
    loader = tdi.DataLoader(dataset, batch_size=3)
    batches = iter(loader)
    assert next(batches)[0].shape == (3, 3, 28, 28)
    dataset.transform.transforms[1] = vision.transforms.CenterCrop(20)
    assert next(batches)[0].shape == (3, 3, 20, 20)
    dataset.transform = lambda image: torch.zeros(2)
    assert next(batches)[0].shape == (3, 2)


def test_pictures_that_weights_draw_twice_are_changed_anew(vision, root):
    dataset = with_random_transforms(vision, root)
    sampler = torch.utils.data.WeightedRandomSampler([1.0] + [0.0] * (len(dataset) - 1), 6)
    loader = tdi.DataLoader(dataset, batch_size=6, sampler=sampler, seed=5, distributed=True)
    assert "path: distributed, native" in loader.explain()
    ((images, labels),) = loader
    assert labels.tolist() == [dataset.samples[0][1]] * 6
    assert len({image.numpy().tobytes() for image in images}) > 3
