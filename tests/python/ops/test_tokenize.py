# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Dataset.tokenize` over functions of lists of texts; tests/frameworks/test_tokenizers.py has the real tokenizers."""

import collections
import pickle
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.ops._tokenize import TokenCache

TEXTS = [chr(97 + i % 26) * (i * 7 % 11) for i in range(600)]


class Letters:
    """A token for each letter. Counts how many texts each call gets; refuses a text with a "!"."""

    def __init__(self):
        self.calls = []

    def __call__(self, texts):
        self.calls.append(len(texts))
        if any("!" in text for text in texts):
            raise RuntimeError("no exclamations")
        return [[ord(letter) for letter in text] for text in texts]


def letters(text):
    return [ord(letter) for letter in text]


def inputs(texts):
    """The texts on the random-access path and on the sequential one."""
    return tdi.Dataset.from_tensor_slices(texts), tdi.Dataset.from_generator(lambda: texts, None)


def lists(dataset):
    return [row.tolist() for row in dataset]


def test_rows_are_tokens_of_any_length():
    for dataset in inputs(TEXTS):
        rows = list(dataset.tokenize(Letters()))
        assert [row.tolist() for row in rows] == [letters(text) for text in TEXTS]
        assert all(row.dtype == torch.int64 and row.ndim == 1 for row in rows)


def test_bytes_are_texts_of_utf8():
    for dataset in inputs([text.encode() for text in ["aé", "", "€"]]):
        assert lists(dataset.tokenize(Letters())) == [[97, 233], [], [8364]]


def test_the_text_of_a_key_is_replaced_and_other_entries_stay():
    rows = [{"text": text, "number": number} for number, text in enumerate(TEXTS)]
    for dataset in (
        tdi.Dataset.from_generator(lambda: rows, None),
        tdi.Dataset.from_tensor_slices({"text": TEXTS, "number": torch.arange(len(TEXTS))}),
    ):
        read = list(dataset.tokenize(Letters(), key="text"))
        assert [(row["text"].tolist(), int(row["number"])) for row in read] == [
            (letters(text), number) for number, text in enumerate(TEXTS)
        ]


def test_texts_are_handed_over_in_blocks():
    for dataset in inputs(TEXTS):
        tokenizer = Letters()
        sum(1 for _ in dataset.tokenize(tokenizer).pack(64))
        assert max(tokenizer.calls) == 256 and sum(tokenizer.calls) <= len(TEXTS) + 1
    tokenizer = Letters()
    batches = inputs(TEXTS)[0].tokenize(tokenizer).padded_batch(200)
    assert [len(batch) for batch in batches] == [200] * 3 and set(tokenizer.calls) <= {1, 200}


@settings(deadline=None, max_examples=40)
@given(
    texts=st.lists(st.text(alphabet="abcé", max_size=5), min_size=1, max_size=40),
    calls=st.sampled_from([None, 1, 3]),
    cache=st.sampled_from([None, 0, 600, 10**6]),
    before=st.sampled_from(["", "shuffle", "repeat"]),
    after=st.sampled_from(["", "shuffle", "take"]),
)
def test_rows_and_order_are_those_of_a_map(texts, calls, cache, before, after):
    def ordered(dataset, tokenized):
        if before == "shuffle":
            dataset = dataset.shuffle(buffer_size=5, seed=1)
        if before == "repeat":
            dataset = dataset.repeat(2)
        dataset = tokenized(dataset)
        if after == "shuffle":
            dataset = dataset.shuffle(buffer_size=3, seed=2)
        return dataset.take(7) if after == "take" else dataset

    for dataset in inputs(texts):
        one_by_one = ordered(dataset, lambda texts: texts.map(lambda text: np.array(letters(text), np.int64)))
        blocks = ordered(dataset, lambda texts: texts.tokenize(Letters(), num_parallel_calls=calls, cache=cache))
        assert lists(blocks) == lists(one_by_one)
        tdi.testing.assert_paths_agree(blocks)


def test_a_position_in_a_block_is_resumed():
    for dataset in inputs(TEXTS[:20]):
        tdi.testing.assert_resumable(dataset.tokenize(Letters()))
        tdi.testing.assert_resumable(dataset.tokenize(Letters()).pack(16))


def test_random_access_stays():
    dataset = tdi.Dataset.from_tensor_slices(TEXTS).tokenize(Letters())
    assert len(dataset) == len(TEXTS)
    assert lists(dataset.skip(599)) == [letters(TEXTS[599])]
    assert sorted(lists(dataset.shuffle(seed=4))) == sorted(letters(text) for text in TEXTS)


