# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""TarDataset: values and laws, archives of other tools, damage."""

import gzip
import io
import random
import tarfile

import numpy as np
import pytest
import torch
from sample_files import write_tar

import torch_distinput as tdi


def samples(count, seed=0, prefix=""):
    """Elements as TarDataset yields them."""
    rng = random.Random(seed)
    return [
        {"__key__": f"{prefix}{i:05}", "bin": rng.randbytes(rng.choice([0, 3, 512, 700, 40_000])), "cls": b"%d" % i}
        for i in range(count)
    ]


def members(elements):
    return [(f"{e['__key__']}.{suffix}", e[suffix]) for e in elements for suffix in e if suffix != "__key__"]


def laws(dataset):
    tdi.testing.assert_resumable(dataset, max_elements=40)
    tdi.testing.assert_paths_agree(dataset)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_groups_are_elements_with_random_access(tmp_path, form):
    elements = samples(30, prefix="deep/" * 25 if form != tarfile.USTAR_FORMAT else "dir.x/")
    path = write_tar(tmp_path / "a.tar", members(elements), form)
    dataset = tdi.TarDataset(path)
    assert list(dataset) == elements and len(dataset) == 30
    assert dataset.element_spec["__key__"] == tdi.StringSpec([])
    assert dataset.element_spec["bin"] == tdi.StringSpec([], encoding=None)
    (batch,) = dataset.batch(30)
    assert batch == {key: [e[key] for e in elements] for key in elements[0]}
    shuffled = dataset.shuffle(seed=2).batch(7)
    laws(shuffled)
    assert sorted(key for rows in shuffled for key in rows["__key__"]) == [e["__key__"] for e in elements]


def test_shards_by_pattern_and_compressed_ones(tmp_path):
    parts = [samples(4, seed, f"{seed}-") for seed in range(3)]
    for number, part in enumerate(parts):
        plain = write_tar(tmp_path / f"s-{number:02}.tar", members(part))
        (tmp_path / f"s-{number:02}.tgz").write_bytes(gzip.compress(plain.read_bytes()))
    wanted = [element for part in parts for element in part]
    assert list(tdi.TarDataset(tmp_path / "s-{00..02}.tar")) == wanted
    assert list(tdi.TarDataset([str(tmp_path / "s-{00,01}.tar"), tmp_path / "s-02.tar"])) == wanted
    packed = tdi.TarDataset(tmp_path / "s-{00..02}.tgz", "GZIP")
    assert list(packed) == wanted and packed.cardinality() == tdi.UNKNOWN
    tdi.testing.assert_resumable(packed)
    with pytest.raises(tdi.InvalidArgumentError, match="must come in pairs"):
        tdi.TarDataset("a-{0..2.tar")
    with pytest.raises(FileNotFoundError, match="s-03.tar"):
        list(tdi.TarDataset(tmp_path / "s-{02..03}.tar"))


def test_workers_read_whole_shards(tmp_path):
    for number in range(4):
        write_tar(tmp_path / f"{number}.tar", members(samples(5, prefix=f"{number}-")))
    dataset = tdi.TarDataset(str(tmp_path / "{0..3}.tar")).batch(2)
    keys = [
        [key for rows in tdi.testing.auto_shard(dataset, 2, worker) for key in rows["__key__"]] for worker in (0, 1)
    ]
    assert [sorted({key[0] for key in part}) for part in keys] == [["0", "2"], ["1", "3"]]
    parts = tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(dataset)
    assert len([key for step in parts for part in step["__key__"].values for key in part]) == 20


def test_folders_and_members_without_a_suffix_are_left_out(tmp_path):
    folder = tarfile.TarInfo("dir.d")
    folder.type = tarfile.DIRTYPE
    path = write_tar(
        tmp_path / "a.tar",
        [
            (folder, b""),
            ("README", b"x"),
            ("dir.d/.hidden", b"y"),
            ("1.a", b"1"),
            (folder, b""),
            ("2.A", b"2"),
            ("z", b""),
        ],
    )
    for index in (True, False):
        found = list(tdi.TarDataset(path, index=index))
        assert found == [{"__key__": "1", "a": b"1"}, {"__key__": "2", "a": b"2"}]
    empty = write_tar(tmp_path / "empty.tar", [("README", b"x")])
    assert list(tdi.TarDataset(empty)) == [] and len(tdi.TarDataset(empty)) == 0


