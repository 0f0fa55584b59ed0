# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Packed rows with random access: one answer on both paths, shuffled, sharded, batched and resumed anywhere."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from token_files import documents_of, write_megatron

import torch_distinput as tdi

PAD = -5
SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=25)
ARGUMENTS = st.fixed_dictionaries(
    {
        "sequence_length": st.integers(1, 9),
        "strategy": st.sampled_from(["greedy", "best_fit"]),
        "window": st.integers(1, 7),
        "max_documents": st.none() | st.integers(1, 4),
        "pad_id": st.just(PAD),
    }
)
ORDERS = st.sampled_from(
    ["none", "shuffle", "windows", "fixed", "take", "shard", "twice", "concatenate", "mixture", "sample"]
)


def has_random_access(dataset: tdi.Dataset) -> bool:
    return iter(dataset).state_dict()["position"].get("path") == "random access"


def reordered(documents: tdi.Dataset, order: str) -> tdi.Dataset:
    count = documents.cardinality()
    match order:
        case "shuffle":
            return documents.shuffle(seed=3)
        case "windows":
            return documents.shuffle(4, seed=3)
        case "fixed":
            return documents.shuffle(seed=3, reshuffle_each_iteration=False)
        case "take":
            return documents.shuffle(seed=2).skip(count // 4).take(count // 2)
        case "shard":
            return documents.shard(2, 0)
        case "twice":
            return documents.shuffle(seed=1).repeat(2)
        case "concatenate":
            return documents.take(count // 2).concatenate(documents.skip(count // 2).shuffle(seed=5))
        case "mixture":
            parts = [documents.take(count // 3), documents.skip(count // 3)]
            return tdi.Dataset.sample_from_datasets(parts, [0.3, 0.7], seed=4)
        case "sample":
            return documents.sample(torch.ones(count), count, seed=6)
    return documents


def greedy(documents: list[list[int]], length: int, most: int) -> list[list[int]]:
    """The tokens of each row."""
    rows: list[list[int]] = [[]]
    held = 0
    for document in documents:
        while document:
            if len(rows[-1]) == length or held == most:
                rows.append([])
                held = 0
            space = length - len(rows[-1])
            rows[-1] += document[:space]
            document = document[space:]
            held += 1
    return [row for row in rows if row]


def best_fit(documents: list[list[int]], length: int, most: int, window: int) -> list[list[int]]:
    rows = []
    for first in range(0, len(documents), window):
        pieces = [d[i : i + length] for d in documents[first : first + window] for i in range(0, len(d), length)]
        own: list[list[int]] = []
        for number in sorted(range(len(pieces)), key=lambda number: -len(pieces[number])):
            room = [length - sum(len(pieces[piece]) for piece in row) for row in own]
            fits = [r for r in range(len(own)) if len(own[r]) < most and room[r] >= len(pieces[number]) and room[r] > 0]
            if not fits:
                own.append([number])
            else:
                own[min(fits, key=lambda r: (room[r], r))].append(number)
        rows += [[token for piece in row for token in pieces[piece]] for row in sorted(sorted(row) for row in own)]
    return rows


def model(documents: tdi.Dataset, arguments: dict) -> list[list[int]]:
    lists = [document.tolist() for document in documents]
    length = arguments["sequence_length"]
    most = arguments["max_documents"] or length
    if arguments["strategy"] == "greedy":
        return greedy(lists, length, most)
    return best_fit(lists, length, most, arguments["window"])


def tokens(row: dict) -> list[int]:
    return [token for token in row["tokens"].tolist() if token != PAD]


@settings(max_examples=60, deadline=None)
@given(SIZES, ARGUMENTS, ORDERS)
def test_both_paths_yield_the_rows_of_a_plain_model(sizes, arguments, order):
    documents = reordered(tdi.TokenDataset.from_tokens(documents_of(sizes), None), order)
    rows = documents.pack(**arguments)
    assert has_random_access(rows)
    tdi.testing.assert_paths_agree(rows)
    tdi.testing.assert_resumable(rows)
    for epoch in range(2):
        rows.set_epoch(epoch)
        documents.set_epoch(epoch)
        expected = model(documents, arguments)
        assert [tokens(row) for row in rows] == expected
        if order in ("none", "shard") or (arguments["strategy"] == "greedy" and order not in ("take", "sample")):
            assert rows.cardinality() == len(expected) or arguments["max_documents"]
        if rows.cardinality() >= 0:
            assert rows.cardinality() == len(expected)


AFTER = {
    "none": lambda rows: rows,
    "shuffle": lambda rows: rows.shuffle(seed=2),
    "windows": lambda rows: rows.shuffle(3, seed=2),
    "take": lambda rows: rows.skip(1).take(5),
    "repeat": lambda rows: rows.shuffle(seed=4).repeat(2),
    "mixture": lambda rows: tdi.Dataset.sample_from_datasets([rows, rows.take(3)], seed=8),
    "endless": lambda rows: rows.repeat().take(12),
}


@settings(max_examples=60, deadline=None)
@given(
    SIZES,
    ARGUMENTS,
    st.sampled_from(["none", "shuffle", "windows", "mixture"]),
    st.sampled_from(list(AFTER)),
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(1, 7), st.integers(0, 3)), max_size=4),
)
def test_rows_are_shuffled_sharded_batched_and_resumed_on_any_number_of_replicas(
    sizes, arguments, before, after, batch, legs
):
    rows = reordered(tdi.TokenDataset.from_tokens(documents_of(sizes), None), before).pack(**arguments)
    if after in ("shuffle", "repeat", "endless") and rows.cardinality() == tdi.UNKNOWN:
        after = "windows"
    rows = AFTER[after](rows)
    tdi.testing.assert_paths_agree(rows.batch(batch))
    assert has_random_access(rows)
    expected = [tokens(row) for row in rows]
    seen, state = [], None
    for replicas, steps in [*legs, (3, 1000)]:
        strategy = tdi.MirroredStrategy(["cpu"] * replicas)
        iterator = iter(strategy.distribute_dataset(rows.batch(batch), tdi.InputOptions(split="balanced")))
        if state is not None:
            iterator.load_state_dict(state)
        for _ in range(steps):
            step = next(iterator, None)
            if step is None:
                break
            parts = step["tokens"].values if isinstance(step["tokens"], tdi.PerReplica) else [step["tokens"]]
            for part, valid in zip(parts, iterator.step_info.valid, strict=True):
                seen += [[token for token in row if token != PAD] for row in part[:valid].tolist()]
        state = iterator.state_dict()
    assert seen == expected


@pytest.mark.parametrize("strategy", ["greedy", "best_fit"])
def test_documents_without_end_have_random_access(strategy):
    documents = tdi.TokenDataset.from_tokens(documents_of([3, 0, 7, 2, 5]), None).shuffle(seed=1).repeat()
    rows = documents.pack(4, strategy=strategy, window=3)
    assert rows.cardinality() == tdi.INFINITE
    assert has_random_access(rows)
    tdi.testing.assert_paths_agree(rows, max_elements=60)
    tdi.testing.assert_resumable(rows.batch(3), max_elements=12)


SOURCES = {
    "lists": lambda lists: tdi.Dataset.from_tensor_slices({"n": torch.arange(len(lists)), "ids": jagged(lists)}),
    "arrow": lambda lists: tdi.Dataset.from_arrow(table(lists)),
    "ahead": lambda lists: tdi.Dataset.from_tensor_slices({"ids": jagged(lists)}).prefetch(2),
    "kept": lambda lists: tdi.Dataset.from_tensor_slices({"ids": jagged(lists)}).cache(),
}


def table(lists: list[list[int]]) -> object:
    pa = pytest.importorskip("pyarrow")
    return pa.table({"n": range(len(lists)), "ids": pa.array(lists, pa.list_(pa.int64()))})


def jagged(lists: list[list[int]]) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.tensor(one, dtype=torch.int64) for one in lists], layout=torch.jagged)


