# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A packed mixture of two corpora over real processes: every token once, also after restarts on other numbers."""

import itertools

import pytest
from ranks import returned, run_ranks
from token_files import documents_of, write_megatron

import torch_distinput as tdi

PAD = 0


def corpora(folder, files: int) -> int:
    """Two corpora of unequal size, in `files` files each; returns the number of their tokens, 1, 2, 3, ..."""
    first = 1
    for corpus, documents in (("web", 120), ("books", 23)):
        for file in range(files):
            sizes = [(37 * i + 11 * file) % 50 for i in range(documents // files)]
            write_megatron(folder / f"{corpus}{file}", [[tokens] for tokens in documents_of(sizes, first)])
            first += sum(sizes)
    return first - 1


def packed_mixture(folder, strategy: str) -> tdi.Dataset:
    def corpus(name: str) -> tdi.Dataset:
        names = tdi.Dataset.list_files(f"{folder}/{name}*.idx", shuffle=False)
        return tdi.TokenDataset(names, None, None).shuffle(seed=3)

    mixed = tdi.Dataset.sample_from_datasets([corpus("web"), corpus("books")], [0.8, 0.2], seed=5)
    return mixed.pack(32, strategy=strategy, window=16, pad_id=PAD).batch(7)


def train(rank, folder, strategy, state, steps):
    workers = tdi.MultiWorkerMirroredStrategy()
    iterator = iter(workers.distribute_dataset(packed_mixture(folder, strategy)))
    if state is not None:
        iterator.load_state_dict(state)
    tokens = []
    for batch in itertools.islice(iterator, steps):
        for part in workers.experimental_local_results(batch["tokens"]):
            tokens += part[part != PAD].tolist()
    return tokens, iterator.state_dict(), iterator.stats().get("sampled")


@pytest.mark.parametrize(("files", "strategy"), [(1, "greedy"), (5, "best_fit")])
def test_every_token_of_a_packed_mixture_is_seen_once_on_3_2_5_and_1_processes(tmp_path, files, strategy):
    count = corpora(tmp_path, files)
    seen, state = [], None
    for world, steps in ((3, 4), (2, 3), (5, 2), (1, 10_000)):
        results = returned(run_ranks(train, world, tmp_path, strategy, state, steps))
        seen += [token for tokens, _, _ in results for token in tokens]
        state = [one for _, one, _ in results] if files > 1 else results[0][1]
    assert sorted(seen) == list(range(1, count + 1))
    if files == 1:
        assert results[0][2] == (120, 23)


def endless_mixture(folder, strategy: str) -> tdi.Dataset:
    corpora = [tdi.TokenDataset(folder / f"{name}0.idx", None, None) for name in ("web", "books")]
    mixed = tdi.Dataset.sample_from_datasets(
        [corpus.shuffle(seed=3).repeat() for corpus in corpora], [0.3, 0.7], seed=5
    )
    return mixed.pack(32, strategy=strategy, window=16, pad_id=PAD).batch(7)


def continue_mixture(rank, folder, strategy, state, steps):
    """The rows of each step, by step and part."""
    workers = tdi.MultiWorkerMirroredStrategy()
    iterator = iter(workers.distribute_dataset(endless_mixture(folder, strategy)))
    if state is not None:
        iterator.load_state_dict(state)
    batches = (next(iterator)["tokens"] for _ in range(steps))
    rows = [workers.experimental_local_results(batch)[0].tolist() for batch in batches]
    return rows, iterator.state_dict(), iterator.stats().sampled


@pytest.mark.parametrize(("strategy", "worlds"), [("greedy", [(3, 13), (2, 9)]), ("best_fit", [(2, 8), (3, 15)])])
def test_an_endless_packed_mixture_goes_on_exactly_on_other_numbers_of_processes(tmp_path, strategy, worlds):
    corpora(tmp_path, 1)
    seen, state, steps = [], None, 0
    for world, more in worlds:
        results = returned(run_ranks(continue_mixture, world, tmp_path, strategy, state, more))
        for step in range(more):
            seen += [row for rows, _, _ in results for row in rows[step]]
        state, steps = results[-1][1], steps + more
        drawn = [sampled for _, _, sampled in results]
        assert drawn == drawn[:1] * world
    # One process that was never stopped: several epochs of the small corpus, a part of one of the large one.
    alone = iter(endless_mixture(tmp_path, strategy))
    assert seen == [row for _ in range(steps) for row in next(alone)["tokens"].tolist()]
    assert drawn[0] == alone.stats().sampled and drawn[0][1] > 3 * 23
    assert abs(drawn[0][1] / sum(drawn[0]) - 0.7) < 4 * (0.3 * 0.7 / sum(drawn[0])) ** 0.5
