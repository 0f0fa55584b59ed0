# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Files that are damaged, missing or change; stored indexes that are stale or damaged."""

import gzip
import os
import random

import pytest
from processes import run_script
from sample_files import tf_record, tf_records

import torch_distinput as tdi

SKIP = tdi.Options(on_error="skip")


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("index", [True, False])
def test_a_bad_checksum_is_named_and_can_be_skipped(tmp_path, index):
    path = tmp_path / "records"
    path.write_bytes(flipped(tf_records([b"one", b"two", b"three"]), len(tf_record(b"one")) + 13))
    dataset = tdi.TFRecordDataset(path, index=index)
    iterator = iter(dataset)
    assert next(iterator) == b"one"
    for _ in range(2):
        with pytest.raises(tdi.InvalidArgumentError, match="TFRecordDataset: .*records: at byte 19: the CRC of"):
            next(iterator)
    iterator = iter(dataset.with_options(SKIP))
    assert list(iterator) == [b"one", b"three"]
    assert iterator.stats()["skipped"] == 1
    tdi.testing.assert_resumable(dataset.with_options(SKIP))


@pytest.mark.parametrize("cut", [1, 5, 12, 14, 18])
def test_a_truncated_record_is_named_and_can_be_skipped(tmp_path, cut):
    path = tmp_path / "records"
    path.write_bytes(tf_record(b"one") + tf_record(b"two")[:cut])
    for index in (True, False):
        dataset = tdi.TFRecordDataset([path, path], index=index)
        with pytest.raises(tdi.InvalidArgumentError, match="records: at byte 19: "):
            list(dataset)
        iterator = iter(dataset.with_options(SKIP))
        assert list(iterator) == [b"one", b"one"]
        assert iterator.stats()["skipped"] == 2


def test_the_budget_of_skips_holds(tmp_path):
    options = tdi.Options(on_error=tdi.Skip(max_count=1))
    dataset = tdi.TextLineDataset([tmp_path / "none", tmp_path / "nothing"]).with_options(options)
    with pytest.raises(ValueError, match=r"TextLineDataset: 2 rows failed, but Skip\(max_count=1\)"):
        list(dataset)


