# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`TextVectorization`: texts as the indices of their tokens."""

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import torch

from torch_distinput import _C
from torch_distinput.ops._preprocessing_layer import check_choice, flatten_rows, is_ragged, refuse_unknown
from torch_distinput.preprocessing._adapt import TokenLearner
from torch_distinput.preprocessing._index_lookup import ALIASES, MODES, IndexLookup
from torch_distinput.typing import OutputMode, OutputModeAlias, Standardize, TextSplit

_STANDARDIZE: tuple[Standardize, ...] = get_args(Standardize)
_SPLIT: tuple[TextSplit, ...] = get_args(TextSplit)


class TextVectorization(IndexLookup):
    """Texts as the indices of their tokens in a vocabulary, padded to one length, or as vectors.

    Index 0 is the padding (in mode `int`), the next one stands for tokens that the vocabulary does not hold.

    Args:
        max_tokens: the size of the vocabulary with padding and OOV token, at least 2; None: no limit.
        standardize: "lower_and_strip_punctuation", "lower", "strip_punctuation" (all of ASCII only), None, or a
            function from a list of texts to a list of texts.
        split: "whitespace", "character", None (a text is one token), or a function from a list of texts to a list of
            lists of tokens.
        ngrams: a number n for n-grams of up to n tokens, or a tuple with the numbers of tokens; None: the tokens.
        output_mode: `int`: [N, L]; `multi_hot`, `count`, `tf_idf`: [N, size]; `one_hot`: a jagged [N, L, size].
        output_sequence_length: mode `int`: L, by padding and cutting; None: the length of the longest row.
        pad_to_max_tokens: whether vectors have `max_tokens` entries.
        vocabulary: as in `StringLookup`.
        idf_weights: as in `StringLookup`.
        sparse: as in `StringLookup`.
        ragged: mode `int`: a jagged tensor in place of padding.
        encoding: "utf-8", the only one.
        name: of the layer, in messages; None: from the class.

    Texts have shape [N], [N, 1] or (). `adapt` and `Dataset.map` run natively unless `standardize` or `split` is a
    function. Raises ValueError for arguments that contradict each other, as Keras does.

    >>> layer = tdi.preprocessing.TextVectorization(vocabulary=["the", "fox"])
    >>> layer(["The fox!", "The quick brown fox"])
    tensor([[2, 3, 0, 0],
            [2, 1, 1, 3]])
    """

    _integers = False
    _config_names = (
        *("max_tokens", "standardize", "split", "ngrams", "output_mode", "output_sequence_length"),
        *("pad_to_max_tokens", "sparse", "ragged", "encoding"),
    )

    def __init__(
        self,
        max_tokens: int | None = None,
        standardize: Standardize | Callable[[list[str]], list[str]] | None = "lower_and_strip_punctuation",
        split: TextSplit | Callable[[list[str]], list[list[str]]] | None = "whitespace",
        ngrams: int | tuple[int, ...] | None = None,
        output_mode: OutputMode | OutputModeAlias = "int",
        output_sequence_length: int | None = None,
        pad_to_max_tokens: bool = False,
        vocabulary: Any = None,
        idf_weights: Any = None,
        sparse: bool = False,
        ragged: bool = False,
        encoding: str = "utf-8",
        name: str | None = None,
        **kwargs: Any,
    ):
        layer = type(self).__name__
        if not callable(standardize):
            check_choice(layer, "standardize", standardize, _STANDARDIZE, none=True)
        if not callable(split):
            check_choice(layer, "split", split, _SPLIT, none=True)
        mode = ALIASES.get(output_mode, output_mode)
        check_choice(layer, "output_mode", mode, MODES)
        _check_ngrams(ngrams)
        _check_length(mode, output_sequence_length, ragged)
        kwargs = {key: value for key, value in kwargs.items() if key != "vocabulary_size"}  # from `get_config`
        refuse_unknown(kwargs, "Unrecognized keyword arguments passed to TextVectorization")
        self.standardize = standardize
        self.split = split
        self.ngrams = ngrams
        self.output_sequence_length = output_sequence_length
        self.ragged = ragged
        self.encoding = encoding
        super().__init__(
            max_tokens, 1, "", "[UNK]", vocabulary, idf_weights, False, mode, sparse, pad_to_max_tokens, name
        )

    def _runs_natively(self) -> bool:
        return not callable(self.standardize) and not callable(self.split)

    def _text_options(self) -> tuple[str, str, list[int]]:
        """The steps that native code does: none before a function that must see the texts."""
        standardize = "" if callable(self.standardize) or callable(self.split) else self.standardize or ""
        split = "" if callable(self.split) else self.split or ""
        widths = range(1, self.ngrams + 1) if isinstance(self.ngrams, int) else self.ngrams or ()
        return standardize, split, list(widths)

    def _make_native(self) -> _C.Layer:
        standardize, split, ngrams = self._text_options()
        return _C.text_layer(
            self._known_vocabulary(),
            standardize,
            split,
            ngrams,
            self.output_sequence_length,
            self.ragged,
            self._options(),
        )

    def forward(self, inputs: Any) -> Any:
        """The indices of the tokens of `inputs`, or vectors, as `output_mode` says."""
        layer = self._layer()
        if is_ragged(inputs):
            return layer(*self._ragged_tokens(inputs))
        if self._runs_natively():
            return layer((inputs,))
        texts, shape = _flat_texts(inputs)
        prepared = self._prepared(texts)
        if not callable(self.split):
            return layer((_nested(prepared, shape),))
        _check_shape(shape)
        items, offsets = flatten_rows(type(self).__name__, prepared)
        result = layer((items,), offsets)
        if not shape:
            return result.unbind()[0] if result.is_nested else result[0]
        if len(shape) < 3:
            return result
        if result.layout != torch.strided:
            raise ValueError(
                f"{type(self).__name__}: a ragged or sparse result needs texts of shape [rows] or [rows, 1], but they "
                f"have shape {shape}."
            )
        return result.reshape(*shape[:-1], *result.shape[1:])

    def _ragged_tokens(self, rows: Any) -> tuple[tuple[list[str]], torch.Tensor]:
        """Rows of different length of texts that are tokens, after the user's function: items and offsets."""
        if self.split is not None:
            _check_shape((len(rows), None))
        items, offsets = flatten_rows(type(self).__name__, rows)
        return (self._prepared([_decoded(item) for item in items]) if callable(self.standardize) else items,), offsets

    def _prepared(self, texts: list[str]) -> list[Any]:
        """Texts, or rows of tokens, after the user's functions."""
        if callable(self.standardize):
            texts = list(self.standardize(texts))
        elif self.standardize is not None and callable(self.split):
            texts = _C.standardize_texts(texts, self.standardize)
        return [list(row) for row in self.split(texts)] if callable(self.split) else texts

    def _learner(self) -> TokenLearner:
        documents = self.output_mode == "tf_idf"
        if self._runs_natively():
            return TokenLearner(False, documents, self._text_options())
        return _PreparingLearner(self, documents)

    def _whole(self, data: Any) -> Any:
        return data

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments; a vocabulary that came from a file or from `adapt` is not among them."""
        return super().get_config() | {"vocabulary_size": self.vocabulary_size()}


class _PreparingLearner(TokenLearner):
    """Counts the tokens that a layer's Python functions make of texts."""

    def __init__(self, layer: TextVectorization, documents: bool):
        # Texts that a function has split are rows of tokens; native code only makes n-grams.
        super().__init__(False, documents, layer._text_options())
        self._layer = layer

    def add(self, batch: Any) -> None:
        if is_ragged(batch):
            (items,), offsets = self._layer._ragged_tokens(batch)
            return self._counter.add(items, offsets)
        texts, shape = _flat_texts(batch)
        if callable(self._layer.split):
            _check_shape(shape)
            self._counter.add(*flatten_rows("adapt", self._layer._prepared(texts)))
        else:
            self._counter.add(_nested(self._layer._prepared(texts), shape))

    def consume(self, iterator: Any, count: int) -> int:
        read = 0
        while read < count and (batch := next(iterator, None)) is not None:
            self.add(batch)
            read += 1
        return read


