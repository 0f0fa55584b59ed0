# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The batch calls of tokenizers, in which their native code runs without the GIL."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch_distinput._C import available_cpus

# Token numbers of many texts, in their order.
Encode = Callable[[list[str]], Sequence[Sequence[int]]]


def batch_call(tokenizer: Any) -> Encode | None:
    """What turns texts into token numbers by the batch call of `tokenizer`; the tokenizer itself where it is another
    callable; None for anything else. What is not imported is not recognized, and nothing is imported."""
    for package, call in _CALLS.items():
        if package in sys.modules and (encode := call(sys.modules[package], tokenizer)) is not None:
            encode.__name__ = getattr(tokenizer, "__name__", type(tokenizer).__name__)
            return encode
    return tokenizer if callable(tokenizer) else None


def _tokenizers(package: Any, tokenizer: Any) -> Encode | None:
    if isinstance(tokenizer, package.Tokenizer):
        return _Fast(tokenizer)
    backend = getattr(tokenizer, "backend_tokenizer", None)  # of transformers' fast tokenizers
    if not isinstance(backend, package.Tokenizer):
        return None
    # The truncation and padding of the last call stay in the backend; a call without such arguments does neither.
    own = package.Tokenizer.from_str(backend.to_str())
    own.no_truncation()
    own.no_padding()
    return _Fast(own)


def _tiktoken(package: Any, tokenizer: Any) -> Encode | None:
    return _Tiktoken(tokenizer) if isinstance(tokenizer, package.Encoding) else None


def _sentencepiece(package: Any, tokenizer: Any) -> Encode | None:
    return _SentencePiece(tokenizer) if isinstance(tokenizer, package.SentencePieceProcessor) else None


_CALLS = {
    "tokenizers": _tokenizers,
    "tiktoken": _tiktoken,
    "sentencepiece": _sentencepiece,
}


class _Fast:
    """Of the package tokenizers. It uses as many threads as there are CPUs, unless TOKENIZERS_PARALLELISM says no."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer

    def __call__(self, texts: list[str]) -> Sequence[Sequence[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts)]


class _Tiktoken:
    """Text that looks like a special token is text."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer

    def __call__(self, texts: list[str]) -> Sequence[Sequence[int]]:
        return self._tokenizer.encode_ordinary_batch(texts, num_threads=available_cpus())


class _SentencePiece:
    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer

    def __call__(self, texts: list[str]) -> Sequence[Sequence[int]]:
        return self._tokenizer.encode(texts, out_type=int, num_threads=available_cpus())
