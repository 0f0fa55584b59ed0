# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer with one more base class: every row once in training, evaluation and after a resume.

torchrun --nproc-per-node 2 examples/python/08_transformers.py
"""

import tempfile

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from torch.nn.functional import cross_entropy
from transformers import EvalPrediction, Trainer, TrainingArguments

from torch_distinput.frameworks.transformers import DistributedInputMixin

ROWS, TESTS = 203, 97


class MyTrainer(DistributedInputMixin, Trainer):
    pass


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.seen = torch.nn.Linear(8, 2), []

    def forward(self, x: torch.Tensor, row: torch.Tensor, labels: torch.Tensor) -> dict:
        if self.training:
            self.seen += row.tolist()
        logits = self.linear(x)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def data(rows: int) -> list[dict]:
    x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows))
    return [{"x": x[row], "row": row, "labels": int(x[row].sum() > 0)} for row in range(rows)]


def accuracy(told: EvalPrediction) -> dict:
    return {"rows": len(told.label_ids), "right": (told.predictions.argmax(1) == told.label_ids).mean()}


def trainer(folder: str) -> MyTrainer:
    settings = {"num_train_epochs": 4, "learning_rate": 0.1, "save_steps": 20, "seed": 1}
    arguments = TrainingArguments(folder, use_cpu=True, report_to=[], disable_tqdm=True, **settings)
    return MyTrainer(
        Model(),
        arguments,
        train_dataset=data(ROWS),
        eval_dataset=data(TESTS),
        compute_metrics=accuracy,
    )


def of_all(seen: list[int]) -> list[int]:
    return sorted(gather_object(seen))


def main() -> None:
    PartialState(cpu=True)  # joins the processes
    folder = broadcast_object_list([tempfile.mkdtemp()])[0]
    first = trainer(folder)
    first.train()
    assert of_all(first.model.seen) == sorted([*range(ROWS)] * 4)
    resumed = trainer(folder)  # a job that was stopped after 20 steps, in the middle of an epoch
    resumed.train(resume_from_checkpoint=f"{folder}/checkpoint-20")
    assert resumed.model.seen == first.model.seen[-len(resumed.model.seen) :]
    told = first.evaluate()
    assert told["eval_rows"] == TESTS
    if first.is_world_process_zero():
        print(f"4 epochs of {ROWS} rows, each row once an epoch; the resumed run saw the same rows from step 20 on")
        print(f"evaluated {told['eval_rows']} of {TESTS} test rows, accuracy {told['eval_right']:.3f}")
    PartialState().destroy_process_group()


if __name__ == "__main__":
    main()
