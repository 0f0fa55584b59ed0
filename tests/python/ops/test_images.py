# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Decoding of images and ops on images, against Pillow."""

import io

import numpy as np
import pytest
import torch
from decoders import encoded, needs_decoders
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.testing import assert_paths_agree, assert_resumable

Image = pytest.importorskip("PIL.Image")
ImageEnhance = pytest.importorskip("PIL.ImageEnhance")
pytestmark = needs_decoders


def sample_image(width: int, height: int, seed: int = 0, mode: str = "RGB"):
    """Smooth colours with some noise, as photographs have."""
    generator = np.random.default_rng(seed)
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / (5 + 3 * c) + c) * np.cos(y / (7 + 2 * c)) for c in range(channels)]
    values = 127 + 90 * np.stack(waves, -1) + generator.normal(0, 12, (height, width, channels))
    array = values.clip(0, 255).astype(np.uint8)
    return Image.fromarray(array[..., 0] if mode == "L" else array, mode if mode == "CMYK" else None)


def as_tensor(image) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image.convert("RGB")).copy()).permute(2, 0, 1)


def opened(data: bytes):
    return Image.open(io.BytesIO(data)).convert("RGB")


def dataset_of(*images: bytes) -> tdi.Dataset:
    return tdi.Dataset.from_tensor_slices(list(images))


def one(dataset: tdi.Dataset) -> torch.Tensor:
    (image,) = list(dataset)
    return image


def difference(left: torch.Tensor, right: torch.Tensor) -> int:
    assert left.shape == right.shape
    assert left.dtype == right.dtype == torch.uint8
    return int((left.int() - right.int()).abs().max())


def png_of_16_bits(mode: str) -> bytes:
    """Pillow writes 16 bits of grey only; other kinds are put together here."""
    import struct
    import zlib

    generator = np.random.default_rng(4)
    channels, colours = {"RGB": (3, 2), "LA": (2, 4), "RGBA": (4, 6)}[mode]
    rows = generator.integers(0, 65536, (5, 7 * channels), dtype=np.uint16).astype(">u2")
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 7, 5, 16, colours, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", data) + chunk(b"IEND", b"")


grey_16 = Image.fromarray((np.arange(20 * 13, dtype=np.uint16) * 3).reshape(13, 20))
LOSSLESS = {
    "png": encoded(sample_image(31, 17), "PNG"),
    "png grey": encoded(sample_image(31, 17, mode="L"), "PNG"),
    "png grey alpha": encoded(sample_image(31, 17, mode="LA"), "PNG"),
    "png alpha": encoded(sample_image(31, 17, mode="RGBA"), "PNG"),
    "png palette": encoded(sample_image(31, 17).quantize(17), "PNG"),
    "png 1 bit": encoded(sample_image(31, 17, mode="L").convert("1"), "PNG"),
    "png 16 bits": encoded(grey_16, "PNG"),
    "png rgb 16 bits": png_of_16_bits("RGB"),
    "png grey alpha 16 bits": png_of_16_bits("LA"),
    "png alpha 16 bits": png_of_16_bits("RGBA"),
    "webp": encoded(sample_image(31, 17), "WEBP", lossless=True),
    "webp alpha": encoded(sample_image(31, 17, mode="RGBA"), "WEBP", lossless=True, exact=True),
}
LOSSY = {
    f"jpeg {subsampling} {progressive}": encoded(
        sample_image(61, 47), "JPEG", quality=90, subsampling=subsampling, progressive=progressive
    )
    for subsampling in ("4:4:4", "4:2:2", "4:2:0")
    for progressive in (False, True)
} | {
    "jpeg grey": encoded(sample_image(61, 47, mode="L"), "JPEG"),
    "jpeg cmyk": encoded(sample_image(61, 47, mode="CMYK"), "JPEG", quality=95),
    "webp lossy": encoded(sample_image(61, 47), "WEBP", quality=80),
}


@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_images_are_pillows(name):
    data = LOSSLESS[name]
    assert torch.equal(one(dataset_of(data).decode_image()), as_tensor(opened(data)))


@pytest.mark.parametrize("name", LOSSY)
def test_lossy_images_are_pillows_up_to_one_level(name):
    data = LOSSY[name]
    assert difference(one(dataset_of(data).decode_image()), as_tensor(opened(data))) <= 1


