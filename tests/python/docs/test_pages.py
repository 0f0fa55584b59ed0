# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The programs in pages about data run as they stand, in an empty folder, on the small files that they make.

Programs that stand alone are in test_readme.py, those about frameworks in tests/frameworks/test_pages.py, those about
launchers in tests/clusters, those in C++ in tests/install/test_cpp_pages.py, those about object stores in
remote/test_remote_page.py, and those about zero rows in distribute/test_zero_rows.py and test_torchmetrics.py.
"""

import re
from pathlib import Path

import pytest
from decoders import needs_decoders
from pages import PAGES, blocks, run_blocks
from places import DOCS
from sample_files import tf_records

import torch_distinput as tdi

METRIC = r"`((?:torch_distinput_)?\w+_(?:total|seconds|ready|room|left))`"


@needs_decoders
def test_images(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "images.md", {})
    (images, labels), *rest = names["train"]
    assert images.shape == (4, 3, 224, 224) and sorted(labels.tolist()) == [0, 0, 1, 1] and rest == []


def test_tables(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "columns.md", {})
    assert sorted(x for batch in names["ds"] for x in batch["label"].tolist()) == sorted([*range(300)] * 2)


def test_table_formats(tmp_path, monkeypatch):
    for package in ("pyarrow", "deltalake"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "table_formats.md", {})
    assert sorted(x for batch in names["animals"] for x in batch["legs"].tolist()) == [2, 4, 6]
    assert "DeltaDataset(version=0)" in str(names["animals"].explain())


def test_tokens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "tokens.md", {})
    assert sum(len(inputs) for inputs, _ in names["loader"]) == 10
    packed = [row for batch in names["rows"] for row in batch["tokens"]]
    assert sorted(int(token) for row in packed for token in row[row != 0]) == list(range(1, 5041))
    web, books = names["steps"].stats().sampled
    assert 0.7 < web / (web + books) < 0.9


def test_records(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "records.md", {})
    assert sorted(x for batch in names["ds"] for x in batch["cls"].tolist()) == list(range(4))
    assert Path("train.tfrecord").stat().st_size > len(tf_records([b""] * 1000))


def test_shuffling(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "shuffling.md", {})
    assert sorted(x for batch in names["loader"] for x in batch["x"].tolist()) == list(range(20_000))
    assert "200 blocks of 100.0 rows in 64 lanes, windows of 2 blocks" in str(names["rows"].explain())


def test_executors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "executors.md", {})
    assert names["loader"].stats().workers.answers >= 32


def test_preprocessing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "preprocessing.md", {})
    assert [part.tolist() for part in names["indices"].values] == [[1, 3], [0]]
    assert len(names["text"].get_vocabulary()) >= 3


def test_members(tmp_path, monkeypatch):
    for name, value in {"MASTER_ADDR": "localhost", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    names = run_blocks(DOCS / "members.md", {"checkpoint": tmp_path / "checkpoint.pt"})
    assert int(names["step"]) == 2 * len(names["train"])
    assert (names["in_order"].committed_epochs, names["in_order"].committed_steps) == (2, 2 * 3)
    assert (names["train"].committed_steps, names["check"].committed_steps) == (2 * 13, 2 * 4)
    assert names["checkpoint"].exists()


def test_monitoring(tmp_path, monkeypatch):
    for package in ("tqdm", "rich", "tensorboard", "prometheus_client"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "monitoring.md", {})
    names["server"].shutdown()
    names["server"].server_close()
    names["thread"].join()
    text = names["prometheus_client"].generate_latest().decode()
    metrics = [name for line in (DOCS / "monitoring.md").read_text().splitlines() for name in re.findall(METRIC, line)]
    assert len(metrics) >= 15
    for name in metrics:
        assert f"torch_distinput_{name.removeprefix('torch_distinput_')}" in text, name
    assert list((tmp_path / "runs/first").iterdir())


ELSEWHERE = {"clusters.md", "frameworks.md", "remote.md", "zero_rows.md"}
HERE = {
    "monitoring.md",
    "images.md",
    "members.md",
    "columns.md",
    "executors.md",
    "table_formats.md",
    "tokens.md",
    "records.md",
    "preprocessing.md",
    "shuffling.md",
}


def test_every_page_with_a_program_is_run():
    pages = {str(page.relative_to(DOCS)) for page in DOCS.glob("**/*.md") if blocks(page, "python")}
    assert pages == ELSEWHERE | HERE | {Path(page).name for page in PAGES if page.startswith("docs/")}


def test_the_page_of_the_api_has_every_public_name_once():
    listed = re.findall(r"^::: torch_distinput\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    elsewhere = {"__version__", "compat", "preprocessing"}  # the latter are named in the page's first lines
    assert sorted(set(listed) - {"monitoring", "typing"}) == sorted(set(tdi.__all__) - elsewhere)
    assert len(listed) == len(set(listed))


def test_the_text_of_the_first_image_stays_in_its_boxes():
    fonts = pytest.importorskip("PIL.ImageFont")
    try:
        plain, bold = (fonts.truetype(name, 130) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf"))
    except OSError:
        pytest.skip("DejaVu Sans is not installed")
    drawing = (DOCS / "how_it_works.svg").read_text()
    boxes = [
        [float(x) for x in box]
        for box in re.findall(r'<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', drawing)
    ]
    texts = re.findall(r'<text x="(\d+)" y="(\d+)"( font-weight="bold")?>(.*?)</text>', drawing)
    inside = 0
    for x, y, is_bold, text in texts:
        left, base = float(x), float(y)
        right = left + (bold if is_bold else plain).getlength(text) / 10  # drawn in 13 px
        around = [box for box in boxes if box[0] <= left <= box[0] + box[2] and box[1] <= base <= box[1] + box[3]]
        inside += len(around)
        assert all(right <= box[0] + box[2] - 2 for box in around), text
    assert inside == 19