@pytest.mark.parametrize("source", SOURCES)
def test_lists_in_memory_know_their_lengths(source):
    lists = [document.tolist() for document in documents_of([3, 0, 7, 2, 5, 11])]
    rows = SOURCES[source](lists).pack(4, key="ids", pad_id=PAD)
    assert has_random_access(rows)
    assert [tokens(row) for row in rows] == greedy(lists, 4, 4)
    tdi.testing.assert_paths_agree(rows.shuffle(seed=1))


def test_rows_of_one_shape_know_their_lengths():
    rows = tdi.Dataset.from_tensor_slices(torch.arange(1, 13).reshape(4, 3)).pack(5, pad_id=PAD)
    assert has_random_access(rows)
    assert len(rows) == 3
    assert [tokens(row) for row in rows] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12]]
    pairs = tdi.TokenDataset.from_tokens(np.arange(11), 5).map(lambda inputs, targets: targets)
    assert not has_random_access(pairs.pack(4))  # what a function returns is not known


def test_what_has_no_known_lengths_is_packed_in_sequence():
    documents = [torch.tensor(d.tolist()) for d in documents_of([3, 0, 7])]
    rows = tdi.Dataset.from_generator(lambda: iter(documents), None).pack(4)
    assert rows.cardinality() == tdi.UNKNOWN
    assert not has_random_access(rows)


