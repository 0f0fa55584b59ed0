# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""JPEGs of 500 x 375 pixels and their numbers in a tar archive (WebDataset's layout), resized to 224 x 224, batch 64,
in any order. Everything that a system does to an image runs on two threads or two workers."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from task import Batch, Epoch, Task, WrongOutput, each, mosaic, tensors
from torch.utils.data import DataLoader, Dataset

ROWS, BATCH, WIDTH, HEIGHT, SIDE = 768, 64, 500, 375, 224
POOLED = 14  # side of the squares in which images are compared
MOST_DIFFERENCE = 2.0  # grey levels, in the mean: decoders and resizers differ by less, other images by much more


def image(row: int) -> bytes:
    """Smooth colours with noise, about 52 kB."""
    from PIL import Image

    generator = np.random.default_rng(row)
    small = generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(small).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC), dtype=np.float32)
    noisy = smooth + 10 * generator.standard_normal(smooth.shape, dtype=np.float32)
    stream = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(stream, "JPEG", quality=85)
    return stream.getvalue()


def resized(data: bytes) -> np.ndarray:
    """Pillow's result: uint8 [224, 224, 3]."""
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    return np.array(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def pooled(images: torch.Tensor) -> torch.Tensor:
    """Means of squares, in which noise does not count."""
    squares = SIDE // POOLED
    return images.float().view(-1, squares, POOLED, squares, POOLED, 3).mean((2, 4))


def write(folder: Path) -> None:
    reference = []
    with tarfile.open(folder / "images.tar", "w") as archive:
        for row in range(ROWS):
            data = image(row)
            reference.append(resized(data))
            for suffix, content in (("jpg", data), ("cls", str(row).encode())):
                member = tarfile.TarInfo(f"{row:06}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    np.save(folder / "reference.npy", pooled(torch.from_numpy(np.stack(reference))).numpy())


def ids(batch: Batch, folder: Path) -> torch.Tensor:
    images, rows = batch
    if len(rows) and not (rows.min() >= 0 and rows.max() < ROWS):
        raise WrongOutput("an image that does not exist")
    wanted = torch.from_numpy(np.load(folder / "reference.npy"))[rows]
    difference = (pooled(images) - wanted).abs().mean((1, 2, 3)).max().item()
    if difference > MOST_DIFFERENCE:
        raise WrongOutput(f"an image differs from Pillow's by {difference:.1f} grey levels in the mean")
    return rows


def members(folder: Path) -> list[tuple[bytes, int]]:
    """Encoded images and their numbers, for systems that read no tar archives."""
    found: dict[str, dict[str, bytes]] = {}
    with tarfile.open(folder / "images.tar") as archive:
        for member in archive:
            name, suffix = member.name.split(".")
            found.setdefault(name, {})[suffix] = archive.extractfile(member).read()
    return [(one["jpg"], int(one["cls"])) for one in found.values()]


class Images(Dataset):
    """What people write: offsets of the members, and Pillow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with tarfile.open(path) as archive:
            found = {member.name: (member.offset_data, member.size) for member in archive}
        self.places = [found[name] for name in sorted(found) if name.endswith(".jpg")]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        offset, size = self.places[row]
        with self.path.open("rb") as file:
            file.seek(offset)
            return torch.from_numpy(resized(file.read(size))), row


def stacked(samples: list) -> list[torch.Tensor]:
    images, rows = zip(*samples)
    return [torch.from_numpy(np.stack(images)), torch.tensor(rows)]


def torch_distinput(folder: Path) -> Epoch:
    import torch_distinput as tdi

    rows = tdi.TarDataset(folder / "images.tar").decode_members().decode_image(layout="NHWC", key="jpg")
    rows = rows.resize((SIDE, SIDE), key="jpg").batch(BATCH).with_options(tdi.Options(num_threads=2))
    return each(lambda batch: (batch["jpg"], batch["cls"]), lambda: rows)


def dataloader(folder: Path) -> Epoch:
    loader = DataLoader(Images(folder / "images.tar"), BATCH, num_workers=2)
    return lambda: loader


def accelerate(folder: Path) -> Epoch:
    from accelerate import Accelerator

    loader = Accelerator(cpu=True).prepare(DataLoader(Images(folder / "images.tar"), BATCH, num_workers=2))
    return lambda: loader


def webdataset(folder: Path) -> Epoch:
    """From two halves of the archive, because a worker takes whole archives."""
    import webdataset as wds

    halves = [str(folder / f"half{half}.tar") for half in range(2)]
    rows = members(folder)
    for path, part in zip(halves, (rows[: ROWS // 2], rows[ROWS // 2 :])):
        with wds.TarWriter(path) as writer:
            for data, number in part:
                writer.write({"__key__": f"{number:06}", "jpg": data, "cls": str(number)})

    def epoch() -> Iterator:
        dataset = wds.WebDataset(halves, shardshuffle=False).map(lambda row: (resized(row["jpg"]), int(row["cls"])))
        return iter(wds.WebLoader(dataset.batched(BATCH, collation_fn=stacked), batch_size=None, num_workers=2))

    return epoch


def tf_data(folder: Path) -> Epoch:
    """The same JPEGs as TFRecords, because it reads no tar archives."""
    import tensorflow as tf

    import torch_distinput as tdi

    with tdi.TFRecordWriter(folder / "images.tfrecord") as writer:
        for data, number in members(folder):
            writer.write(number.to_bytes(8, "little") + data)

    def decoded(record: "tf.Tensor") -> tuple:
        number = tf.io.decode_raw(tf.strings.substr(record, 0, 8), tf.int64)[0]
        image = tf.io.decode_jpeg(tf.strings.substr(record, 8, -1), channels=3)
        image = tf.image.resize(image, (SIDE, SIDE), antialias=True)
        return tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8), number

    rows = tf.data.TFRecordDataset(str(folder / "images.tfrecord")).map(decoded, 2).batch(BATCH).prefetch(2)
    return each(tensors, lambda: rows)


def grain(folder: Path) -> Epoch:
    import grain

    rows = members(folder)
    read = grain.ReadOptions(num_threads=2, prefetch_buffer_size=2 * BATCH)
    decoded = grain.MapDataset.source(rows).map(lambda row: (resized(row[0]), np.int64(row[1])))
    return each(tensors, lambda: decoded.to_iter_dataset(read).batch(BATCH))


def spdl(folder: Path) -> Epoch:
    """Pillow in two threads; its own decoders need libraries of FFmpeg, which pip does not install."""
    from spdl.pipeline import PipelineBuilder

    rows = members(folder)

    def epoch() -> Iterator:
        builder = PipelineBuilder().add_source(rows)
        builder = builder.pipe(lambda row: (resized(row[0]), row[1]), concurrency=2, output_order="input")
        pipeline = builder.aggregate(BATCH).pipe(stacked).add_sink(2).build(num_threads=3)
        with pipeline.auto_stop():
            yield from pipeline.get_iterator()

    return epoch


def mlx_data(folder: Path) -> Epoch:
    import mlx.data as dx

    rows = dx.buffer_from_vector([{"jpg": f"{row:06}.jpg".encode(), "cls": row} for row in range(ROWS)])
    rows = rows.read_from_tar(str(folder / "images.tar"), "jpg", "jpg").load_image("jpg", from_memory=True)
    rows = rows.image_resize("jpg", SIDE, SIDE).batch(BATCH)
    return each(lambda batch: tensors([batch["jpg"], batch["cls"].reshape(-1)]), lambda: rows.ordered_prefetch(4, 2))


def mosaic_streaming(folder: Path) -> Epoch:
    """From its own format."""
    streaming = mosaic()
    with streaming.MDSWriter(out=str(folder / "mds"), columns={"jpg": "bytes", "cls": "int"}) as writer:
        for data, number in members(folder):
            writer.write({"jpg": data, "cls": number})
    rows = streaming.StreamingDataset(local=str(folder / "mds"), shuffle=False, batch_size=BATCH)

    def joined(samples: list[dict]) -> list[torch.Tensor]:
        return stacked([(resized(sample["jpg"]), sample["cls"]) for sample in samples])

    return lambda: streaming.StreamingDataLoader(rows, batch_size=BATCH, num_workers=2, collate_fn=joined)


def litdata(folder: Path) -> Epoch:
    """From its own format."""
    import litdata

    writer = litdata.streaming.cache.Cache(str(folder / "litdata"), chunk_bytes=1 << 24)
    for row, (data, number) in enumerate(members(folder)):
        writer[row] = {"jpg": data, "cls": number}
    writer.done()
    writer.merge()
    rows = litdata.StreamingDataset(str(folder / "litdata"))

    def joined(samples: list[dict]) -> list[torch.Tensor]:
        return stacked([(resized(sample["jpg"]), sample["cls"]) for sample in samples])

    return lambda: litdata.StreamingDataLoader(rows, batch_size=BATCH, num_workers=2, collate_fn=joined)


TASK = Task(
    name="images",
    title="JPEGs of 500 x 375 in a tar archive to 224 x 224, batch 64",
    rows=ROWS,
    batch=BATCH,
    leaves=((torch.uint8, (SIDE, SIDE, 3)), (torch.int64, ())),
    write=write,
    ids=ids,
    order="any",
    systems={
        "torch_distinput": torch_distinput,
        "DataLoader, Pillow, 2 workers": dataloader,
        "Accelerate, Pillow, 2 workers": accelerate,
        "WebDataset, Pillow, 2 workers": webdataset,
        "tf.data": tf_data,
        "Grain, Pillow": grain,
        "SPDL, Pillow": spdl,
        "mlx-data": mlx_data,
        "MosaicML streaming, Pillow, 2 workers": mosaic_streaming,
        "litdata, Pillow, 2 workers": litdata,
    },
)
