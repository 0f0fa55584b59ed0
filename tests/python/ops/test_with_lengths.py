# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`with_lengths`: stored once, found again, made anew for other data, and compared with what is read."""

import json
import os

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TEXTS = ["a b c", "", "d e f g h", "i", "j k", "l m n o p q r s"]


class Tokenize:
    """Words as numbers; counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, row):
        self.calls += 1
        return torch.tensor([ord(word[0]) for word in row["text"].split()], dtype=torch.int64)


def json_lines(folder, texts=TEXTS):
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def tokenized(path, tokenize) -> tdi.Dataset:
    """With a type that is given, so that no call is needed to know it."""
    return tdi.JsonLinesDataset(path).map(tokenize, element_spec=tdi.TensorSpec([None], torch.int64))


def has_random_access(dataset: tdi.Dataset) -> bool:
    return iter(dataset).state_dict()["position"].get("path") == "random access"


def tokens_of(rows) -> list[int]:
    return sorted(token for row in rows for token in row["tokens"].tolist() if token)


WANTED = sorted(ord(word) for text in TEXTS for word in text.split())


def test_text_is_tokenized_once_for_its_lengths_and_then_packed_with_random_access(tmp_path):
    tokenize = Tokenize()
    source = tokenized(json_lines(tmp_path), tokenize)
    assert not has_random_access(source.pack(4))
    rows = source.with_lengths(tmp_path / "lengths").shuffle(seed=1).pack(4)
    assert len(rows) == 5  # 19 tokens
    assert tokenize.calls == len(TEXTS)
    assert has_random_access(rows)
    assert tokens_of(rows) == WANTED
    tdi.testing.assert_paths_agree(rows.shuffle(seed=2).batch(2))
    tdi.testing.assert_resumable(rows)
    tokenize.calls = 0
    again = tokenized(tmp_path / "data.jsonl", tokenize).with_lengths(tmp_path / "lengths")
    assert len(again.pack(4)) == 5
    assert tokenize.calls == 0


def test_lengths_lie_beside_the_data_where_no_path_is_given(tmp_path):
    tokenize = Tokenize()
    source = tdi.JsonLinesDataset(json_lines(tmp_path)).map(tokenize)
    assert len(source.with_lengths().pack(4)) == 5
    (stored,) = [name for name in os.listdir(tmp_path) if "lengths" in name]
    assert stored.startswith(".data.jsonl")
    with pytest.raises(
        ValueError, match="with_lengths: .* reads no file beside which lengths could be stored; give `path`"
    ):
        list(tdi.Dataset.range(3).map(lambda x: x.reshape(1)).with_lengths().pack(2))


def test_other_data_another_pipeline_and_damage_are_counted_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_DISTINPUT_HOST_SHARE", "")
    path, stored = json_lines(tmp_path), tmp_path / "lengths"
    tokenize = Tokenize()

    def rows() -> int:
        tokenize.calls = 0
        return len(tokenized(path, tokenize).with_lengths(stored).pack(4))

    assert (rows(), tokenize.calls) == (5, 6)
    assert (rows(), tokenize.calls) == (5, 0)
    json_lines(tmp_path, [*TEXTS, "t u"])
    assert (rows(), tokenize.calls) == (6, 7)
    content = bytearray(stored.read_bytes())
    for damaged in (content[:-1], content[:20], b"", content[:-9] + b"\1" + content[-8:]):
        stored.write_bytes(damaged)
        assert rows() == 6
    assert stored.read_bytes() == content
    assert len(tdi.JsonLinesDataset(path).skip(1).map(tokenize).with_lengths(stored).pack(4)) == 5


def test_a_file_of_something_else_is_left_as_it_is(tmp_path):
    other = tmp_path / "precious.txt"
    other.write_text("important")
    rows = tdi.JsonLinesDataset(json_lines(tmp_path)).map(Tokenize()).with_lengths(other).pack(4)
    with pytest.raises(
        tdi.InvalidArgumentError, match="with_lengths: .*precious.txt.*holds something else than lengths"
    ):
        next(iter(rows))
    assert other.read_text() == "important"
    rows = tdi.JsonLinesDataset(json_lines(tmp_path)).map(Tokenize()).with_lengths(tmp_path / "no" / "lengths").pack(4)
    with pytest.raises(OSError, match="with_lengths: .*no.lengths.*"):
        next(iter(rows))


def test_a_function_that_returns_another_length_is_an_error_that_names_the_element(tmp_path):
    changed = {"by": 0}

    def tokenize(row):
        return torch.ones(len(row["text"].split()) + changed["by"], dtype=torch.int64)

    rows = tdi.JsonLinesDataset(json_lines(tmp_path)).map(tokenize).with_lengths(tmp_path / "lengths").pack(4)
    assert len(rows) == 5
    changed["by"] = 1
    with pytest.raises(tdi.InvalidArgumentError, match="with_lengths: element 0 has length 4, but .* say 3"):
        next(iter(rows))


def test_elements_of_another_type_than_the_declared_one_are_refused(tmp_path):
    path = json_lines(tmp_path)
    spec = tdi.TensorSpec([None], torch.int64)
    narrow = tdi.JsonLinesDataset(path).map(lambda row: torch.ones(3, dtype=torch.int32), element_spec=spec)
    rows = narrow.with_lengths(tmp_path / "lengths").pack(4)
    with pytest.raises((TypeError, ValueError), match="int64"):
        next(iter(rows))


def test_an_order_that_is_drawn_in_each_epoch_is_refused():
    numbers = tdi.Dataset.range(3).map(lambda x: x.reshape(1))
    for drawn in (numbers.shuffle(seed=1), tdi.Dataset.sample_from_datasets([numbers, numbers])):
        with pytest.raises(ValueError, match="with_lengths: lengths are stored in the order of the elements"):
            drawn.with_lengths("unused")
    with pytest.raises(ValueError, match="with_lengths: elements without end"):
        next(iter(numbers.repeat().with_lengths("unused").pack(3)))
    with pytest.raises(ValueError, match="with_lengths: `path` must not be empty"):
        numbers.with_lengths("")


def test_lists_in_parquet_files_are_counted(tmp_path):
    lists = [[1, 2, 3], [], [4, 5], [6, 7, 8, 9]]
    pq.write_table(pa.table({"ids": pa.array(lists, pa.list_(pa.int64())), "n": range(4)}), tmp_path / "a.parquet")
    rows = tdi.ParquetDataset(tmp_path / "a.parquet").with_lengths(key="ids").shuffle(seed=3).pack(4, key="ids")
    assert has_random_access(rows)
    assert tokens_of(rows) == list(range(1, 10))
    tdi.testing.assert_paths_agree(rows)
    with pytest.raises(ValueError, match=r"with_lengths: the element of element 0 must have fewer than 2\^32 rows"):
        next(iter(tdi.Dataset.range(3).with_lengths(tmp_path / "scalars")))


def pack_on_ranks(rank, folder, state, steps):
    os.environ["TORCH_DISTINPUT_HOST_SHARE"] = str(folder / "share")
    tokenize = Tokenize()
    source = tokenized(folder / "data.jsonl", tokenize).with_lengths(folder / "lengths")
    loader = tdi.DataLoader(source.pack(4).shuffle(seed=1), batch_size=4, distributed=True)
    if state is not None:
        loader.load_state_dict(state)
    tokens = []
    for number, batch in enumerate(loader):
        tokens += batch["tokens"].flatten().tolist()
        if number + 1 == steps:
            break
    return tokens, loader.state_dict(), tokenize.calls


def test_one_rank_counts_and_ranks_of_any_number_see_every_token_once(tmp_path):
    texts = TEXTS * 200
    json_lines(tmp_path, texts)
    seen, state, counted = [], None, []
    for world, steps in ((3, 4), (2, 5), (1, 10_000)):
        results = returned(run_ranks(pack_on_ranks, world, tmp_path, state, steps))
        seen += [token for tokens, _, _ in results for token in tokens if token]
        state = results[0][1]
        counted.append(sum(calls >= len(texts) for _, _, calls in results))
    assert sorted(seen) == sorted(WANTED * 200)
    assert counted[:2] == [1, 0]