def test_text_that_is_not_utf_8_is_named_and_can_be_skipped(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntw\xff\nthree\x00\n")
    for index in (True, False):
        dataset = tdi.TextLineDataset(path, index=index)
        with pytest.raises(tdi.InvalidArgumentError, match="lines: at byte 6: the text is not UTF-8"):
            list(dataset)
        assert list(dataset.with_options(SKIP)) == ["one", "three\x00"]


def test_what_is_no_readable_file(tmp_path):
    missing = tmp_path / "none"
    for index in (True, False):
        with pytest.raises(tdi.NotFoundError, match="none: there is no such file"):
            list(tdi.TextLineDataset(missing, index=index))
        with pytest.raises(IsADirectoryError, match="TextLineDataset: "):
            list(tdi.TextLineDataset(tmp_path, index=index))
    assert list(tdi.TextLineDataset([missing, tmp_path]).with_options(SKIP)) == []
    with pytest.raises(ValueError, match="NUL"):
        tdi.TextLineDataset("a\0b")
    with pytest.raises(tdi.InvalidArgumentError, match="whole records of 2 bytes"):
        missing.write_bytes(b"12345")
        len(tdi.FixedLengthRecordDataset(missing, 2))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_a_permission_error(tmp_path):
    path = tmp_path / "lines"
    path.write_text("one\n")
    path.chmod(0)
    with pytest.raises(PermissionError, match="lines"):
        list(tdi.TextLineDataset(path))


def test_damaged_compressed_data_are_named(tmp_path):
    path = tmp_path / "packed"
    packed = gzip.compress(b"".join(b"line %d\n" % i for i in range(10_000)))
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(tdi.InvalidArgumentError, match="packed: at byte .*: the compressed data end too early"):
        list(tdi.TextLineDataset(path, compression_type="GZIP"))
    iterator = iter(tdi.TextLineDataset(path, compression_type="GZIP").with_options(SKIP))
    lines = list(iterator)
    assert len(lines) > 1000 and lines == [f"line {i}" for i in range(len(lines))]
    assert iterator.stats()["skipped"] == 1
    path.write_bytes(b"no gzip")
    with pytest.raises(tdi.InvalidArgumentError, match="incorrect header"):
        list(tdi.TextLineDataset(path, compression_type="GZIP"))


def test_a_file_that_changes_during_an_epoch_is_an_error(tmp_path):
    path = tmp_path / "lines"
    path.write_text("x" * 200_000 + "\n" + "y" * 200_000 + "\nlast\n")
    for change in (lambda: os.truncate(path, 1000), lambda: path.write_text("other\n"), path.unlink):
        path.write_text("x" * 200_000 + "\n" + "y" * 200_000 + "\nlast\n")
        dataset = tdi.TextLineDataset(path).with_options(tdi.Options(num_threads=0))
        iterator = iter(dataset)
        next(iterator)
        change()
        if change == path.unlink:  # an open file stays readable
            assert len(list(iterator)) == 2
        else:
            with pytest.raises(tdi.InvalidArgumentError, match="lines: the file changed since it was indexed"):
                list(iterator)


@pytest.mark.parametrize("damage", ["cut", "length", "missing", "folder"])
def test_a_file_that_refuses_its_index_can_be_skipped_everywhere(tmp_path, damage):
    bad, good = tmp_path / "bad", tmp_path / "good"
    good.write_bytes(tf_records([b"one", b"two"]))
    if damage == "folder":
        bad.mkdir()
    elif damage != "missing":
        bad.write_bytes(tf_record(b"bad")[:13] if damage == "cut" else b"\xff" * 30)
    dataset = tdi.TFRecordDataset([bad, good])
    skipping = dataset.with_options(SKIP)
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])

    def rows(distributed):
        return [row for step in distributed for value in step.values for row in value]

    want = [b"one", b"two"]
    assert rows(strategy.distribute_dataset(skipping.batch(4))) == want
    assert rows(strategy.distribute_dataset(dataset.batch(4).with_options(SKIP))) == want
    per_worker = strategy.distribute_datasets_from_function(lambda context: skipping.batch(1))
    assert sorted(rows(per_worker)) == want
    assert "unknown" in strategy.distribute_dataset(skipping.batch(4)).explain()
    assert "an unknown number of elements, stream: skips rows that fail" in skipping.explain()
    assert skipping.cardinality() == tdi.UNKNOWN
    assert list(skipping.cache()) == sorted(skipping.shuffle(10)) == want
    assert list(tdi.DataLoader(skipping, batch_size=2)) == [want]
    iterator = iter(skipping)
    assert list(iterator) == want and iterator.stats()["skipped"] == 1

    # Without skipping, the question for the length raises the file's error before anything is read.
    early = (
        lambda: len(dataset),
        lambda: dataset.shuffle(),
        dataset.explain,
        lambda: strategy.distribute_dataset(dataset.batch(4)),
        lambda: strategy.distribute_dataset(dataset.repeat().batch(4)),
        lambda: strategy.distribute_datasets_from_function(lambda context: dataset.batch(4)),
    )
    for ask in early:
        with pytest.raises((tdi.InvalidArgumentError, OSError), match="TFRecordDataset: .*bad: "):
            ask()


@pytest.mark.parametrize("index", ["auto", False])
def test_a_file_that_shrinks_while_it_is_streamed_is_an_error(tmp_path, index):
    path = tmp_path / "fixed"

    def shrunk(*options):
        path.write_bytes(b"12345678" * 100_000)
        dataset = tdi.FixedLengthRecordDataset(path, 8, index=index)
        iterator = iter(dataset.with_options(*options) if options else dataset)
        next(iterator)
        os.truncate(path, 80)
        return iterator

    if index is False:
        with pytest.raises(tdi.InvalidArgumentError, match="fixed: .* it had 800000 bytes .*, but now ends at byte 80"):
            list(shrunk())
    iterator = shrunk(SKIP)
    assert len(list(iterator)) < 99_999
    assert iterator.stats()["skipped"] == 1


def test_a_position_beyond_the_end_of_a_file_is_an_error(tmp_path):
    path = tmp_path / "lines"
    path.write_text("one\ntwo\n")
    dataset = tdi.TextLineDataset(path, index=False)
    iterator = iter(dataset)
    assert [next(iterator), next(iterator)] == ["one", "two"]
    state = iterator.state_dict()
    os.truncate(path, 4)
    with pytest.raises(tdi.InvalidArgumentError, match="lines: the file ends before byte 8"):
        iter(dataset).load_state_dict(state)


