# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Metrics over two processes are those over the whole data, also where one of them has no rows left."""

import re
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from ranks import returned, run_ranks
from torch.utils.data import TensorDataset

import torch_distinput as tdi
from torch_distinput.distribute._input_options import TAILS

pytestmark = pytest.mark.skipif(find_spec("torchmetrics") is None, reason="torchmetrics is not installed")

CLASSES = 3


def rows_of(size):
    generator = torch.Generator().manual_seed(3)
    scores = torch.rand(size, CLASSES, generator=generator).softmax(1)
    labels = torch.randint(0, CLASSES, (size,), generator=generator)
    return scores, labels


def make_metrics():
    from torchmetrics import MetricCollection, classification

    return MetricCollection(
        [
            classification.MulticlassAccuracy(CLASSES),
            classification.MulticlassF1Score(CLASSES),
            classification.MulticlassAUROC(CLASSES),
            classification.MulticlassConfusionMatrix(CLASSES),
        ],
        compute_groups=False,
    )


def evaluated(rank, size, tail, check):
    warnings.simplefilter("ignore")
    loader = tdi.DataLoader(TensorDataset(*rows_of(size)), 32, distributed=True, tail=tail)
    metrics, sizes = make_metrics(), []
    for scores, labels in loader:
        sizes.append(len(labels))
        if not check or len(labels):
            metrics.update(scores, labels)
    return sizes, metrics.compute()


def assert_exact(size, ranks):
    from torchmetrics.functional import classification

    scores, labels = rows_of(size)
    right = scores.argmax(1) == labels
    recalls = [right[labels == label].float().mean() for label in range(CLASSES)]
    for sizes, found in ranks:
        assert len(sizes) == len(ranks[0][0])
        assert found["MulticlassConfusionMatrix"].sum() == size
        assert found["MulticlassAccuracy"].item() == pytest.approx(torch.stack(recalls).mean().item())
        f1_score = classification.multiclass_f1_score(scores, labels, CLASSES)
        assert found["MulticlassF1Score"].item() == pytest.approx(f1_score.item())
        assert found["MulticlassAUROC"].item() == pytest.approx(
            classification.multiclass_auroc(scores, labels, CLASSES).item()
        )


def test_a_rank_that_leaves_out_its_empty_part_changes_no_metric():
    ranks = returned(run_ranks(evaluated, 2, 961, "zero_rows", True))
    assert [sizes[-1] for sizes, _ in ranks] == [1, 0] and len(ranks[0][0]) == 16
    assert_exact(961, ranks)


def test_an_empty_part_is_an_error_of_a_metric_that_takes_none():
    with_rows, without = run_ranks(evaluated, 2, 961, "zero_rows", False)
    assert "cannot reshape tensor of 0 elements" in str(without)
    assert isinstance(with_rows, Exception)


@pytest.mark.skipif("merge" not in TAILS, reason="needs the tail that joins the last two steps")
def test_joined_last_steps_need_no_check():
    ranks = returned(run_ranks(evaluated, 2, 961, "merge", False))
    assert [sizes[-1] for sizes, _ in ranks] == [33, 32] and len(ranks[0][0]) == 15
    assert_exact(961, ranks)


# What docs/zero_rows.md says of the classes.

PAGE = Path(__file__).resolve().parents[2] / "docs" / "zero_rows.md"


def batch_for(name, size):
    """Arguments of `update`."""
    if name in ("MeanMetric", "SumMetric", "MaxMetric", "MinMetric", "CatMetric"):
        return (torch.rand(size),)
    if name == "MulticlassExactMatch":
        return torch.randint(0, CLASSES, (size, 4)), torch.randint(0, CLASSES, (size, 4))
    if name.startswith("Multiclass"):
        return torch.rand(size, CLASSES).softmax(1), torch.randint(0, CLASSES, (size,))
    if name.startswith("Multilabel"):
        return torch.rand(size, CLASSES), torch.randint(0, 2, (size, CLASSES))
    if name.startswith("Binary"):
        return torch.rand(size), torch.randint(0, 2, (size,))
    if name in ("PeakSignalNoiseRatio", "StructuralSimilarityIndexMeasure"):
        return torch.rand(size, 3, 16, 16), torch.rand(size, 3, 16, 16)
    if name == "Perplexity":
        return torch.rand(size, 5, 7), torch.randint(0, 7, (size, 5))
    if name == "WordErrorRate":
        return ["a b"] * size, ["a c"] * size
    if name == "RetrievalMAP":
        return torch.rand(size), torch.randint(0, 2, (size,)), torch.zeros(size, dtype=torch.long)
    if name in ("CosineSimilarity", "KLDivergence"):
        return torch.rand(size, 3).softmax(1), torch.rand(size, 3).softmax(1)
    return torch.rand(size), torch.rand(size)


def make_metric(name):
    import torchmetrics
    from torchmetrics import classification, regression, retrieval, text

    rooms = (torchmetrics, classification, regression, retrieval, text, torchmetrics.image)
    kind = next(getattr(room, name) for room in rooms if hasattr(room, name))
    if name.startswith(("Multiclass", "Multilabel")):
        return kind(CLASSES)
    return kind(data_range=1.0) if name in ("PeakSignalNoiseRatio", "StructuralSimilarityIndexMeasure") else kind()


def leaves(value):
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, (list, tuple)) else [value]


def behaviour(name, call):
    torch.manual_seed(0)
    metric, whole = make_metric(name), batch_for(name, 8)
    metric.update(*whole)
    expected = leaves(metric.compute())
    metric.reset()
    try:
        call(metric)(*whole)
        call(metric)(*batch_for(name, 0))
    except (RuntimeError, IndexError, ValueError):
        return "fails"
    found = leaves(metric.compute())
    same = all(torch.allclose(a.float(), b.float(), equal_nan=True) for a, b in zip(found, expected, strict=True))
    return "same" if same else "wrong"


def classes_in_docs():
    text = PAGE.read_text().partition("<!-- torchmetrics: begin -->")[2].partition("<!-- torchmetrics: end -->")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)[2:]
    return [(name, update, forward) for names, update, forward in rows for name in re.findall(r"\w+", names)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "update", "forward"), classes_in_docs())
def test_classes_do_what_the_page_says(name, update, forward):
    assert behaviour(name, lambda metric: metric.update) == update
    assert behaviour(name, lambda metric: metric) == forward