def special(name, kind):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "1.a"
    return info, b""


def pax_sparse(name):
    info = tarfile.TarInfo(name)
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    return info, b"0\n"


def test_an_old_sparse_file_ends_the_archive(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("1.a", b"1"), special("2.a", tarfile.GNUTYPE_SPARSE), ("3.a", b"3")])
    with pytest.raises(tdi.InvalidArgumentError, match="member '2.a' is stored as a sparse file"):
        list(tdi.TarDataset(path))


@pytest.mark.parametrize(
    "bad, message",
    [
        ([special("2.a", tarfile.LNKTYPE)], "member '2.a' is a link"),
        ([special("2.a", tarfile.SYMTYPE)], "member '2.a' is a link"),
        ([special("2.a", tarfile.FIFOTYPE)], "member '2.a' has the type '6'"),
        ([pax_sparse("2.a")], "member '2.a' is stored as a sparse file"),
        ([("2.a", b"x"), ("2.A", b"y")], "member '2.A' occurs twice"),
        ([("../2.a", b"x")], "member '../2.a' has a name that leads out of the archive"),
        ([("/2.a", b"x")], "member '/2.a' has a name that leads out"),
        ([("2.a", b""), ("2.b", b"")], "'2', has a member '.b' in contrast to the first element"),
        ([("2.b", b"")], "'2', has no member '.a' in contrast to the first element"),
    ],
)
@pytest.mark.parametrize("index", [True, False])
def test_what_is_wrong_with_a_member_is_named(tmp_path, bad, message, index):
    path = write_tar(tmp_path / "a.tar", [("1.a", b"1"), *bad, ("3.a", b"3")])
    with pytest.raises(tdi.InvalidArgumentError, match=message) as caught:
        list(tdi.TarDataset(path, index=index).batch(1))
    assert "a.tar" in str(caught.value) or "contrast" in str(caught.value)
    skipping = tdi.TarDataset(path).batch(1).with_options(tdi.Options(on_error="skip"))
    iterator = iter(skipping)
    kept = [rows["__key__"] for rows in iterator]
    assert kept == [["1"], ["3"]] and iterator.stats()["skipped"] == 1


@pytest.mark.parametrize("cut", [100, 512, 900, 2048])
@pytest.mark.parametrize("index", [True, False])
def test_an_archive_that_was_cut_off_is_an_error(tmp_path, cut, index):
    path = write_tar(tmp_path / "a.tar", [("1.a", b"x" * 600), ("2.a", b"y")])
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(tdi.InvalidArgumentError, match="a.tar: at byte .*(does not fit|ends)"):
        list(tdi.TarDataset(path, index=index))


def test_sizes_and_checksums_that_lie_are_errors(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("1.a", b"x")], tarfile.USTAR_FORMAT)
    head = bytearray(path.read_bytes())
    for size, message in (
        (b"77777777777\0", "member '1.a' of 8589934591 bytes does not fit"),
        (b"\x80" + b"\xff" * 11, "impossible size"),
    ):
        head[124:136] = size
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head[:512])
        path.write_bytes(head)
        for index in (True, False):
            with pytest.raises(tdi.InvalidArgumentError, match=message):
                list(tdi.TarDataset(path, index=index))
    head[0] ^= 1
    path.write_bytes(head)
    with pytest.raises(tdi.InvalidArgumentError, match="there is no tar head, or its checksum is wrong"):
        list(tdi.TarDataset(path))


def test_an_archive_that_is_replaced_during_an_epoch_is_an_error(tmp_path):
    path = write_tar(tmp_path / "a.tar", members(samples(50)))
    iterator = iter(tdi.TarDataset(path).batch(5).with_options(tdi.Options(num_threads=1, prefetch=0)))
    next(iterator)
    write_tar(path, members(samples(50, seed=1)))
    with pytest.raises(tdi.InvalidArgumentError, match="changed since it was indexed"):
        list(iterator)


