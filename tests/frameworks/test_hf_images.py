# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Image columns of Hugging Face datasets: decoded natively as the package decodes them, or a reason why not."""

import io

import numpy as np
import pytest
import torch

import torch_distinput as tdi

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")
Image = pytest.importorskip("PIL.Image")

ROWS, WIDTH, HEIGHT = 11, 24, 16


def pixels(row, channels=3, width=WIDTH, height=HEIGHT):
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    values = ((x * 7 + y * 5 + c * 60 + row * 13) % 256).astype(np.uint8)
    return values[:, :, 0] if channels == 1 else values


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, kind, **options)
    return buffer.getvalue()


def make(images, mode=None, **more):
    """A dataset of encoded images, or of the paths of images, in several chunks."""
    rows = [{"bytes": one, "path": None} if isinstance(one, bytes) else {"bytes": None, "path": one} for one in images]
    kinds = {"image": datasets.Image(mode=mode), "label": datasets.Value("int64")}
    columns = {"image": rows, "label": list(range(len(rows)))}
    for name, (values, kind) in more.items():
        columns[name], kinds[name] = values, kind
    parts = [
        datasets.Dataset.from_dict(
            {name: values[i : i + 4] for name, values in columns.items()}, datasets.Features(kinds)
        )
        for i in range(0, len(rows), 4)
    ]
    return datasets.concatenate_datasets(parts)


def assert_same(ours, theirs, most=0):
    for here, there in zip(ours, theirs, strict=True):
        assert list(here) == list(there)
        for name, value in there.items():
            assert type(here[name]) is type(value)
            if not isinstance(value, torch.Tensor):
                assert here[name] == value
                continue
            assert here[name].dtype == value.dtype and here[name].shape == value.shape
            assert (here[name].double() - value.double()).abs().max() <= most


IMAGES = {
    "png": ([encoded(pixels(row)) for row in range(ROWS)], None, 0),
    "grey png": ([encoded(pixels(row, 1)) for row in range(ROWS)], None, 0),
    "grey of mode L": ([encoded(pixels(row, 1)) for row in range(ROWS)], "L", 0),
    "jpeg": ([encoded(pixels(row), "JPEG", quality=90) for row in range(ROWS)], None, 1),
    "grey jpeg": ([encoded(pixels(row, 1), "JPEG") for row in range(ROWS)], None, 1),
    "webp": ([encoded(pixels(row), "WEBP", lossless=True) for row in range(ROWS)], None, 0),
    "mixed, as RGB": ([encoded(pixels(row, (1, 3, 4)[row % 3])) for row in range(ROWS)], "RGB", 0),
    "text": ([encoded(pixels(row), exif=Image.Exif()) for row in range(ROWS)], None, 0),
}
VIEWS = {
    "whole": lambda ds: ds,
    "shuffled": lambda ds: ds.shuffle(seed=3),
    "chosen": lambda ds: ds.select([9, 3, 3, 0]),
    "a part of torch": lambda ds: torch.utils.data.Subset(ds, [5, 4, 3, 3]),
}


@pytest.mark.parametrize(
    ("kind", "name", "view"),
    [(kind, name, "shuffled") for kind in ("torch", "numpy") for name in IMAGES]
    + [("torch", "png", view) for view in VIEWS if view != "shuffled"],
)
def test_images_are_those_of_the_package(kind, name, view):
    images, mode, most = IMAGES[name]
    dataset = VIEWS[view](make(images, mode).with_format(kind))
    loader = tdi.DataLoader(dataset, 4)
    assert loader.explain().startswith("path: native")
    assert_same(loader, torch.utils.data.DataLoader(dataset, 4), most)


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_images_in_files_are_read_when_rows_are(tmp_path, kind):
    paths = [str(tmp_path / f"{row}.png") for row in range(ROWS)]
    for row, path in enumerate(paths):
        Image.fromarray(pixels(row)).save(path)
    words = ([f"row {row}" for row in range(ROWS)], datasets.Value("string"))
    numbers = ([row / 2 for row in range(ROWS)], datasets.Value("float64"))
    dataset = make(paths, words=words, x=numbers).shuffle(seed=1).with_format(kind, columns=["image", "label", "x"])
    loader = tdi.DataLoader(dataset, 4)
    assert loader.explain().startswith("path: native")
    assert "at the time of the request" in loader.explain()
    assert_same(loader, torch.utils.data.DataLoader(dataset, 4))
    if kind == "torch":
        dataset = dataset.with_format("torch")
        assert_same(tdi.DataLoader(dataset, 4), torch.utils.data.DataLoader(dataset, 4))
        rows = list(tdi.Dataset.from_torch(dataset))
        assert [row["words"] for row in rows] == dataset["words"][:]
        assert all(torch.equal(row["image"], dataset[i]["image"]) for i, row in enumerate(rows))
    Image.fromarray(pixels(0, width=8)).save(tmp_path / "0.png")
    with pytest.raises(ValueError, match="shape"):
        list(loader)
    (tmp_path / "0.png").write_bytes(b"no image")
    with pytest.raises(tdi.InvalidArgumentError, match="decode_image: row .*the image is not JPEG, PNG or WebP"):
        list(loader)


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(pixels(0, width=16, height=16), "JPEG", exif=exif)