def test_token_files_are_packed_with_random_access(tmp_path):
    lists = documents_of([5, 0, 17, 3, 1, 9, 30], 1)
    names = [
        write_megatron(tmp_path / "a", [[document] for document in lists[:4]]),
        write_megatron(tmp_path / "b", [[document] for document in lists[4:]]),
    ]
    rows = tdi.TokenDataset(names, None, None).pack(8, pad_id=PAD)
    assert has_random_access(rows)
    assert len(rows) == 9  # 65 tokens
    assert [tokens(row) for row in rows] == greedy([d.tolist() for d in lists], 8, 8)

    stream = np.concatenate([[*d, 0] for d in documents_of([4, 9, 2, 20])]).astype(np.uint16)
    stream.tofile(tmp_path / "train.bin")
    ended = tdi.TokenDataset(tmp_path / "train.bin", np.uint16, None, document_boundary=0)
    rows = ended.shuffle(seed=1).pack(8, strategy="best_fit", pad_id=PAD)
    assert has_random_access(rows)
    tdi.testing.assert_paths_agree(rows)
    assert sorted(token for row in rows for token in tokens(row)) == sorted(stream.tolist())
    assert rows.cardinality() == tdi.UNKNOWN  # each epoch's order fills rows in another way
    with pytest.raises(ValueError, match="shuffle: a full shuffle needs a known length"):
        rows.shuffle()


def test_weights_that_are_set_before_the_first_step_pack_other_documents():
    """The lengths that tell a kept index from another are the same in both orders here."""
    lengths = [5 if i % 6 == 1 else 3 for i in range(192)]

    def rows(weights: list[float]) -> tdi.DataLoader:
        mixed = [tdi.TokenDataset.from_tokens(documents_of(own), None) for own in (lengths, [3] * 192)]
        packed = tdi.Dataset.sample_from_datasets(mixed, weights, seed=1).pack(16)
        return tdi.DataLoader(packed, batch_size=4)

    changed = rows([1, 1e-12])
    assert len(changed) == 19
    iter(changed)
    changed.set_weights([1e-12, 1])
    expected = [batch["tokens"].tolist() for batch in rows([1e-12, 1])]
    assert [batch["tokens"].tolist() for batch in changed] == expected


def test_a_repeat_of_rounds_that_differ_in_rows_is_one_of_all_rounds():
    documents = tdi.TokenDataset.from_tokens(documents_of([3, 5, 7, 2, 5, 1, 6]), None)
    rows = documents.shuffle(seed=1).pack(8, strategy="best_fit", window=3, pad_id=PAD)
    assert len({len(list(rows)) for _ in range(10)}) > 1
    assert sorted(t for row in rows.repeat(3) for t in tokens(row)) == sorted(3 * list(range(1, 30)))
    first = tdi.Dataset.sample_from_datasets([rows, rows], stop_on="first", seed=1)
    tdi.testing.assert_paths_agree(first)


def test_explain_tells_how_rows_will_be_filled():
    documents = tdi.TokenDataset.from_tokens(documents_of([6, 7, 4, 3, 9, 1, 12]), None)
    for strategy, told in (
        ("greedy", "5 rows, 84.0 % filled, 2 of 7 documents cut"),
        ("best_fit", "5 rows, 84.0 % filled, 1 of 7 documents cut"),
    ):
        assert f"plan; {told}," in str(documents.pack(10, strategy=strategy).explain())
    assert "filled" not in str(documents.filter(lambda _: True).pack(10).explain())
    assert "filled" not in str(documents.repeat().pack(10).explain())


def test_a_fixed_order_of_documents_makes_the_number_of_rows_known():
    documents = tdi.TokenDataset.from_tokens(documents_of([3, 5, 7, 2, 5, 1, 6]), None)
    rows = documents.shuffle(seed=1, reshuffle_each_iteration=False).pack(8, strategy="best_fit", window=3)
    assert len(rows) == len(list(rows)) == len(list(rows))
    assert has_random_access(rows.shuffle(seed=2).repeat(2))
    unseeded = documents.shuffle(reshuffle_each_iteration=False).pack(8, strategy="best_fit", window=3)
    assert unseeded.cardinality() == tdi.UNKNOWN
