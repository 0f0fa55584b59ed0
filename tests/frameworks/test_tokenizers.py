# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Dataset.tokenize` with the tokenizers that people train with, trained here on a few words."""

import io
import random

import pytest
import torch

import torch_distinput as tdi

WORDS = ["data", "loader", "token", "rank", "straße", "naïve", "日本", "<|end|>", "[CLS]"]
TEXTS = [" ".join(random.Random(i).choices(WORDS, k=i % 13)) for i in range(700)]


@pytest.fixture(scope="module")
def fast():
    """A tokenizer of tokenizers that puts [CLS] before each text."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["[CLS]"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $0", special_tokens=[("[CLS]", tokenizer.token_to_id("[CLS]"))]
    )
    return tokenizer


def checked(tokenizer, expected):
    """Both paths yield the tokens that the tokenizer gives for each text, at any number of calls, and packed."""
    for texts in (tdi.Dataset.from_tensor_slices(TEXTS), tdi.Dataset.from_generator(lambda: TEXTS, None)):
        for calls in (None, 2):
            rows = list(texts.tokenize(tokenizer, num_parallel_calls=calls))
            assert [row.tolist() for row in rows] == expected
            assert {row.dtype for row in rows} == {torch.int64}
        packed = torch.cat([row["tokens"] for row in texts.tokenize(tokenizer).pack(64)]).tolist()
        joined = [token for row in expected for token in row]
        assert packed[: len(joined)] == joined and not any(packed[len(joined) :])


def test_tokenizers_of_hugging_face(fast):
    checked(fast, [fast.encode(text).ids for text in TEXTS])
    (begin,) = tdi.Dataset.from_tensor_slices([""]).tokenize(fast)
    assert begin.tolist() == [fast.token_to_id("[CLS]")]


def test_a_tokenizer_cuts_where_it_is_set_up_to(fast):
    cutting = type(fast).from_str(fast.to_str())
    cutting.enable_truncation(5)
    checked(cutting, [fast.encode(text).ids[:5] for text in TEXTS])


def test_fast_tokenizers_of_transformers(fast):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="[CLS]")
    expected = tokenizer(TEXTS)["input_ids"]
    tokenizer(TEXTS[:3], truncation=True, max_length=2, padding="max_length")  # leaves its truncation in the backend
    checked(tokenizer, expected)


def test_tiktoken():
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"da": 256, b"ta": 257, b"data": 258}
    encoding = tiktoken.Encoding("letters", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 259})
    checked(encoding, [encoding.encode_ordinary(text) for text in TEXTS])


def test_sentencepiece():
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=36, minloglevel=2
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    checked(processor, [processor.encode(text, out_type=int) for text in TEXTS])