def test_what_webdataset_writes_and_reads(tmp_path):
    webdataset = pytest.importorskip("webdataset")
    path = tmp_path / "w.tar"
    with webdataset.TarWriter(str(path)) as writer:
        for i in range(10):
            writer.write({"__key__": f"k{i}", "cls": i, "txt": f"text {i}", "npy": torch.arange(i + 1).numpy()})
    found = list(tdi.TarDataset(path))
    theirs = webdataset.WebDataset(str(path), shardshuffle=False, nodesplitter=None)
    assert found == [{key: sample[key] for key in ("__key__", "cls", "npy", "txt")} for sample in theirs]


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def decoded(tmp_path, arrays, extra=()):
    rows = [
        (f"{i}.{suffix}", data)
        for i, array in enumerate(arrays)
        for suffix, data in [("cls", b" %d\n" % i), ("x.npy", npy(array)), ("json", b'{"a": %d}' % i), *extra]
    ]
    return tdi.TarDataset(write_tar(tmp_path / "a.tar", rows)).decode_members()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "uint32", "float16", "float32", "complex64"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_members_are_decoded_by_suffix(tmp_path, dtype, order):
    arrays = [np.asarray(np.arange(24).reshape(2, 3, 4) * (i + 1), dtype, order=order) for i in range(6)]
    dataset = decoded(tmp_path, arrays)
    found = list(dataset)
    assert [int(row["cls"]) for row in found] == list(range(6)) and found[2]["json"] == '{"a": 2}'
    for row, array in zip(found, arrays):
        np.testing.assert_array_equal(row["x.npy"].numpy(), array)
    spec = dataset.batch(4).element_spec
    assert spec["x.npy"] == tdi.TensorSpec([None, None, None, None], found[0]["x.npy"].dtype)
    assert spec["cls"] == tdi.TensorSpec([None], torch.int64) and spec["json"] == tdi.StringSpec([None])
    laws(dataset.shuffle(seed=1).batch(4))
    batched = tdi.TarDataset(tmp_path / "a.tar").batch(4).decode_members()
    laws(batched)
    np.testing.assert_array_equal(next(iter(batched))["x.npy"].numpy(), np.stack(arrays[:4]))


def test_members_that_cannot_be_decoded_are_named(tmp_path):
    small, other = np.zeros(2, np.float32), np.zeros(3, np.float32)
    assert [len(row["x.npy"]) for row in decoded(tmp_path, [small, other])] == [2, 3]
    with pytest.raises(tdi.InvalidArgumentError, match=r"member 'x.npy' has the shape \(3,\), but that of row 0 has"):
        list(decoded(tmp_path, [small, other]).batch(2))
    for array, message in (
        (np.zeros(2, ">f4"), "cannot be read at byte 0: its type '>f4' is big-endian"),
        (np.array(["a"]), "its type '<U1' has no counterpart in torch"),
        (np.zeros(2, np.int32), "element 1: member 'x.npy' must be TensorSpec.* as that of the first element"),
        (np.zeros((2, 2), np.float32), r"but is torch.float32 of shape \(2, 2\)"),
    ):
        with pytest.raises(tdi.InvalidArgumentError, match=message):
            list(decoded(tmp_path, [small, array]))
    for suffix, data, message in (
        ("b.cls", b"1.5", "member 'b.cls' must be an integer, but is \"1.5\""),
        ("txt", b"\xff", "member 'txt' must be UTF-8, but byte 0 is not"),
        ("y.npy", npy(small)[:-1], r"an array of float32 of shape \(2,\) does not fit the 7 bytes"),
    ):
        with pytest.raises(tdi.InvalidArgumentError, match=message):
            list(decoded(tmp_path, [small], [(suffix, data)]))
    with pytest.raises(TypeError, match="elements must be flat dicts"):
        tdi.Dataset.range(3).decode_members()
