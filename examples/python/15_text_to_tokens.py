# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Texts in JSON lines to a tiny language model: tokenized in training, mixed, packed, on 3, then 2, then 5 processes.

torchrun --nproc-per-node 3 examples/python/15_text_to_tokens.py --folder run --steps 8
torchrun --nproc-per-node 2 examples/python/15_text_to_tokens.py --folder run --steps 8
torchrun --nproc-per-node 5 examples/python/15_text_to_tokens.py --folder run

Each run goes on where the last one stopped. The shares of the two corpora change at a step, in the middle of the second
run. The lengths of all texts in tokens are counted once and stored, so that packed rows have random access: each
process reads and tokenizes what its own rows hold. The run that ends the epoch counts the documents that all of them
saw, and draws the shares of the mixture and what each process had to compute (with matplotlib). `--texts FILE FILE`
takes JSON lines with the key "text" instead of those that the program makes, `--tokenizer FILE` a tokenizer.json of
Hugging Face's instead of one token for each byte.
"""

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import torch_distinput as tdi

SCHEDULE = [(0, [0.9, 0.1]), (12, [0.5, 0.5])]  # from this step on, these shares of the corpora
LENGTH, ROWS = 64, 30  # tokens of a row, rows of a step on all processes
PAD, SIZE = 0, 8192  # the token in places that stay empty; token numbers are below SIZE


def write_texts(paths: list[Path]) -> None:
    """Two corpora of JSON lines: one of words, one of sums."""
    random = np.random.default_rng(1)
    words = ["the", "a", "data", "rank", "reads", "mixes", "packs", "slowly", "once"]
    texts = [" ".join(random.choice(words, random.integers(2, 16))) for _ in range(800)]
    sums = [f"{number} + {number % 7} = {number + number % 7}" for number in random.integers(0, 1000, 400)]
    for path, lines in zip(paths, (texts, sums)):
        path.write_text("".join(json.dumps({"text": f"{number}: {line}"}) + "\n" for number, line in enumerate(lines)))


def token_function(tokenizer: str | None) -> Callable[[list[str]], list[list[int]]]:
    """From lines of JSON to the tokens of their texts; `PAD` is none of them."""
    if tokenizer is None:
        encode = lambda texts: [list(text.encode()) for text in texts]  # noqa: E731
    else:
        from tokenizers import Tokenizer

        fast = Tokenizer.from_file(tokenizer)
        encode = lambda texts: [encoding.ids for encoding in fast.encode_batch_fast(texts)]  # noqa: E731

    def tokens_of(lines: list[str]) -> list[list[int]]:
        return [[token + 1 for token in tokens] for tokens in encode([json.loads(line)["text"] for line in lines])]

    return tokens_of


def corpora(paths: list[Path], tokenizer: str | None, folder: Path) -> list[tdi.Dataset]:
    """Documents of tokens. Their lengths are counted once, by the first run, and stored in `folder`."""
    return [
        tdi.TextLineDataset(path)
        .tokenize(token_function(tokenizer), num_parallel_calls=2)
        .with_lengths(folder / f"corpus{number}.lengths")
        for number, path in enumerate(paths)
    ]


def packed(documents: list[tdi.Dataset]) -> tdi.Dataset:
    """Rows of a mixture that changes: as lengths are known, each process reads and tokenizes what its rows hold."""
    rows_of_one = [len(corpus.pack(LENGTH)) / len(corpus) for corpus in documents]
    mixed = tdi.Dataset.sample_from_datasets(
        [corpus.shuffle(seed=1) for corpus in documents],
        weights=SCHEDULE,
        seed=2,
        elements_per_step=round(ROWS / np.dot(SCHEDULE[0][1], rows_of_one)),  # documents: as many as fill a step's rows
    )
    return mixed.pack(LENGTH, strategy="best_fit", window=64, pad_id=PAD)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(SIZE, 32), torch.nn.Embedding(LENGTH, 32)
        self.layer = torch.nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(32, SIZE)

    def forward(self, row: dict) -> torch.Tensor:
        documents = (row["position_ids"] == 0).cumsum(1)  # no token attends to another document, or to a later token
        unseen = (documents[:, :, None] != documents[:, None]) | torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        hidden = self.tokens(row["tokens"]) + self.positions(row["position_ids"])
        return self.head(self.layer(hidden, src_mask=unseen.repeat_interleave(2, 0)))


def pieces_of(batch: dict) -> list[np.ndarray]:
    """The documents in packed rows; one that is longer than a row comes in pieces."""
    return [
        tokens[begin:end].numpy()
        for tokens, bounds in zip(batch["tokens"], batch["cu_seqlens"].tolist())
        for begin, end in pairwise(bounds)
        if end > begin and tokens[begin] != PAD
    ]


def digest(piece: np.ndarray) -> str:
    return hashlib.blake2b(piece.astype(np.int64).tobytes(), digest_size=8).hexdigest()


def train(loader: tdi.DataLoader, model: Model, steps: int | None) -> tuple[list[list], list[str], float, bool]:
    """Trains for `steps` steps, or to the end of the epoch. Returns for each step the documents drawn so far and this
    rank's cost, its documents, the last loss, and whether the epoch has ended."""
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    log, seen, loss, is_last = [], [], torch.zeros(()), False
    for batch in islice(loader, steps):
        pieces = pieces_of(batch)
        seen += map(digest, pieces)
        counts = batch["loss_mask"][:, 1:]
        total = counts.sum().float()
        dist.all_reduce(total)  # rows hold different numbers of tokens that count
        optimizer.zero_grad()
        logits = parallel(batch)[:, :-1].transpose(1, 2)
        losses = cross_entropy(logits, batch["tokens"][:, 1:], reduction="none")
        loss = (losses * counts).sum() / total
        (loss * dist.get_world_size()).backward()  # DDP divides by the number of processes
        optimizer.step()
        log.append([loader.stats().sampled, sum(len(piece) ** 2 for piece in pieces)])
        is_last = loader.last_info.is_last
    dist.all_reduce(loss := loss.detach())
    return log, seen, float(loss), is_last


