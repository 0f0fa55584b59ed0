# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The programs in pages about data run, on small files of the kind that the page is about.

Programs that stand alone are in test_readme.py, those about frameworks in tests/frameworks/test_pages.py, those in C++
in tests/install/test_cpp_pages.py, and those about zero rows in test_zero_rows.py and test_torchmetrics.py.
"""

import io
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from decoders import needs_decoders
from pages import DOCS, blocks, run_blocks
from sample_files import tf_records
from test_readme import PAGES
from token_files import documents_of, write_megatron

import torch_distinput as tdi

METRIC = r"`((?:torch_distinput_)?\w+_(?:total|seconds|ready|room|left))`"


def pictures(folder: Path) -> dict:
    image = pytest.importorskip("PIL.Image")
    for number in range(4):
        path = folder / "train" / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.full((40, 50, 3), 40 * number, np.uint8)).save(path)
    return {}


@needs_decoders
def test_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "images.md", pictures(tmp_path))
    (images, labels), *rest = names["train"]
    assert images.shape == (4, 3, 224, 224) and sorted(labels.tolist()) == [0, 0, 1, 1] and rest == []


def test_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"f0": np.arange(300.0), "f1": np.arange(300.0), "label": np.arange(300)})
    for name in ("a.parquet", "b.parquet", "part-0.parquet", "part-1.parquet"):
        parquet.write_table(table, name)
    names = run_blocks(DOCS / "columns.md", {"tdi": tdi, "frame": table})
    assert sorted(x for batch in names["ds"] for x in batch["label"].tolist()) == sorted([*range(300)] * 2)


def test_tokens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.arange(20_481, dtype=np.uint16).tofile("train.bin")
    write_megatron(tmp_path / "corpus_text_document", [[part] for part in documents_of([900, 1500, 2600, 40])])
    corpus = tdi.Dataset.from_tensor_slices(torch.arange(3000).reshape(60, 50))
    names = {"files": "corpus_text_document.idx", "web": corpus, "books": corpus}
    names = run_blocks(DOCS / "tokens.md", names | {"strategy": tdi.MirroredStrategy(["cpu", "cpu"])})
    assert sum(len(inputs) for inputs, _ in names["loader"]) == 10
    packed = [row for batch in names["rows"] for row in batch["tokens"]]
    assert sum(int((row != 0).sum()) for row in packed) == 900 + 1500 + 2600 + 40
    assert next(names["steps"]) is not None and sum(names["steps"].stats().sampled) > 0


def test_records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("shards").mkdir()
    for shard in range(128):
        with tarfile.open(f"shards/train-{shard:03}.tar", "w") as archive:
            member = tarfile.TarInfo(f"a/{shard}.cls")
            member.size = len(str(shard))
            archive.addfile(member, io.BytesIO(str(shard).encode()))
    names = run_blocks(DOCS / "records.md", {})
    assert sorted(x for batch in names["ds"] for x in batch["cls"].tolist()) == list(range(128))
    assert Path("train.tfrecord").stat().st_size > len(tf_records([b""] * 1000))


def test_preprocessing(tmp_path):
    (tmp_path / "words.txt").write_text("a b\nb c\n")
    dataset = tdi.Dataset.from_tensor_slices(["a", "c", "z"]).batch(3)
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    names = {"tdi": tdi, "dataset": dataset, "strategy": strategy, "files": str(tmp_path / "words.txt")}
    names["batch"] = next(iter(strategy.distribute_dataset(dataset)))
    names = run_blocks(DOCS / "preprocessing.md", names)
    assert [part.tolist() for part in names["indices"].values] == [[1, 3], [0]]
    assert len(names["text"].get_vocabulary()) >= 3


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


ELSEWHERE = {"frameworks.md", "zero_rows.md"}
HERE = {"monitoring.md", "images.md", "columns.md", "tokens.md", "records.md", "preprocessing.md"}


def test_every_page_with_a_program_is_run():
    pages = {str(page.relative_to(DOCS)) for page in DOCS.glob("**/*.md") if blocks(page, "python")}
    assert pages == ELSEWHERE | HERE | {Path(page).name for page in PAGES if page.startswith("docs/")}


def test_the_page_of_the_api_has_every_public_name_once():
    listed = re.findall(r"^::: torch_distinput\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    elsewhere = {"__version__", "compat", "preprocessing"}  # the latter are named in the page's first lines
    assert sorted(set(listed) - {"monitoring", "typing"}) == sorted(set(tdi.__all__) - elsewhere)
    assert len(listed) == len(set(listed))