def test_the_orientation_is_not_applied_as_in_pillow():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(sample_image(20, 10), "JPEG", exif=exif)
    assert one(dataset_of(data).decode_image()).shape == (3, 10, 20)


def test_layouts_and_spec():
    data = LOSSLESS["png"]
    first, last = dataset_of(data).decode_image(), dataset_of(data).decode_image(layout="NHWC")
    assert first.element_spec == tdi.TensorSpec((3, None, None), torch.uint8)
    assert last.element_spec == tdi.TensorSpec((None, None, 3), torch.uint8)
    assert torch.equal(one(first), one(last).permute(2, 0, 1))
    assert torch.equal(one(first.resize((5, 4))), one(last.resize((5, 4))).permute(2, 0, 1))
    assert last.resize((5, 4)).element_spec == tdi.TensorSpec((5, 4, 3), torch.uint8)


sizes = st.integers(1, 40)


@settings(max_examples=25)
@given(sizes, sizes, sizes, sizes, st.sampled_from(["bilinear", "bicubic", "nearest"]), st.integers(0, 9))
def test_resize_is_pillows_up_to_one_level(width, height, to_width, to_height, interpolation, seed):
    image = sample_image(width, height, seed)
    resized = one(dataset_of(encoded(image, "PNG")).decode_image().resize((to_height, to_width), interpolation))
    expected = as_tensor(image.resize((to_width, to_height), getattr(Image.Resampling, interpolation.upper())))
    assert difference(resized, expected) <= 1


def test_extreme_resizes_are_pillows_up_to_one_level():
    noise = np.random.default_rng(3).integers(0, 2, (300, 700, 3), dtype=np.uint8) * 255
    image = Image.fromarray(noise)
    for size in ((3, 5), (297, 711), (600, 80)):
        resized = one(dataset_of(encoded(image, "PNG")).decode_image().resize(size))
        assert difference(resized, as_tensor(image.resize(size[::-1], Image.Resampling.BILINEAR))) <= 1


THIN = [(1, 1), (1, 200), (200, 1), (2, 5000), (5000, 2), (1, 65500), (65500, 1), (65500, 3)]


