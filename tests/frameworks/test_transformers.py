# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer on two real processes: training, evaluation, prediction and resume read every row once."""

import glob
import os

import pytest
import torch
from launched import launch
from ranks import run_example
from torch import nn
from torch.utils import data

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

SIZE, TESTS, BATCH = 203, 41, 8


class Rows(data.Dataset):
    """Row i is the number i; as a sentence it has i % 7 + 1 words."""

    def __init__(self, size, sentences=False):
        self.size, self.sentences = size, sentences

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= self.size:  # some samplers iterate
            raise IndexError(index)
        row = {"x": torch.tensor([float(index)]), "labels": torch.tensor(index % 3), "dropped": index}
        return row | ({"input_ids": [0] * (index % 7 + 1)} if self.sentences else {})


class Stream(data.IterableDataset):
    def __iter__(self):
        return (Rows(SIZE)[index] for index in range(SIZE))


class Model(nn.Module):
    """Refuses parts of few rows, as attention does those of none; notes the rows that it is trained on."""

    def __init__(self):
        super().__init__()
        self.linear, self.seen = nn.Linear(1, 3), []

    def forward(self, x, labels=None):
        assert len(x) > 0
        if self.training:
            self.seen.append(x[:, 0].int().tolist())
        logits = self.linear(x / SIZE)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": torch.cat([logits, x], 1)}


def collate(rows):
    return {name: torch.stack([row[name] for row in rows]) for name in ("x", "labels")}


def trainer(folder, train=None, test=None, metrics=None, **arguments):
    from torch_distinput.frameworks.transformers import DistributedInputMixin

    class MyTrainer(DistributedInputMixin, transformers.Trainer):
        pass

    defaults = {"num_train_epochs": 2, "save_strategy": "no", "per_device_train_batch_size": BATCH, "seed": 3}
    settings = transformers.TrainingArguments(
        folder, use_cpu=True, report_to=[], disable_tqdm=True, per_device_eval_batch_size=BATCH, **defaults | arguments
    )
    torch.manual_seed(1)
    return MyTrainer(
        Model(), settings, train_dataset=train, eval_dataset=test, compute_metrics=metrics, data_collator=collate
    )


def train(rank, folder, dataset, arguments, resume=False):
    run = trainer(folder, dataset, **arguments)
    run.train(resume_from_checkpoint=resume or None)
    return run.model.seen, run.state.global_step


def check(by_rank, size=SIZE, epochs=2):
    """Of both ranks' steps: equal numbers, and every row once an epoch."""
    (mine, steps), (others, same) = by_rank
    assert len(mine) == len(others) and steps == same
    each = len(mine) // epochs
    for epoch in range(epochs):
        part = slice(epoch * each, (epoch + 1) * each)
        assert sorted(row for step in mine[part] + others[part] for row in step) == list(range(size))
    return mine, others


@pytest.mark.parametrize("size", [SIZE, 12 * 2 * BATCH + 1])  # the one row left over is joined to the step before
def test_training_sees_every_row_once_an_epoch(tmp_path, size):
    mine, _ = check(launch(train, str(tmp_path), Rows(size), {}), size)
    assert mine[: len(mine) // 2] != mine[len(mine) // 2 :]


def test_gradient_accumulation_and_workers_keep_the_rows(tmp_path):
    by_rank = launch(train, str(tmp_path), Rows(SIZE), {"gradient_accumulation_steps": 3, "dataloader_num_workers": 1})
    check(by_rank)
    assert by_rank[0][1] == 2 * 5  # 13 steps an epoch


def test_the_last_short_batch_is_dropped_when_the_arguments_say_so(tmp_path):
    (mine, _), (others, _) = launch(train, str(tmp_path), Rows(SIZE), {"dataloader_drop_last": True})
    assert {len(step) for step in mine + others} == {BATCH} and len(mine) == len(others) == 2 * (SIZE // 16)


def test_sentences_are_grouped_by_length(tmp_path):
    arguments = {"train_sampling_strategy": "group_by_length", "remove_unused_columns": False}
    mine, others = check(launch(train, str(tmp_path), Rows(SIZE, sentences=True), arguments))
    spreads = [max(row % 7 for row in step) - min(row % 7 for row in step) for step in mine + others]
    assert sum(spreads) / len(spreads) < 2


def test_a_stream_is_shared(tmp_path):
    (mine, _), (others, _) = launch(train, str(tmp_path), Stream(), {"max_steps": 13})
    assert sorted(row for step in mine + others for row in step) == list(range(SIZE))


@pytest.mark.parametrize("strategy", ["random", "group_by_length"])
def test_a_checkpoint_resumes_in_mid_epoch(tmp_path, strategy):
    arguments = {"save_strategy": "steps", "save_steps": 5, "gradient_accumulation_steps": 2}
    arguments |= {"train_sampling_strategy": strategy, "remove_unused_columns": False}
    dataset = Rows(SIZE, sentences=True)
    whole = launch(train, str(tmp_path), dataset, arguments)
    for checkpoint in sorted(glob.glob(os.path.join(tmp_path, "checkpoint-*"))):
        done = int(checkpoint.split("-")[-1])
        resumed = launch(train, str(tmp_path), dataset, arguments, checkpoint)
        for (seen, steps), (again, same) in zip(whole, resumed):
            # An epoch has 13 steps; the last one makes an update alone.
            passed = 13 * (done // 7) + 2 * (done % 7)
            assert again == seen[passed:] and steps == same


def evaluate(rank, folder, size):
    told = []

    def metrics(prediction):
        logits, labels = prediction.predictions, prediction.label_ids
        told.append((logits[:, 3].astype(int).tolist(), labels.tolist()))
        return {"right": float((logits[:, :3].argmax(1) == labels).mean())}

    run = trainer(folder, Rows(SIZE), Rows(size), metrics)
    before = run.evaluate()
    predicted = run.predict(Rows(TESTS)).predictions[:, 3].astype(int).tolist()
    with torch.no_grad():
        every = collate([Rows(size)[index] for index in range(size)])
        logits = run.model.eval()(**every)["logits"][:, :3]
        right = (logits.argmax(1) == every["labels"]).float().mean().item()
        loss = nn.functional.cross_entropy(logits, every["labels"]).item()
    return told[0], before, predicted, right, loss


@pytest.mark.parametrize("size", [TESTS, 48, 49])
def test_metrics_are_those_of_every_row_in_order(tmp_path, size):
    for (rows, labels), before, predicted, right, loss in launch(evaluate, str(tmp_path), size):
        assert rows == list(range(size)) and labels == [row % 3 for row in rows]
        assert predicted == list(range(TESTS))
        assert before["eval_right"] == pytest.approx(right) and before["eval_loss"] == pytest.approx(loss, rel=1e-5)


def test_the_example_counts_every_row():
    output = run_example("08_transformers.py", world=2)
    assert "4 epochs of 203 rows, each row once an epoch" in output
    assert "evaluated 97 of 97 test rows" in output
