# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""From JSON lines to packed rows of a scheduled mixture over real processes: every token once, also after restarts."""

import bisect
import itertools
import json

import pytest
from ranks import returned, run_ranks

import torch_distinput as tdi

PAD = 0
SCHEDULE = [(0, [0.8, 0.2]), (3, [0.1, 0.9]), (5, [0.5, 0.5])]


def write_texts(folder) -> int:
    """Two corpora of unequal size; returns the number of their tokens, 1, 2, 3, ..."""
    first = 1
    for name, count in (("web", 90), ("books", 31)):
        lines = []
        for number in range(count):
            size = (37 * number) % 50
            lines.append(json.dumps({"text": " ".join(map(str, range(first, first + size)))}) + "\n")
            first += size
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return first - 1


def packed(folder, strategy: str, window: int | None, reads: list[int]) -> tdi.Dataset:
    """Rows of the mixture; `reads` gets the first token of each document that is made."""

    def tokens_of(lines: list[str]) -> list[list[int]]:
        documents = [[int(word) for word in json.loads(line)["text"].split()] for line in lines]
        reads.extend(document[0] for document in documents if document)
        return documents

    def corpus(name: str) -> tdi.Dataset:
        documents = tdi.TextLineDataset(folder / f"{name}.jsonl").tokenize(tokens_of)
        return documents.with_lengths(folder / f"{name}.lengths").shuffle(seed=3)

    corpora = [corpus("web"), corpus("books")]
    mixed = tdi.Dataset.sample_from_datasets(corpora, SCHEDULE, seed=5, by="tokens", elements_per_step=9)
    rows = mixed.pack(32, strategy=strategy, window=16, pad_id=PAD)
    return rows if window is None else rows.shuffle(window, seed=7)


def attention(row: dict) -> int:
    """What a row costs: the squared lengths of its documents."""
    return int(row["cu_seqlens"].diff().square().sum())


def train(rank, folder, strategy, window, balance_window, state, steps):
    """The tokens of the rank's rows, the documents that were made for them, and the state."""
    reads: list[int] = []
    rows = packed(folder, strategy, window, reads)
    rows.element_spec  # noqa: B018  makes a document of each corpus
    balance = {} if balance_window is None else {"balance": attention, "balance_window": balance_window}
    loader = tdi.DataLoader(rows, global_batch_size=7, distributed=True, **balance)
    assert balance or "building of steps: from a plan" in loader.explain()
    if state is not None:
        loader.load_state_dict(state)
    reads.clear()
    batches = [batch["tokens"] for batch in itertools.islice(loader, steps)]
    tokens = [token for batch in batches for token in batch[batch != PAD].tolist()]
    return tokens, reads, loader.state_dict()


@pytest.mark.parametrize(
    ("strategy", "window", "balance_window"),
    [("greedy", None, None), ("best_fit", 10_000, None), ("greedy", 11, 1), ("best_fit", 11, 3)],
)
def test_every_token_of_texts_is_seen_once_on_3_2_5_and_1_processes(tmp_path, strategy, window, balance_window):
    count = write_texts(tmp_path)
    seen, state = [], None
    for world, steps in ((3, 4), (2, 3), (5, 2), (1, 10_000)):
        results = returned(run_ranks(train, world, tmp_path, strategy, window, balance_window, state, steps))
        seen += [token for tokens, *_ in results for token in tokens]
        state = results[-1][2]
    assert sorted(seen) == list(range(1, count + 1))


@pytest.mark.parametrize("window", [None, 10_000])
def test_each_rank_tokenizes_the_texts_of_its_own_rows_and_no_others(tmp_path, window):
    count = write_texts(tmp_path)
    results = returned(run_ranks(train, 3, tmp_path, "best_fit", window, None, None, 10_000))
    firsts = sorted({first for _, reads, _ in results for first in reads})
    assert sorted(token for tokens, *_ in results for token in tokens) == list(range(1, count + 1))
    for tokens, reads, _ in results:
        own = {firsts[bisect.bisect(firsts, token) - 1] for token in tokens}
        assert set(reads) == own