@pytest.mark.parametrize("extent", THIN)
@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_thin_images(extent, form):
    """Decoded, cropped, and resized by large factors both ways."""
    width, height = extent
    data = encoded(sample_image(width, height, mode="L" if height == 3 else "RGB"), form)
    rows, image = dataset_of(data).decode_image(), opened(data)
    whole = one(rows)
    assert difference(whole, as_tensor(image)) <= 1
    part = min(height, 9), min(width, 11)
    top, left = round((height - part[0]) / 2), round((width - part[1]) / 2)
    assert torch.equal(one(rows.center_crop(part)), whole[:, top : top + part[0], left : left + part[1]])
    decoded = tdi.Dataset.from_tensor_slices(whole[None])
    exact = Image.fromarray(whole.permute(1, 2, 0).numpy())
    for size in ((1, 1), (3, 2), (1, 200), (200, 1), (max(1, height // 9), max(1, width // 9))):
        for interpolation in ("nearest", "bilinear", "bicubic"):
            expected = exact.resize(size[::-1], getattr(Image.Resampling, interpolation.upper()))
            assert difference(one(decoded.resize(size, interpolation)), as_tensor(expected)) <= 1


def test_high_images_become_wide():
    """Sums along lines first would need 65,500 x 65,500 pixels in between."""
    image = sample_image(1, 65500)
    rows = dataset_of(encoded(image, "PNG")).decode_image()
    for interpolation in ("nearest", "bilinear", "bicubic"):
        wide = one(rows.resize((2, 65500), interpolation))
        column = image.resize((1, 2), getattr(Image.Resampling, interpolation.upper()))
        assert difference(wide, as_tensor(column).expand(3, 2, 65500)) <= 1


def test_one_size_is_the_shorter_edge():
    shape = lambda w, h, size: one(dataset_of(encoded(sample_image(w, h), "PNG")).decode_image().resize(size)).shape  # noqa: E731
    assert shape(30, 20, 10) == (3, 10, 15)
    assert shape(20, 33, 10) == (3, 16, 10)


@settings(max_examples=30)
@given(st.sampled_from(sorted(LOSSY)), st.integers(0, 99), st.sampled_from([8, 15, 31]))
def test_what_is_cropped_while_decoding_is_what_is_cropped_after(name, seed, side):
    data = LOSSY[name]
    # An image that becomes less than a quarter as large would be decoded smaller, which is another result.
    ops = (lambda ds: ds.random_crop((side, side - 3)), lambda ds: ds.random_resized_crop(side + 8, scale=(0.3, 1)))
    for op in ops:
        options = tdi.Options(seed=seed)
        together = one(op(dataset_of(data).decode_image()).with_options(options))
        decoded = one(dataset_of(data).decode_image())[None]
        apart = one(op(tdi.Dataset.from_tensor_slices(decoded)).with_options(options))
        assert torch.equal(together, apart)


def test_resize_and_center_crop_together_are_as_apart():
    image = sample_image(100, 75)
    together = one(dataset_of(encoded(image, "PNG")).decode_image().resize(64).center_crop(56))
    whole = as_tensor(image.resize((85, 64), Image.Resampling.BILINEAR))
    left = round((85 - 56) / 2)
    assert difference(together, whole[:, 4:60, left : left + 56]) <= 1


def test_large_jpegs_are_decoded_at_a_fraction_of_their_size():
    """The result differs from the exact one, which docs/images.md puts into numbers."""
    image = sample_image(640, 480)
    data = encoded(image, "JPEG", quality=90)
    small = one(dataset_of(data).decode_image().resize((60, 80)))
    exact = as_tensor(opened(data).resize((80, 60), Image.Resampling.BILINEAR))
    assert (small.int() - exact.int()).abs().float().mean() < 1.5
    assert difference(small, exact) <= 8


def shot(width: int, height: int, kind: str, seed: int):
    """An image of waves, or of noise that no decoder at a fraction of the size can know."""
    if kind == "waves":
        return sample_image(width, height, seed)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["waves", "noise"]),
    st.integers(16, 200),
    st.integers(16, 200),
    st.floats(1, 20),
    st.sampled_from(["4:4:4", "4:2:2", "4:2:0"]),
    st.integers(0, 9),
)
def test_a_jpeg_that_is_decoded_as_a_whole_is_resized_as_by_pillow(kind, width, height, factor, subsampling, seed):
    data = encoded(shot(width, height, kind, seed), "JPEG", quality=90, subsampling=subsampling)
    size = max(1, int(height / factor)), max(1, int(width / factor))
    resized = one(dataset_of(data).decode_image(reducing_gap=None).resize(size))
    assert difference(resized, as_tensor(opened(data).resize(size[::-1], Image.Resampling.BILINEAR))) <= 2


def test_reducing_gap_says_how_much_of_a_jpeg_is_decoded():
    data = encoded(shot(120, 120, "noise", 1), "JPEG", quality=90)
    rows = dataset_of(data)
    exact = as_tensor(opened(data).resize((15, 15), Image.Resampling.BILINEAR))
    far = [difference(one(rows.decode_image(reducing_gap=gap).resize(15)), exact) for gap in (1.0, 2, 4.0, 8.1, None)]
    assert far[:3] == sorted(far[:3], reverse=True) and far[1] > 2
    assert max(far[3:]) <= 2
    assert torch.equal(one(rows.decode_image().resize(15)), one(rows.decode_image(reducing_gap=2.0).resize(15)))
    assert "reducing_gap=None" in str(rows.decode_image(reducing_gap=None).explain())
    for gap in (0.5, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="decode_image: `reducing_gap` must be at least 1"):
            rows.decode_image(reducing_gap=gap)
    with pytest.raises(TypeError, match="decode_image: `reducing_gap`"):
        rows.decode_image(reducing_gap="2")


def test_crops_flips_turns_and_padding():
    image = torch.arange(3 * 5 * 8, dtype=torch.uint8).reshape(1, 3, 5, 8)
    rows = tdi.Dataset.from_tensor_slices(image)
    image = image[0]
    assert torch.equal(one(rows.horizontal_flip(1.0)), image.flip(2))
    assert torch.equal(one(rows.vertical_flip(1.0)), image.flip(1))
    for k in range(-1, 5):
        assert torch.equal(one(rows.rotate90(k)), image.rot90(k, (1, 2)))
    assert torch.equal(one(rows.center_crop((3, 4))), image[:, 1:4, 2:6])
    assert torch.equal(one(rows.center_crop(7)), torch.nn.functional.pad(image, (0, 0, 1, 1))[:, :, 0:7])
    for mode in ("constant", "edge", "reflect", "symmetric"):
        numpys = np.pad(image.numpy(), ((0, 0), (2, 4), (1, 3)), mode)
        assert torch.equal(one(rows.pad((1, 2, 3, 4), padding_mode=mode)), torch.from_numpy(numpys))
    assert torch.equal(one(rows.pad(1, fill=7).center_crop((3, 4)).rotate90(1)), image[:, 1:4, 2:6].rot90(1, (1, 2)))
    cropped = one(rows.random_crop(7, pad_if_needed=True))
    assert cropped.shape == (3, 7, 7)


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
@pytest.mark.parametrize("factor", [0.0, 0.3, 1.4])
def test_colours_change_as_in_pillow(name, factor):
    image = sample_image(20, 14)
    if name == "hue":
        factor = factor / 1.4 - 0.5
        hue, saturation, value = image.convert("HSV").split()
        shifted = (np.asarray(hue) + np.int32(factor * 255).astype(np.uint8)).astype(np.uint8)
        expected = Image.merge("HSV", (Image.fromarray(shifted), saturation, value)).convert("RGB")
    else:
        kinds = {"brightness": "Brightness", "contrast": "Contrast", "saturation": "Color"}
        expected = getattr(ImageEnhance, kinds[name])(image).enhance(factor)
    changed = one(dataset_of(encoded(image, "PNG")).decode_image().color_jitter(**{name: (factor, factor)}))
    assert difference(changed, as_tensor(expected)) <= 1


IMAGES = [encoded(sample_image(40 + 3 * i, 50 - 2 * i, seed=i), "JPEG" if i % 2 else "PNG") for i in range(7)]


def augmented(rows: tdi.Dataset) -> tdi.Dataset:
    images = rows.decode_image().random_resized_crop(16, scale=(0.2, 1)).horizontal_flip().rotate90()
    return images.color_jitter(0.4, 0.4, 0.4, 0.1).random_crop(12)


def test_laws():
    rows = dataset_of(*IMAGES)
    for dataset in (
        augmented(rows).batch(3),
        augmented(rows.shuffle(seed=3)).batch(2),
        augmented(rows.filter(lambda data: True)).batch(2),
        rows.decode_image().shuffle(seed=1).random_crop(20).batch(3),
    ):
        assert_resumable(dataset.with_options(tdi.Options(seed=5)))
    assert_paths_agree(augmented(rows).batch(3).with_options(tdi.Options(seed=5)))
    assert_paths_agree(rows.enumerate().decode_image().random_crop(20).with_options(tdi.Options(seed=5)))


def test_batches_of_images_beside_other_leaves_are_their_rows():
    numbers = torch.arange(len(IMAGES)).to_sparse()
    rows = tdi.Dataset.zip(
        {
            "name": tdi.Dataset.from_tensor_slices([f"row {i}" for i in range(len(IMAGES))]),
            "image": dataset_of(*IMAGES),
            "number": tdi.Dataset.from_tensor_slices(numbers),
            "label": tdi.Dataset.range(len(IMAGES)),
        }
    )
    images = rows.decode_image("image").center_crop((30, 42)).resize((16, 12))
    singles = list(images)
    for batch in images.shuffle(seed=2).batch(3):
        for place, label in enumerate(batch["label"].tolist()):
            assert batch["name"][place] == singles[label]["name"] == f"row {label}"
            assert torch.equal(batch["image"][place], singles[label]["image"])
            assert batch["number"].to_dense()[place] == label
    random = rows.decode_image("image").random_crop(20).horizontal_flip().with_options(tdi.Options(seed=5))
    plain = random.map(lambda row: {**row, "number": row["number"].to_dense()})
    assert_paths_agree(plain.batch(3))
    assert_resumable(plain.shuffle(seed=1).batch(2))
    strings_and_images = tdi.Dataset.zip((rows.map(lambda row: row["name"]), dataset_of(*IMAGES)))
    assert_paths_agree(strings_and_images.decode_image(1).random_crop(20).batch(3))
    assert_resumable(strings_and_images.decode_image(1).random_crop(20).batch(3))


def test_images_of_several_sizes_beside_strings_are_refused_by_batch():
    rows = tdi.Dataset.zip((dataset_of(*IMAGES), tdi.Dataset.from_tensor_slices(["a"] * len(IMAGES))))
    with pytest.raises(ValueError, match=r"batch: leaf \[0\] must have one shape, but is \(3, 50, 40\) in element 0"):
        list(rows.decode_image().batch(3))


def test_a_row_gets_the_same_pixels_on_any_threads_and_replicas():
    dataset = augmented(dataset_of(*IMAGES)).batch(4).with_options(tdi.Options(seed=5))
    expected = torch.cat(list(dataset._native.iterate(epoch=1)))
    for threads in (0, 1, 3):
        found = dataset.with_options(tdi.Options(num_threads=threads))._native.iterate(epoch=1)
        assert torch.equal(torch.cat(list(found)), expected)
    assert not torch.equal(torch.cat(list(dataset._native.iterate(epoch=2))), expected)
    distributed = tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(dataset)
    distributed.set_epoch(1)
    parts = [part for step in distributed for part in step.values]
    assert torch.equal(torch.cat(parts), expected)


def test_damaged_rows_are_errors_that_name_them_or_are_skipped():
    rows = dataset_of(IMAGES[0], IMAGES[1][:-100], b"GIF89a", IMAGES[2][:300], IMAGES[3]).decode_image()
    iterator = iter(rows)
    next(iterator)
    with pytest.raises(tdi.InvalidArgumentError, match="decode_image: row 1, the element: JPEG: the data is truncated"):
        next(iterator)
    iterator = iter(rows.with_options(tdi.Options(on_error=tdi.Skip(3))))
    assert len(list(iterator)) == 2
    assert iterator.stats()["skipped"] == 3


def test_too_many_pixels_are_refused_before_they_are_decoded():
    head = LOSSLESS["png"][:16] + (200_000).to_bytes(4, "big") * 2
    body = LOSSLESS["png"][24:29]
    import zlib

    bomb = head + body + zlib.crc32(head[12:] + body).to_bytes(4, "big") + LOSSLESS["png"][33:]
    with pytest.raises(tdi.InvalidArgumentError, match="200000 x 200000 pixels, more than `max_pixels`=178956970"):
        list(dataset_of(bomb).decode_image())
    with pytest.raises(tdi.InvalidArgumentError, match="31 x 17 pixels, more than `max_pixels`=526"):
        list(dataset_of(LOSSLESS["png"]).decode_image(max_pixels=526))


def test_a_crop_that_does_not_fit_is_an_error():
    with pytest.raises(
        tdi.InvalidArgumentError,
        match="random_crop: row 0, the element: a crop of 40 x 40 does not fit into an image of 17 x 31",
    ):
        list(dataset_of(LOSSLESS["png"]).decode_image().random_crop(40))


def test_key_names_the_leaf():
    data = {"left": [LOSSLESS["png"]], "right": [LOSSLESS["png alpha"]], "label": torch.tensor([3])}
    rows = tdi.Dataset.from_tensor_slices(data)
    with pytest.raises(ValueError, match="decode_image: `key` must name one leaf, because 2 leaves could be meant"):
        rows.decode_image()
    element = one(rows.decode_image(key="right").decode_image(key="left").center_crop(5, key="right"))
    assert element["left"].shape == (3, 17, 31)
    assert element["right"].shape == (3, 5, 5)
    with pytest.raises(ValueError, match='`key` "other" names no part of the elements'):
        rows.decode_image(key="other")
    with pytest.raises(ValueError, match="no leaf that `key` names is an encoded image"):
        rows.decode_image(key="label")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ds: ds.resize(0), "resize: `size` must be in \\[1, 1048576\\], but is 0."),
        (lambda ds: ds.resize((1, 2, 3)), "resize: `size` must be one number, or height and width, but has 3"),
        (lambda ds: ds.resize(3, "lanczos"), 'resize: `interpolation` must be one of "nearest", "bilinear", "bicubic"'),
        (lambda ds: ds.resize(3, "bicubic", False), "resize: `antialias` must be True"),
        (lambda ds: ds.horizontal_flip(1.5), "horizontal_flip: `p` must be in \\[0, 1\\], but is 1.5."),
        (lambda ds: ds.pad(1, fill=256), "pad: `fill` must be in \\[0, 255\\], but is 256."),
        (lambda ds: ds.color_jitter(hue=0.6), "color_jitter: `hue` must be an increasing pair of numbers in \\[-0.5"),
        (lambda ds: ds.random_resized_crop(3, scale=(0.5, 0.1)), "random_resized_crop: `scale` must be an increasing"),
        (lambda ds: ds.batch(1).center_crop(3), "center_crop: must stand before `batch`."),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(call, message):
    images = tdi.Dataset.from_tensor_slices(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(ValueError, match=message):
        call(images)


def test_image_folder_is_read_in_torchvisions_order(tmp_path):
    names = ["b/2.png", "b/10.PNG", "b/inner/0.jpg", "b/inner-a/0.jpg", "a b/x.webp", "a b/notes.txt"]
    for number, name in enumerate(names):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(IMAGES[number])
    folder = tdi.ImageFolder(tmp_path)
    assert folder.classes == ["a b", "b"]
    order = [names.index(name) for name in ("a b/x.webp", "b/10.PNG", "b/2.png", "b/inner/0.jpg", "b/inner-a/0.jpg")]
    assert [(data, int(label)) for data, label in folder] == [
        (IMAGES[number], int(names[number].startswith("b"))) for number in order
    ]
    assert len(folder) == 5
    assert_resumable(folder.shuffle(seed=2).decode_image().center_crop(9).batch(2))
    assert_paths_agree(folder.decode_image().center_crop(9).batch(2))


def test_image_folder_names_the_file_of_a_row_that_fails(tmp_path):
    for name in ("1.png", "2.png", "3.png"):
        (tmp_path / "cat").mkdir(exist_ok=True)
        (tmp_path / "cat" / name).write_bytes(LOSSLESS["png"])
    folder = tdi.ImageFolder(tmp_path)
    (tmp_path / "cat" / "2.png").write_bytes(LOSSLESS["png"][:60])
    with pytest.raises(tdi.InvalidArgumentError, match=r"decode_image: row \d \(.*/cat/2.png\), leaf \[0\]: PNG: "):
        list(folder.shuffle(seed=1).decode_image())
    (tmp_path / "cat" / "3.png").unlink()
    skipping = iter(folder.decode_image().with_options(tdi.Options(on_error="skip")))
    assert len(list(skipping)) == 1
    assert skipping.stats()["skipped"] == 2
    with pytest.raises(tdi.NotFoundError, match="cat/3.png"):
        list(folder)


def test_image_folder_says_what_is_missing(tmp_path):
    with pytest.raises(tdi.NotFoundError, match="no/such"):
        tdi.ImageFolder(tmp_path / "no/such")
    with pytest.raises(tdi.NotFoundError, match="holds no folders of classes"):
        tdi.ImageFolder(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(tdi.NotFoundError, match="class `empty`"):
        tdi.ImageFolder(tmp_path)


def test_links_of_an_image_folder_are_followed_also_out_of_its_root(tmp_path):
    """As in torchvision: folders of links are how subsets and mounts are made."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    for folder in (outside / "deep", root / "a"):
        folder.mkdir(parents=True)
    (outside / "1.png").write_bytes(LOSSLESS["png"])
    (outside / "deep" / "2.png").write_bytes(LOSSLESS["png grey"])
    (root / "a" / "0.png").symlink_to(outside / "1.png")
    (root / "a" / "more").symlink_to(outside)
    (root / "b").symlink_to(outside / "deep")
    folder = tdi.ImageFolder(root)
    assert folder.classes == ["a", "b"]
    assert [int(number) for _, number in folder] == [0, 0, 0, 1]
    (outside / "deep" / "2.png").unlink()
    with pytest.raises(tdi.NotFoundError, match=r"2\.png"):
        list(folder)


@pytest.mark.parametrize("target", ["a", ".", "a/inner"])
def test_a_link_to_a_folder_that_holds_it_is_an_error(tmp_path, target):
    root = tmp_path / "root"
    (root / "a" / "inner").mkdir(parents=True)
    (root / "a" / "1.png").write_bytes(LOSSLESS["png"])
    for name in ("loop", "other loop"):  # two of them are 2**40 paths
        (root / "a" / "inner" / name).symlink_to(root / target)
    with pytest.raises(tdi.InvalidArgumentError, match="ImageFolder: `.*loop` is a link to a folder that holds it"):
        tdi.ImageFolder(root)