GOOD = encoded(pixels(0))


@pytest.mark.parametrize(
    ("images", "mode", "reason"),
    [
        (
            [GOOD, encoded(pixels(0, width=8))],
            None,
            "has an image in row 1 of 8 x 16 pixels, while others have 24 x 16",
        ),
        ([GOOD, encoded(pixels(0, 1))], None, "has an image in row 1 of mode L, while others are of RGB"),
        (
            [GOOD, encoded(pixels(0, 4))],
            None,
            "has an image in row 1 of mode RGBA, while the mode of the column is None",
        ),
        ([GOOD, GOOD], "CMYK", "has an image in row 0 of mode RGB, while the mode of the column is CMYK"),
        ([GOOD, GOOD], "L", "in row 0 of mode RGB, while the mode of the column is L"),
        ([encoded(pixels(0, 1) > 99)], None, "has an image in row 0 of mode 1"),
        ([encoded(pixels(0), "BMP")], None, "has an image in row 0 that is not JPEG, PNG or WebP"),
        ([GOOD, GOOD[:20]], None, "has an image in row 1 that cannot be read"),
        ([turned(1), turned(3)], None, "in row 1 that is not JPEG, PNG or WebP, is animated, or has an orientation"),
        ([GOOD, "https://example.org/a.png"], None, "has images in it and others in files"),
        (["https://example.org/a.png"], None, "has images that are no files of this machine"),
        (["/none/a.png"], None, "in row 0 that cannot be read: [Errno 2] No such file or directory"),
    ],
)
def test_explain_names_the_column_that_stays_in_python(images, mode, reason):
    dataset = make(images, mode).with_format("torch")
    report = tdi.DataLoader(dataset, 1).explain()
    assert not report.startswith("path: native")
    assert "column 'image' has" in report
    assert reason in report


def test_rows_that_are_not_chosen_do_not_matter():
    images = [GOOD, encoded(pixels(0, width=8)), GOOD, b"", GOOD]
    dataset = make(images).with_format("torch").select([0, 2, 4])
    assert tdi.DataLoader(dataset, 2).explain().startswith("path: native")
    assert_same(tdi.DataLoader(dataset, 2), torch.utils.data.DataLoader(dataset, 2))


def test_an_upright_image_with_metadata_is_native_and_a_turned_one_right():
    upright = make([turned(1), turned(1)]).with_format("torch")
    assert tdi.DataLoader(upright, 2).explain().startswith("path: native")
    half = make([turned(3), turned(3)]).with_format("torch")
    assert not tdi.DataLoader(half, 2).explain().startswith("path: native")
    (one,), (other,) = tdi.DataLoader(upright, 2), tdi.DataLoader(half, 2)
    assert (one["image"].flip((2, 3)).int() - other["image"].int()).abs().max() <= 1


def test_without_a_format_torch_says_what_it_cannot_collate():
    loader = tdi.DataLoader(make([GOOD]), 1)
    assert "column 'image' has images that torch cannot stack" in loader.explain()
    with pytest.raises(TypeError, match="default_collate"):
        next(iter(loader))


def test_states_and_seeds_hold_for_images():
    dataset = make(IMAGES["png"][0]).with_format("torch")
    loader, again = (tdi.DataLoader(dataset, 3, shuffle=True, seed=5) for _ in range(2))
    whole = [batch["label"].tolist() for batch in loader]
    loader.set_epoch(0)
    iterator = iter(loader)
    next(iterator)
    again.load_state_dict(loader.state_dict())
    for batch, labels in zip(again, whole[1:], strict=True):
        assert batch["label"].tolist() == labels
        assert all(
            torch.equal(image, dataset[label]["image"]) for image, label in zip(batch["image"], labels, strict=True)
        )


@pytest.mark.parametrize("in_files", [True, False])
def test_grey_images_keep_their_shape_in_wrappers_of_torch_and_at_a_sampler(tmp_path, in_files):
    images = [encoded(pixels(row, 1)) for row in range(ROWS)]
    if in_files:
        for row, image in enumerate(images):
            (tmp_path / f"{row}.png").write_bytes(image)
        images = [str(tmp_path / f"{row}.png") for row in range(ROWS)]
    dataset = make(images).with_format("torch")
    sampler = [3, 1, 3, 0, 9]
    assert_same(tdi.DataLoader(dataset, 2, sampler=sampler), torch.utils.data.DataLoader(dataset, 2, sampler=sampler))
    assert_same(tdi.DataLoader(dataset, 4, num_workers=2), torch.utils.data.DataLoader(dataset, 4))
    both = torch.utils.data.ConcatDataset([dataset, dataset])
    assert tdi.DataLoader(both, 4).explain().startswith("path: native")
    assert_same(tdi.DataLoader(both, 4), torch.utils.data.DataLoader(both, 4))
    stack = torch.utils.data.StackDataset(dataset, torch.arange(ROWS))
    assert tdi.DataLoader(stack, 4).explain().startswith("path: native")
    for (ours, _), (theirs, _) in zip(tdi.DataLoader(stack, 4), torch.utils.data.DataLoader(stack, 4), strict=True):
        assert_same([ours], [theirs])