def draw(runs: list[dict], path: Path) -> None:
    """The share of each corpus, and the cost of attention of each process, over the steps of all runs."""
    from matplotlib import pyplot

    figure, (shares, costs) = pyplot.subplots(1, 2, figsize=(11, 4))
    counted = [step[0] for run in runs if run["rank"] == 0 for step in run["log"]]
    sampled = np.array([[0] * len(SCHEDULE[0][1]), *counted])
    steps = np.flatnonzero(np.diff(sampled.sum(1), prepend=-1))  # `pack` draws documents by the window
    drawn = np.diff(sampled[steps], axis=0)
    begins, weights = (np.array(column) for column in zip(*SCHEDULE))
    for corpus, share in enumerate((drawn / drawn.sum(1, keepdims=True)).T):
        line = shares.stairs(share, steps, baseline=None, label=f"corpus {corpus}")
        edges = np.minimum([*begins, steps[-1]], steps[-1])
        shares.stairs(weights[:, corpus], edges, baseline=None, linestyle="--", color=line.get_edgecolor())
    shares.set(xlabel="step", ylabel="share of documents (dashed: schedule)", ylim=(0, 1))
    shares.legend()
    for run in runs:
        steps = range(run["first_step"] + 1, run["first_step"] + len(run["log"]) + 1)
        costs.plot(steps, [step[1] for step in run["log"]], ".", color=f"C{run['rank']}")
        costs.axvline(run["first_step"] + 0.5, color="grey", linewidth=1)
    costs.set(xlabel="step; lines: another number of processes", ylabel="squared lengths, each process")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="for the checkpoint, the logs and the plot")
    parser.add_argument("--steps", type=int, help="how many steps this run takes; without it, to the end of the epoch")
    parser.add_argument("--texts", type=Path, nargs=2, help="files of JSON lines with the key `text`")
    parser.add_argument("--tokenizer", help="a tokenizer.json")
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    checkpoint, first_step = arguments.folder / "checkpoint.pt", 0
    paths = arguments.texts or [arguments.folder / "words.jsonl", arguments.folder / "sums.jsonl"]
    if rank == 0:
        arguments.folder.mkdir(exist_ok=True)
        if not (arguments.texts or paths[0].exists()):
            write_texts(paths)
    dist.barrier()

    torch.manual_seed(0)
    model = Model()
    documents = corpora(paths, arguments.tokenizer, arguments.folder)
    loader = tdi.DataLoader(packed(documents), ROWS // world, distributed=True, tail="merge")
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])
        first_step = saved["step"]
    elif rank == 0:
        print(loader.explain())
    log, seen, loss, is_last = train(loader, model, arguments.steps)
    with (arguments.folder / f"rank{rank}.jsonl").open("a") as file:
        file.write(json.dumps({"rank": rank, "first_step": first_step, "log": log, "seen": seen}) + "\n")
    if rank == 0:
        step = first_step + len(log)
        torch.save({"model": model.state_dict(), "loader": loader.state_dict(), "step": step}, checkpoint)
        print(f"{len(log)} steps on {world} processes, mean loss of the last one {loss:.2f}")
    dist.barrier()  # until the logs of all are written; torch aborts a process that ends while gloo holds its tensors
    dist.destroy_process_group()
    if rank > 0 or not is_last:
        return
    logs = sorted(arguments.folder.glob("rank*.jsonl"))
    runs = [json.loads(line) for path in logs for line in path.read_text().splitlines()]
    tokens = [document.numpy() for corpus in documents for document in corpus]
    there = Counter(digest(row[begin : begin + LENGTH]) for row in tokens for begin in range(0, len(row), LENGTH))
    counted = Counter(piece for run in runs for piece in run["seen"])
    print(f"every one of the {sum(map(len, tokens))} tokens was seen once: {counted == there}")
    try:
        draw(runs, arguments.folder / "mixture.png")
    except ImportError:
        print("matplotlib is not installed, so that nothing is drawn")


if __name__ == "__main__":
    main()
