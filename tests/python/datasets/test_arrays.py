# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`NumpyDataset` and `SafetensorsDataset`: values against numpy and safetensors, laws, and headers that lie."""

import json
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import check_laws

import torch_distinput as tdi

TYPES = ["?", "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8", "<c8", "<c16"]


def rows_of(rows: int, shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    bits = np.random.default_rng(seed).integers(0, 2 if dtype == "?" else 100, (rows, *shape))
    return bits.astype(dtype)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=3),
    st.lists(st.integers(0, 3), max_size=2).map(tuple),
    st.sampled_from(TYPES),
    st.sampled_from(["npy", "stored", "deflated"]),
)
def test_rows_are_those_of_numpy(counts, shape, dtype, kind):
    with tempfile.TemporaryDirectory() as folder:
        paths, arrays = [], []
        for number, count in enumerate(counts):
            paths.append(Path(folder) / f"{number}.np{'y' if kind == 'npy' else 'z'}")
            arrays.append(rows_of(count, shape, dtype, number))
            if kind == "npy":
                np.save(paths[-1], arrays[-1])
            else:
                save = np.savez if kind == "stored" else np.savez_compressed
                save(paths[-1], x=arrays[-1], id=np.arange(count))
        expected = torch.from_numpy(np.concatenate(arrays))
        dataset = tdi.NumpyDataset(paths)
        assert len(dataset) == len(expected)
        found = [row if kind == "npy" else row["x"] for row in dataset]
        assert all(row.dtype == expected.dtype and torch.equal(row, x) for row, x in zip(found, expected, strict=True))
        batches = [batch if kind == "npy" else batch["x"] for batch in dataset.batch(3)]
        assert torch.equal(torch.cat([*batches, expected[:0]]), expected)
        check_laws(dataset.shuffle(seed=2).batch(2))


def test_rows_are_those_of_safetensors(tmp_path):
    save_file = pytest.importorskip("safetensors.torch").save_file
    tensors = {
        "x": torch.arange(12.0).reshape(6, 2),
        "b": torch.arange(6).to(torch.bfloat16),
        "\u00e9\n": torch.arange(6) % 2 == 0,
        "f8": torch.arange(6.0).to(torch.float8_e4m3fn),
    }
    paths = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    save_file(tensors, paths[0], {"made": "by a test"})
    save_file({name: tensor[:2].clone() for name, tensor in reversed(tensors.items())}, paths[1])
    dataset = tdi.SafetensorsDataset(paths)
    assert len(dataset) == 8
    batch = next(iter(dataset.batch(8)))
    assert sorted(batch) == sorted(tensors)
    for name, tensor in tensors.items():
        whole = torch.cat([tensor, tensor[:2]])
        assert batch[name].dtype == whole.dtype
        assert torch.equal(batch[name].view(torch.uint8), whole.view(torch.uint8))
    check_laws(dataset.map(lambda row: row["x"]).shuffle(seed=1).batch(3))


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def header(descr="'<i4'", order="False", shape="(2,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "this is not a numpy array"),
        (npy(header(), bytes(7)), r"array of int32 of shape \(2,\) does not fit the 7 bytes"),
        (npy(header(), bytes(9)), "does not fit the 9 bytes"),
        (npy(header(shape="(2, 4611686018427387904)"), bytes(8)), r"too large: .* fewer than 2\^63 bytes"),
        (npy(header(shape="(0, 4611686018427387904)")), "too large"),
        (npy(header(shape="(4, 0, 4611686018427387904)")), "too large"),
        (npy(header(shape="(99999999999999999999,)"), bytes(8)), "expected a size below"),
        (npy(header("'|O'"), bytes(16)), "Python objects"),
        (npy(header("[('a', '<i4')]"), bytes(8)), "structures"),
        (npy(header("'>i4'"), bytes(8)), "big-endian"),
        (npy(header("'<U3'"), bytes(24)), "'<U3' has no counterpart"),
        (npy(header(order="True", shape="(2, 1)"), bytes(8)), "column-major"),
        (npy(header(shape="()"), bytes(4)), "scalar"),
        (npy(header(), bytes(8), version=9), "version 9"),
        (npy("{'descr': '<i4'}", bytes(8)), "no '(shape|fortran_order)'"),
        (npy("{'descr': '<i4"), "the end of a string"),
        (npy(header())[:20], "more are needed here"),
        (b"PK\3\4" + bytes(60), "not a zip archive"),
    ],
)
def test_numpy_headers_that_lie_are_named(tmp_path, content, message):
    path = tmp_path / "rows.npy"
    path.write_bytes(content)
    with pytest.raises(tdi.InvalidArgumentError, match=f"NumpyDataset: .*rows.npy: at byte.*{message}"):
        list(tdi.NumpyDataset(path))


