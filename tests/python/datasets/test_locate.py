# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where `locate` says that a row lies, there it is read."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numbered_pipelines import CHAINS, NUMBER, Sources, has_random_access, rows
from remote_sources import SOURCES, elements

import torch_distinput as tdi

# The first file has a row: some formats learn the type of rows from it.
SIZES = st.builds(lambda first, rest: [first, *rest], st.integers(1, 9), st.lists(st.integers(0, 9), max_size=3))


def written(folder: Path, kind: str, sizes: list[int]) -> list[str]:
    """Files with as many rows; their names."""
    first, paths = 0, [folder / f"{number}.{kind}" for number in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        SOURCES[kind].write(path, range(first, first + size))
        first += size
    return [str(path) for path in paths]


def lines(folder: Path, name: str, texts: list[str]) -> str:
    path = folder / name
    path.write_text("".join(text + "\n" for text in texts))
    return str(path)


class FilesOfNumbers(Sources):
    """Each source reads its numbers from two files."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.firsts = folder, []

    def next(self, count: int) -> tdi.Dataset:
        first, self.rows = self.rows, self.rows + count
        self.firsts.append(first)
        names = []
        for begin, end in ((first, first + count // 3), (first + count // 3, self.rows)):
            names.append(str(self.folder / f"{len(self.firsts)}-{len(names)}.npy"))
            np.save(names[-1], np.arange(begin, end))
        return tdi.NumpyDataset(names)


@pytest.mark.parametrize("kind", sorted(SOURCES))
@settings(max_examples=10)
@given(sizes=SIZES)
def test_a_row_of_a_source_is_the_record_of_the_file(kind, sizes):
    with tempfile.TemporaryDirectory() as folder:
        names = written(Path(folder), kind, sizes)
        dataset = SOURCES[kind].open(names)
        alone = {name: elements(SOURCES[kind].open([name])) for name, size in zip(names, sizes, strict=True) if size}
        places = dataset.locate(0, range(sum(sizes)))
        assert [alone[place.file][place.record] for place in places] == elements(dataset)
        assert {place.source for place in places} == {0}


def test_an_image_is_the_only_record_of_its_file(tmp_path):
    for name in ("a/2.png", "a/1.png", "b/0.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    dataset = tdi.ImageFolder(tmp_path)
    places = dataset.shuffle(seed=1).locate(0, range(3))
    assert [(Path(place.file).read_bytes(), place.record) for place in places] == [(data, 0) for data, _ in dataset]


@settings(max_examples=60)
@given(CHAINS, NUMBER, st.integers(0, 2))
def test_rows_of_a_pipeline_lie_in_the_files_of_its_sources(chain, batch, epoch):
    with tempfile.TemporaryDirectory() as folder:
        sources = FilesOfNumbers(Path(folder))
        dataset = rows(chain, sources).batch(1 + batch)
        assume(has_random_access(dataset))
        for row, place in enumerate(dataset.locate(epoch, range(sources.rows))):
            assert np.load(place.file)[place.record] == row
            assert place.source == np.searchsorted(sources.firsts, row, "right") - 1


@given(st.integers(1, 7), st.integers(1, 7), NUMBER)
def test_rows_side_by_side_lie_in_their_own_sources(left, right, op):
    with tempfile.TemporaryDirectory() as folder:
        sources = FilesOfNumbers(Path(folder))
        parts = {"one": sources.next(left).shuffle(seed=op), "other": (sources.next(right), sources.next(right))}
        zipped = tdi.Dataset.zip(parts).shuffle(seed=2).map(lambda row: row)
        ledger = zipped._native.ledger(0)
        for step, element in enumerate(zipped):
            places = zipped.locate(0, ledger.rows(step))
            assert [int(np.load(place.file)[place.record]) for place in places] == [
                int(element["one"]),
                *map(int, element["other"]),
            ]
            assert [place.source for place in places] == [0, 1, 2]


def test_an_input_that_is_never_drawn_keeps_its_number(tmp_path):
    sources = FilesOfNumbers(tmp_path)
    first, stream, last = sources.next(3), tdi.Dataset.from_generator(lambda: iter([]), None), sources.next(4)
    mixture = tdi.Dataset.sample_from_datasets([first, stream, last], [1, 0, 1], seed=1)
    assert [place.source for place in mixture.locate(0, range(7))] == [0] * 3 + [2] * 4


def test_selected_rows_are_numbered_by_their_places(tmp_path):
    names = [lines(tmp_path, f"{number}.txt", ["a", "b", "c"]) for number in range(2)]
    selected = tdi.TextLineDataset(names)._native.select(torch.tensor([4, 0, 4]))
    assert selected.ledger(0).locate([0, 1, 2]) == [
        (0, names[1].encode(), 1),
        (0, names[0].encode(), 0),
        (0, names[1].encode(), 1),
    ]


def test_rows_without_files_are_numbered_in_their_source():
    dataset = tdi.Dataset.range(3).concatenate(tdi.Dataset.from_tensor_slices(torch.arange(5))).shuffle()
    assert dataset.locate(0, [2, 4, 7]) == [(0, None, 2), (1, None, 1), (1, None, 4)]


def test_rows_of_files_in_a_drawn_order_are_those_of_the_epoch(tmp_path):
    for number in range(6):
        lines(tmp_path, f"{number}.txt", [f"{number}-{record}" for record in range(number)])
    files = tdi.Dataset.list_files(str(tmp_path / "*.txt"), seed=3)
    dataset = tdi.TextLineDataset(files).shuffle(seed=1)
    orders = set()
    for epoch in range(3):
        read = list(dataset._native.iterate(epoch=epoch))
        ledger = dataset._native.ledger(epoch)
        places = dataset.locate(epoch, [row for step in range(15) for row in ledger.rows(step)])
        assert [f"{Path(place.file).stem}-{place.record}" for place in places] == read
        orders.add(tuple(place.file for place in dataset.locate(epoch, range(15))))
    assert len(orders) > 1
    with pytest.raises(ValueError, match="repeat: each round reads the files in an order of its own"):
        dataset.repeat(2).locate(0, [1])
    kept = tdi.TextLineDataset(files).cache().repeat(2)
    assert kept.locate(5, range(15)) == tdi.TextLineDataset(files).locate(0, range(15))


@pytest.mark.parametrize("distributed", [None, True])
def test_rows_that_a_loader_names_are_located(tmp_path, distributed):
    names = [lines(tmp_path, f"{number}.txt", [f"{number}-{record}" for record in range(5)]) for number in range(4)]
    dataset = tdi.TextLineDataset(names).shuffle()
    loader = tdi.DataLoader(dataset, batch_size=3, distributed=distributed)
    for epoch in range(2):
        for step, batch in enumerate(loader):
            places = dataset.locate(epoch, loader.rows_of(epoch, step), loader)
            assert [f"{Path(place.file).stem}-{place.record}" for place in places] == batch
        loader.exclude([epoch])


def test_names_that_are_not_utf_8_open_the_file(tmp_path):
    name = bytes(tmp_path) + b"/\xff.txt"
    with open(name, "wb") as file:
        file.write(b"one\ntwo\n")
    (place,) = tdi.TextLineDataset([name]).locate(0, [1])
    with open(place.file, encoding="utf-8") as file:
        assert file.read().splitlines()[place.record] == "two"


def test_rows_are_located_without_reading_them(tmp_path):
    pytest.importorskip("pyarrow")
    name = lines(tmp_path, "rows.csv", ["i", *map(str, range(9))])
    dataset = tdi.CsvDataset([name]).map(lambda row: 1 / 0)
    assert dataset.locate(0, [8]) == [(0, name, 8)]


@pytest.mark.parametrize("row", [5, 2**40])
def test_a_number_that_no_row_has_is_refused(row):
    with pytest.raises(IndexError, match=f"`row` must be at least 0 and less than 5, but is {row}"):
        tdi.Dataset.range(5).locate(0, [1, row])


def test_wrong_arguments_are_refused():
    dataset = tdi.Dataset.range(3)
    with pytest.raises(ValueError, match="locate: `epoch` must be at least 0, but is -1"):
        dataset.locate(-1, [0])
    with pytest.raises(TypeError, match="locate: `rows` must be an int, but is 'a'"):
        dataset.locate(0, ["a"])
    with pytest.raises(ValueError, match="locate: `loader` must be a loader of this dataset"):
        dataset.locate(0, [1], tdi.DataLoader(tdi.Dataset.range(3)))
    with pytest.raises(ValueError, match="`filter` has no random access"):
        dataset.filter(lambda row: row > 1).map(lambda row: row).locate(0, [1])