def test_names_that_are_not_utf_8_are_shown_escaped(tmp_path):
    name = os.fsencode(tmp_path) + b"/x\xff"
    for index in ("auto", True, False):
        dataset = tdi.TextLineDataset(name, index=index)
        with pytest.raises(tdi.NotFoundError, match=r"TextLineDataset: .*/x\\xff: there is no such file"):
            list(dataset)
        assert r"/x\xff" in repr(dataset)
    assert r"/x\xff" in tdi.TextLineDataset(name, index=False).explain()
    budget = tdi.Options(on_error=tdi.Skip(max_count=0))
    with pytest.raises(ValueError, match=r"The last error: .*/x\\xff"):
        list(tdi.TextLineDataset(name).with_options(budget))
    with pytest.raises(tdi.NotFoundError, match=r"list_files: .*/x\\xff\*"):
        tdi.Dataset.list_files(name + b"*")
    os.mkdir(name)
    with pytest.raises(IsADirectoryError, match=r"/x\\xff"):
        len(tdi.TextLineDataset(name))


def test_names_that_are_not_utf_8_are_listed_as_bytes(tmp_path):
    name = os.fsencode(tmp_path) + b"/x\xff"
    with open(name, "wb") as file:
        file.write(b"line\n")
    other = tmp_path / "a"
    other.write_text("first\n")
    names = tdi.Dataset.list_files(str(tmp_path / "*"), shuffle=False)
    assert names.element_spec == tdi.StringSpec([], encoding=None)
    assert list(names) == [os.fsencode(other), name]
    assert list(tdi.TextLineDataset(names)) == list(names.flat_map(tdi.TextLineDataset)) == ["first", "line"]


def test_a_file_that_does_not_tell_its_size_is_streamed():
    for index in ("auto", False):
        assert next(iter(tdi.TextLineDataset("/proc/self/status", index=index))).startswith("Name:")
    with pytest.raises(OSError, match="only regular files that report their size can be indexed"):
        len(tdi.TextLineDataset("/proc/self/status", index=True))


def stored_index(folder, path):
    found = [name for name in os.listdir(folder) if name.endswith(".tdi-index")]
    assert len(found) == 1 and found[0].startswith("." + path.name)
    return folder / found[0]


@pytest.fixture
def large_file(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(tf_records([b"%06d" % i + b"x" * 250 for i in range(1000)]))
    return path


def test_an_index_is_stored_and_stale_or_damaged_ones_are_replaced(tmp_path, large_file):
    assert len(tdi.TFRecordDataset(large_file)) == 1000
    stored = stored_index(tmp_path, large_file)
    whole = stored.read_bytes()
    rng = random.Random(2)
    for damage in (b"", b"x" * 100, whole[:-5], *(flipped(whole, rng.randrange(len(whole))) for _ in range(20))):
        stored.write_bytes(damage)
        dataset = tdi.TFRecordDataset(large_file)
        assert len(dataset) == 1000 and next(iter(dataset.skip(999)))[:6] == b"000999"
        assert stored.read_bytes() == whole
    with open(large_file, "ab") as file:
        file.write(tf_record(b"more"))
    assert len(tdi.TFRecordDataset(large_file)) == 1001
    assert len(os.listdir(tmp_path)) == 2


def test_a_pipe_in_the_place_of_an_index_is_replaced(tmp_path, large_file):
    place = tmp_path / f".{large_file.name}.records.tdi-index"
    os.mkfifo(place)
    done = run_script(f"print(len(tdi.TFRecordDataset({str(large_file)!r})))")
    assert done.stdout == "1000\n" and place.is_file()


def test_an_index_of_a_read_only_folder_goes_to_the_cache(tmp_path, large_file, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Root may write everywhere, so a folder with the name of the index prevents writing instead.
    (tmp_path / f".{large_file.name}.records.tdi-index").mkdir()
    assert len(tdi.TFRecordDataset(large_file)) == 1000
    assert len(list((tmp_path / "cache" / "torch_distinput").iterdir())) == 1
    assert len(tdi.TFRecordDataset(large_file)) == 1000


def shown_progress(prepare: str) -> str:
    calls = "show(2, 50, 100, False); show(2, 100, 100, True)"
    code = f"from torch_distinput.datasets import _files as files; {prepare}; show = files.Progress(); {calls}"
    done = run_script(code)
    assert done.returncode == 0 and "Error" not in done.stderr
    return done.stderr


def test_progress_is_shown_for_work_that_takes_long():
    plain = shown_progress("files._tqdm_bar = lambda files: None")
    assert "indexing 2 file(s): 50 %" in plain and plain.endswith("100 %\n")


def test_progress_is_a_bar_where_there_is_tqdm():
    pytest.importorskip("tqdm")
    assert "indexing 2 file(s): 100%" in shown_progress("pass")