@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_rows_without_bytes_are_not_as_many_as_a_header_says(tmp_path, kind):
    def written(name: str, rows: int) -> Path:
        path = tmp_path / f"{name}.{kind}"
        shape = (rows, 0)
        path.write_bytes(npy(header(shape=shape)) if kind == "npy" else tensors({"x": entry(shape=shape, end=0)}, b""))
        return path

    read = tdi.NumpyDataset if kind == "npy" else tdi.SafetensorsDataset
    honest, many = written("honest", 2**24), written("many", 2**60)
    assert len(read([honest, honest])) == 2**25
    assert len(list(read(written("few", 3)).batch(2))) == 2
    for paths in ([many], [many, many], [honest, many, many]):
        for use in (len, list, tdi.Dataset.cardinality, lambda rows: next(iter(rows.shuffle(seed=1).batch(3)))):
            with pytest.raises(tdi.InvalidArgumentError, match="many.*: its 1152921504606846976 rows hold no bytes"):
                use(read(paths))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_archives_are_errors(tmp_path, save):
    path = tmp_path / "rows.npz"
    save(path, x=np.arange(1000), y=np.arange(1000))
    content = path.read_bytes()
    for at in range(0, len(content), 37):
        damaged = bytearray(content)
        damaged[at] ^= 0x55
        path.write_bytes(bytes(damaged))
        try:
            rows = list(tdi.NumpyDataset(path).batch(1000))
        except tdi.InvalidArgumentError as error:
            assert "rows.npz" in str(error)
        else:  # a byte that does not matter, such as a date
            assert [row["x"].tolist() for row in rows] == [list(range(1000))]
    path.write_bytes(content[:-30])
    with pytest.raises(tdi.InvalidArgumentError, match="rows.npz"):
        len(tdi.NumpyDataset(path))
        list(tdi.NumpyDataset(path))
    np.savez(path, x=np.arange(3), y=np.arange(4))
    with pytest.raises(tdi.InvalidArgumentError, match="same number of rows, but 'x' has 3 and 'y' has 4"):
        list(tdi.NumpyDataset(path))


def tensors(entries: dict, data: bytes, size: int | None = None) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def entry(dtype="I32", shape=(2,), begin=0, end=8) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"abc", "not a safetensors file"),
        (tensors({"x": entry()}, bytes(8), size=10**12), "header of 1000000000000 bytes does not fit"),
        (tensors({"x": entry(end=12)}, bytes(12)), "tensor 'x' of int32 and shape .* does not fit its place"),
        (tensors({"x": entry(shape=(2**62, 4))}, bytes(8)), "does not fit its place"),
        (tensors({"x": entry()}, bytes(7)), "the tensors end at byte 8 of the data, which has 7"),
        (tensors({"x": entry(), "y": entry(begin=4, end=12)}, bytes(12)), "'y' begins at byte 4 .* ends at byte 8"),
        (tensors({"x": entry(dtype="F4")}, bytes(8)), "has the type F4, which torch does not have"),
        (tensors({"x": entry(shape=(), end=4)}, bytes(4)), "'x' is a scalar"),
        (tensors({"x": {"dtype": "I32"}}, bytes(8)), "expected dtype, shape and data_offsets of 'x'"),
        (tensors({}, b""), "it has no arrays"),
        (struct.pack("<Q", 4) + b'{"x"', "the header is damaged: .* byte 4"),
        (struct.pack("<Q", 2) + b"[]", "expected an object"),
        (struct.pack("<Q", 9000) + b"[" * 9000, "deep"),
        (struct.pack("<Q", 13) + b'{"x":1,"x":2}', "'x'"),
        (tensors({"x": entry(begin=-4, end=4)}, bytes(8)), "expected dtype, shape and data_offsets of 'x'"),
        (tensors({"x": entry(shape=(2.0,))}, bytes(8)), "expected dtype, shape and data_offsets of 'x'"),
    ],
)
def test_safetensors_headers_that_lie_are_named(tmp_path, content, message):
    path = tmp_path / "rows.safetensors"
    path.write_bytes(content)
    with pytest.raises(tdi.InvalidArgumentError, match=f"SafetensorsDataset: .*rows.safetensors: .*{message}"):
        list(tdi.SafetensorsDataset(path))


def test_files_that_differ_change_or_are_missing_are_named(tmp_path):
    one, other = tmp_path / "one.npy", tmp_path / "other.npy"
    np.save(one, np.zeros((1000, 100)))
    np.save(other, np.zeros((4, 100), np.float32))
    with pytest.raises(tdi.InvalidArgumentError, match="other.npy: its rows are .*float32.*one.npy are .*float64"):
        list(tdi.NumpyDataset([one, other]))
    with pytest.raises(tdi.NotFoundError, match="missing.npy"):
        list(tdi.NumpyDataset(tmp_path / "missing.npy"))
    iterator = iter(tdi.NumpyDataset(one).shuffle(seed=1).batch(2))
    next(iterator)
    with one.open("r+b") as file:
        file.truncate(300)
    with pytest.raises(tdi.InvalidArgumentError, match="one.npy: the file (changed since|became shorter)"):
        list(iterator)