def _flat_texts(inputs: Any) -> tuple[list[str], tuple[int, ...]]:
    """Texts as one list, and their shape."""
    texts = np.asarray(inputs, dtype=object)
    return [_decoded(text) for text in texts.ravel().tolist()], texts.shape


def _nested(texts: list[str], shape: tuple[int, ...]) -> Any:
    """The texts in their shape; an array if there are no texts."""
    return np.array(texts, dtype=object).reshape(shape).tolist() if texts else np.empty(shape, dtype="U1")


def _check_shape(shape: tuple[int | None, ...]) -> None:
    if len(shape) > 1 and shape[-1] != 1:
        raise ValueError(
            "When using `TextVectorization` to tokenize strings, the input rank must be 1 or the last shape dimension "
            f"must be 1. Received: inputs.shape={shape} with rank={len(shape)}"
        )


def _decoded(text: str | bytes) -> str:
    return text.decode(errors="surrogateescape") if isinstance(text, bytes) else text


def _check_ngrams(ngrams: Any) -> None:
    widths = ngrams if isinstance(ngrams, tuple) else (1,) if ngrams is None else (ngrams,)
    if not widths or not all(isinstance(width, int) and width >= 1 for width in widths):
        raise ValueError(
            f"`ngrams` must be None, an integer, or a tuple of integers, of at least 1. Received: ngrams={ngrams}"
        )


def _check_length(mode: str, length: Any, ragged: bool) -> None:
    if mode == "int" and length is not None and not isinstance(length, int):
        raise ValueError(
            "`output_sequence_length` must be either None or an integer when `output_mode` is 'int'. "
            f"Received: output_sequence_length={length}"
        )
    if mode != "int" and length is not None:
        raise ValueError(
            "`output_sequence_length` must not be set if `output_mode` is not 'int'. "
            f"Received output_sequence_length={length}."
        )
    if ragged and mode != "int":
        raise ValueError(
            f"`ragged` must not be true if `output_mode` is not `'int'`. "
            f"Received: ragged={ragged} and output_mode={mode}"
        )
