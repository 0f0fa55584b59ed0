# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A script for torch's DataLoader, run twice: as it is, and with another import line."""

import time

import torch

VERSIONS = {
    "torch": "from torch.utils.data import DataLoader",
    "torch_distinput": "from torch_distinput import DataLoader",
}

SCRIPT = """
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset, random_split

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
digits = TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels), torch.arange(len(labels)))
train, test = random_split(digits, [0.8, 0.2])
train_loader = DataLoader(train, batch_size=32, shuffle=True)
test_loader = DataLoader(test, batch_size=100)

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
seen = []
for epoch in range(8):
    for x, y, row in train_loader:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        seen += row.tolist()
with torch.no_grad():
    right = sum((model(x).argmax(1) == y).sum().item() for x, y, row in test_loader)
accuracy = right / len(test)
"""


def loading_us(namespace: dict) -> float:
    """Microseconds that a batch of the script's train_loader takes when nothing is done with it."""
    start = time.perf_counter()
    for _ in range(5):
        for _ in namespace["train_loader"]:
            pass
    return (time.perf_counter() - start) / (5 * len(namespace["train_loader"])) * 1e6


def main() -> None:
    torch.set_num_threads(1)
    runs = {}
    for name, import_line in VERSIONS.items():
        namespace: dict = {}
        exec(import_line + SCRIPT, namespace)
        runs[name] = namespace
        print(f"{import_line:45} accuracy {namespace['accuracy']:.3f}, {loading_us(namespace):6.1f} us to load a batch")
    torchs, ours = runs.values()
    print(f"the same rows, as often: {sorted(torchs['seen']) == sorted(ours['seen'])}")
    leaves = [[leaf for batch in run["test_loader"] for leaf in batch] for run in runs.values()]
    print(f"the same test batches: {all(map(torch.equal, *leaves))}")
    print(ours["train_loader"].explain())


if __name__ == "__main__":
    main()
