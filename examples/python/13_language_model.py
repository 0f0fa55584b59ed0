# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A tiny language model on a packed mixture of two corpora, stopped in mid-epoch and resumed on fewer processes.

torchrun --nproc-per-node 2 examples/python/13_language_model.py

Two processes train on the first steps of an epoch; then one process loads the checkpoint and trains on the rest. Every
token is seen exactly once.
"""

import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

import torch_distinput as tdi

VOCAB, LENGTH, BATCH, STOP = 66, 48, 8, 12
END, PAD = 64, 65  # the token that ends a document, and the one in places that stay empty


def write_corpora(folder: Path) -> list[Path]:
    """Two token files: one counts up in each document, the other one down."""
    random, paths = np.random.default_rng(1), []
    for name, step, documents in (("up", 1, 160), ("down", -1, 50)):
        written = []
        for _ in range(documents):
            ramp = random.integers(END) + step * np.arange(random.integers(5, 90))
            written += [*(ramp % END), END]
        paths.append(folder / f"{name}.bin")
        np.array(written, np.uint16).tofile(paths[-1])
    return paths


def batches(paths: list[Path]) -> tdi.Dataset:
    corpora = [
        tdi.TokenDataset(path, np.uint16, None, document_boundary=END, vocab_size=VOCAB).shuffle(seed=1)
        for path in paths
    ]
    mixed = tdi.Dataset.sample_from_datasets(corpora, weights=[0.75, 0.25], seed=2)
    return mixed.pack(LENGTH, strategy="best_fit", window=64, pad_id=PAD).batch(BATCH)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(VOCAB, 32), torch.nn.Embedding(LENGTH, 32)
        self.layer = torch.nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(32, VOCAB)

    def forward(self, row: dict) -> torch.Tensor:
        documents = (row["position_ids"] == 0).cumsum(1)  # no token attends to another document, or to a later token
        unseen = (documents[:, :, None] != documents[:, None]) | torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        hidden = self.tokens(row["tokens"]) + self.positions(row["position_ids"])
        return self.head(self.layer(hidden, src_mask=unseen.repeat_interleave(2, 0)))


def train(
    strategy: tdi.Strategy, paths: list[Path], checkpoint: Path, steps: int | None
) -> tuple[Counter, float, dict]:
    """Trains from the checkpoint, if there is one, for `steps` steps or to the end of the epoch."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    data = iter(strategy.distribute_dataset(batches(paths)))
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        data.load_state_dict(saved["data"])
    seen, loss = Counter(), torch.zeros(())
    for batch in islice(data, steps):
        row = {name: strategy.local_results(leaf)[0] for name, leaf in batch.items()}  # the part of this process
        seen.update(row["tokens"][row["tokens"] != PAD].tolist())
        optimizer.zero_grad()
        counts = row["loss_mask"][:, 1:]
        total = torch.tensor(float(counts.sum()))
        if dist.is_initialized():
            dist.all_reduce(total)  # rows hold different numbers of tokens that count
        losses = cross_entropy(model(row)[:, :-1].transpose(1, 2), row["tokens"][:, 1:], reduction="none")
        loss = (losses * counts).sum() / total
        loss.backward()
        for parameter in model.parameters() if dist.is_initialized() else ():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "data": data.state_dict()}
    if not dist.is_initialized() or dist.get_rank() == 0:
        torch.save(saved, checkpoint)
    return seen, float(loss.detach()), data.stats()


def main() -> None:
    dist.init_process_group("gloo")
    folder = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder)
    checkpoint = Path(folder[0]) / "checkpoint.pt"
    if dist.get_rank() == 0:
        write_corpora(Path(folder[0]))
    dist.barrier()
    paths = [Path(folder[0]) / "up.bin", Path(folder[0]) / "down.bin"]
    seen, _, _ = train(tdi.MultiWorkerMirroredStrategy(), paths, checkpoint, STOP)
    everywhere: list = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, seen)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dist.barrier()  # torch aborts a process that ends while gloo lets go of the tensors of its last collective
    dist.destroy_process_group()
    if rank > 0:
        return
    rest, loss, stats = train(tdi.OneDeviceStrategy("cpu"), paths, checkpoint, None)
    counted = sum(everywhere, rest)
    there = Counter(np.concatenate([np.fromfile(path, np.uint16) for path in paths]).tolist())
    print(f"{STOP} steps on {ranks} processes, the rest of the epoch on 1; the last loss was {loss:.2f}")
    print(f"documents drawn from the corpora: {stats.sampled}")
    print(f"every one of the {sum(there.values())} tokens was seen once: {counted == there}")


if __name__ == "__main__":
    main()