@pytest.mark.parametrize("path", [0, 1])
def test_an_error_names_row_and_key(path):
    rows = [{"text": text} for text in [*TEXTS[:300], "oh!", *TEXTS[300:]]]
    dataset = [
        tdi.Dataset.from_tensor_slices({"text": [row["text"] for row in rows]}),
        tdi.Dataset.from_generator(lambda: rows, None),
    ][path]
    iterator = iter(dataset.tokenize(Letters(), key="text"))
    for number in range(300):
        assert next(iterator)["text"].tolist() == letters(TEXTS[number])
    with pytest.raises(RuntimeError, match="no exclamations") as error:
        next(iterator)
    if sys.version_info >= (3, 11):
        assert "map(tokenize(Letters, key='text')): element 300" in error.value.__notes__[0]


def test_only_the_row_that_fails_is_skipped():
    options = tdi.Options(on_error="skip")
    for dataset in inputs(["a", "b!", "c"]):
        assert lists(dataset.tokenize(Letters()).with_options(options)) == [[97], [99]]


@pytest.mark.parametrize(
    ("rows", "key", "message"),
    [
        ([1], None, "an element must be a text, but is of type"),
        ([{"text": 1}], "text", "the entry 'text' must be a text, but is of type"),
        ([{"text": "a"}], "body", r"must be a dict with the entry 'body', but has \['text'\]"),
        (["a"], "body", "must be a dict with the entry 'body', but is of type str"),
    ],
)
def test_what_is_no_text_is_named(rows, key, message):
    with pytest.raises((TypeError, ValueError), match=message):
        list(tdi.Dataset.from_generator(lambda: rows, None).tokenize(Letters(), key=key))


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (lambda texts: texts[:-1], "the tokenizer returned 0 results for 1 texts"),
        (lambda texts: [["x"] for _ in texts], "must return numbers of tokens, but returned a str"),
        (lambda texts: [np.zeros(2) for _ in texts], "must return numbers of tokens, but returned array"),
        (lambda texts: [3 for _ in texts], "must return numbers of tokens, but returned 3"),
    ],
)
def test_what_are_no_tokens_is_refused(tokenizer, message):
    with pytest.raises((TypeError, ValueError), match=message):
        list(tdi.Dataset.from_tensor_slices(["a"]).tokenize(tokenizer))


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.int64])
def test_tokens_may_come_in_arrays(dtype):
    dataset = tdi.Dataset.from_tensor_slices(["ab", ""])
    assert lists(dataset.tokenize(lambda texts: [np.array(letters(text), dtype) for text in texts])) == [[97, 98], []]
    rows = list(dataset.tokenize(lambda texts: [torch.tensor(letters(text), dtype=torch.int64) for text in texts]))
    assert [row.tolist() for row in rows] == [[97, 98], []] and rows[0].dtype == torch.int64


def test_what_is_no_tokenizer_is_refused():
    with pytest.raises(TypeError, match="`tokenizer` must be a tokenizer of .*, but is a int"):
        tdi.Dataset.from_tensor_slices(["a"]).tokenize(3)
    with pytest.raises(ValueError, match="`cache` must be at least 0, but is -1"):
        tdi.Dataset.from_tensor_slices(["a"]).tokenize(Letters(), cache=-1)


def test_a_text_that_comes_again_is_looked_up():
    for dataset in inputs(TEXTS):
        tokenizer = Letters()
        repeated = dataset.repeat(3).tokenize(tokenizer, cache=10**6)
        assert lists(repeated) == [letters(text) for text in TEXTS] * 3
        assert sum(tokenizer.calls) == len(set(TEXTS))


def test_rows_of_a_cache_may_be_written_to():
    dataset = tdi.Dataset.from_tensor_slices(["ab"] * 3).tokenize(Letters(), cache=10**4)
    for row in dataset:
        assert row.tolist() == [97, 98]
        row.zero_()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=60), st.integers(0, 2000))
def test_a_cache_holds_what_was_used_last_within_its_bytes(uses, most):
    cache, model = TokenCache(most), collections.OrderedDict()
    for key, size in uses:
        name = bytes([key])
        assert (cache.find(name) is None) == (key not in model)
        if key in model:
            model.move_to_end(key)
            continue
        cache.keep(name, torch.zeros(size, dtype=torch.int32))
        model[key] = 250 + 4 * size
        while sum(model.values()) > most:
            model.popitem(last=False)
    assert [key in model for key in range(10)] == [cache.find(bytes([key])) is not None for key in range(10)]


def test_a_copy_of_a_cache_begins_empty():
    cache = TokenCache(1000)
    cache.keep(b"a", torch.zeros(2, dtype=torch.int32))
    assert pickle.loads(pickle.dumps(cache)).find(b"a") is None
