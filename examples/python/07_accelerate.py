# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Accelerate with another import line: every row once, an exact metric, and a stop in the middle of an epoch.

accelerate launch --cpu --num-processes 2 examples/python/07_accelerate.py
"""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, set_seed
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from torch_distinput import DataLoader  # instead of torch.utils.data

ROWS, TESTS = 1001, 203


def data(rows: int) -> TensorDataset:
    x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows))
    return TensorDataset(x, (x.sum(1) > 0).long(), torch.arange(rows))


def main() -> None:
    set_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    train, test = DataLoader(data(ROWS), batch_size=32, shuffle=True), DataLoader(data(TESTS), batch_size=32)
    model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)
    folder = broadcast_object_list([tempfile.mkdtemp()])[0]
    stopped = False
    for epoch in range(6):
        seen: list[int] = []
        while len(seen) < ROWS:
            for step, (x, y, row) in enumerate(train):
                with accelerator.accumulate(model):
                    accelerator.backward(cross_entropy(model(x), y))
                    optimizer.step()
                    optimizer.zero_grad()
                seen += accelerator.gather_for_metrics(row).tolist()
                if (epoch, step, stopped) == (3, 5, False):  # a job that ends here, and another one that goes on
                    accelerator.save_state(folder)
                    accelerator.wait_for_everyone()
                    accelerator.load_state(folder)
                    stopped = True
                    break
        assert sorted(seen) == list(range(ROWS))
        accelerator.print(f"epoch {epoch}: {len(seen)} of {ROWS} rows, each once, in {len(train)} steps")
    right, order = [], []
    with torch.no_grad():
        for x, y, row in test:
            hits, rows = accelerator.gather_for_metrics((model(x).argmax(1) == y, row))
            right += hits.tolist()
            order += rows.tolist()
    assert order == list(range(TESTS)) and stopped
    accelerator.print(f"evaluated {len(right)} of {TESTS} test rows, accuracy {sum(right) / TESTS:.3f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
