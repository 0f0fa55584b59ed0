# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The function of `Dataset.tokenize`: texts of a block of elements to tokens."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import torch

from torch_distinput import _C
from torch_distinput.recognize._tokenizers import Encode

# What an entry of the cache takes besides its tokens.
_ENTRY_BYTES = 250


class TokenCache:
    """The tokens of the texts that were asked for last, up to `most_bytes`, by a hash of 128 bits of each. Any thread
    may use it; a copy in another process begins empty."""

    def __init__(self, most_bytes: int):
        self._most_bytes = most_bytes
        self._bytes = 0
        self._tokens: OrderedDict[bytes, torch.Tensor] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenCache, (self._most_bytes,)

    def find(self, key: bytes) -> torch.Tensor | None:
        with self._lock:
            tokens = self._tokens.get(key)
            if tokens is not None:
                self._tokens.move_to_end(key)
            return tokens

    def keep(self, key: bytes, tokens: torch.Tensor) -> None:
        with self._lock:
            if key in self._tokens:
                return
            self._tokens[key] = tokens
            self._bytes += tokens.nbytes + _ENTRY_BYTES
            while self._bytes > self._most_bytes:
                self._bytes -= self._tokens.popitem(last=False)[1].nbytes + _ENTRY_BYTES


class Tokenize:
    """From a list of elements to a list of them with tokens, int64 [any length], in the place of the text under `key`,
    or of the elements themselves."""

    def __init__(self, encode: Encode, name: str, key: str | None, cache: TokenCache | None):
        self._encode = encode
        self._key = key
        self._cache = cache
        self.__name__ = f"tokenize({name})" if key is None else f"tokenize({name}, key={key!r})"

    def __call__(self, elements: list[Any]) -> list[Any]:
        texts = [self._text(element) for element in elements]
        tokens = self._encoded(texts) if self._cache is None else self._cached(texts, self._cache)
        if self._key is None:
            return tokens
        return [element | {self._key: row} for element, row in zip(elements, tokens)]

    def _text(self, element: Any) -> str:
        value, what = element, "an element"
        if self._key is not None:
            if not isinstance(element, dict) or self._key not in element:
                has = f"has {sorted(element)}" if isinstance(element, dict) else f"is of type {type(element).__name__}"
                raise ValueError(f"tokenize: an element must be a dict with the entry {self._key!r}, but {has}.")
            value, what = element[self._key], f"the entry {self._key!r}"
        if isinstance(value, bytes):
            return value.decode()
        if not isinstance(value, str):
            raise TypeError(f"tokenize: {what} must be a text, but is of type {type(value).__name__}.")
        return value

    def _encoded(self, texts: list[str]) -> list[torch.Tensor]:
        rows = self._encode(texts)
        if len(rows) != len(texts):
            raise ValueError(f"tokenize: the tokenizer returned {len(rows)} results for {len(texts)} texts.")
        return [_numbers(row) for row in rows]

    def _cached(self, texts: list[str], cache: TokenCache) -> list[torch.Tensor]:
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        found: dict[bytes, torch.Tensor] = {}
        missing: dict[bytes, str] = {}
        for key, text in zip(keys, texts):
            tokens = cache.find(key)
            if tokens is None:
                missing[key] = text
            else:
                found[key] = tokens
        for key, tokens in zip(missing, self._encoded(list(missing.values())) if missing else []):
            found[key] = tokens.to(torch.int32) if tokens.numel() == 0 or tokens.max() < 2**31 else tokens
            cache.keep(key, found[key])
        return [found[key].to(torch.int64, copy=True) for key in keys]


def _numbers(row: Sequence[int]) -> torch.Tensor:
    if type(row) is list:
        return _C.token_row(row)
    tokens = np.asarray(row)
    if tokens.ndim != 1 or (tokens.dtype.kind not in "iu" and tokens.size > 0):
        raise TypeError(f"tokenize: the tokenizer must return numbers of tokens, but returned {row!r:.80}.")
    return torch.from_numpy(tokens.astype(np.int64))
