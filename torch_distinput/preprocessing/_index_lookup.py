# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the layers that look tokens up in a vocabulary share."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import torch

from torch_distinput import _C
from torch_distinput._C import FailedPreconditionError, InvalidArgumentError
from torch_distinput.ops._preprocessing_layer import (
    call_native,
    check_choice,
    check_sparse,
    native_salt,
    read_salt,
    refuse_unknown,
)
from torch_distinput.preprocessing._adapt import AdaptedLayer, TokenLearner, adapt
from torch_distinput.typing import OovMethod, OutputMode, OutputModeAlias

MODES: tuple[OutputMode, ...] = get_args(OutputMode)
ALIASES: dict[str, OutputMode] = {"binary": "multi_hot", "tf-idf": "tf_idf"}


class IndexLookup(AdaptedLayer):
    """What `StringLookup` and `IntegerLookup` share. Not made directly."""

    _integers: bool
    _config_names: tuple[str, ...] = (
        *("invert", "max_tokens", "num_oov_indices", "oov_token", "mask_token", "output_mode", "sparse"),
        *("pad_to_max_tokens", "oov_method", "salt"),
    )

    def __init__(
        self,
        max_tokens: int | None,
        num_oov_indices: int,
        mask_token: Any,
        oov_token: Any,
        vocabulary: Any,
        idf_weights: Any,
        invert: bool,
        output_mode: OutputMode | OutputModeAlias,
        sparse: bool,
        pad_to_max_tokens: bool,
        name: str | None,
        oov_method: OovMethod = "floormod",
        salt: Any = None,
        kwargs: Mapping[str, Any] | None = None,
    ):
        super().__init__(name)
        layer = type(self).__name__
        if max_tokens is not None and max_tokens <= 1:
            raise ValueError(f"If set, `max_tokens` must be greater than 1. Received: max_tokens={max_tokens}")
        if pad_to_max_tokens and max_tokens is None:
            raise ValueError(f"If pad_to_max_tokens is True, must set `max_tokens`. Received: max_tokens={max_tokens}")
        if num_oov_indices < 0:
            raise ValueError(
                f"`num_oov_indices` must be greater than or equal to 0. Received: num_oov_indices={num_oov_indices}"
            )
        check_choice(layer, "oov_method", oov_method, get_args(OovMethod))
        if salt is not None and self._integers and oov_method != "farmhash":
            raise ValueError(f"`salt` can only be used when `oov_method='farmhash'`. Received: oov_method={oov_method}")
        self.salt = read_salt("IndexLookup", salt)
        self.output_mode = ALIASES.get(output_mode, output_mode)
        check_choice(layer, "output_mode", self.output_mode, MODES)
        if invert and self.output_mode != "int":
            raise ValueError(
                f"`output_mode` must be `'int'` when `invert` is true. Received: output_mode={output_mode}"
            )
        check_sparse(sparse, self.output_mode)
        if idf_weights is not None and self.output_mode != "tf_idf":
            raise ValueError(
                "`idf_weights` should only be set if `output_mode` is `'tf_idf'`. "
                f"Received: idf_weights={idf_weights} and output_mode={output_mode}"
            )
        unknown = {key: value for key, value in (kwargs or {}).items() if key != "vocabulary_size"}  # from `get_config`
        refuse_unknown(unknown, "Unrecognized keyword argument(s)")
        self.max_tokens = max_tokens
        self.num_oov_indices = num_oov_indices
        self.mask_token = mask_token
        self.oov_token = oov_token
        self.invert = invert
        self.sparse = sparse
        self.pad_to_max_tokens = pad_to_max_tokens
        self.oov_method = oov_method
        self._given = None if isinstance(vocabulary, (str, os.PathLike)) else _as_list(vocabulary)
        self._given_weights = _as_list(idf_weights)
        self._is_static = vocabulary is not None
        self._vocabulary: _C.Vocabulary | None = None
        self._frozen_size: int | None = None
        self.idf_weights: torch.Tensor | None = None
        self._check_tokens()
        if vocabulary is not None:
            if self.output_mode == "tf_idf" and idf_weights is None:
                raise ValueError(
                    "When specifying the `vocabulary` argument, in TF-IDF output mode, the `idf_weights` argument must "
                    "also be provided."
                )
            self.set_vocabulary(vocabulary, idf_weights)

    def _check_tokens(self) -> None:
        if self.invert and self.oov_token is None:
            raise ValueError(f"{type(self).__name__}: `oov_token` must not be None when `invert` is true.")
        expected = int if self._integers else str
        for name, token in (("mask_token", self.mask_token), ("oov_token", self.oov_token)):
            if token is not None and not isinstance(token, expected):
                raise TypeError(
                    f"{type(self).__name__}: `{name}` must be a {expected.__name__} or None, but is {token!r}."
                )

    # The vocabulary.

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """The tokens in the order of their indices; without the mask and OOV tokens if asked."""
        tokens = [] if self._vocabulary is None else self._vocabulary.tokens()
        learned = tokens.tolist() if isinstance(tokens, torch.Tensor) else tokens
        return [*self._special_tokens(), *learned] if include_special_tokens else learned

    def vocabulary_size(self) -> int:
        """The number of tokens with the mask and OOV tokens."""
        return self._token_start() + (0 if self._vocabulary is None else len(self._vocabulary))

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Sets the vocabulary, and in mode `tf_idf` the weights, in place of `adapt`.

        Args:
            vocabulary: a sequence, array or tensor of distinct tokens, with the mask and OOV tokens at the start or
                without them; or the path of a UTF-8 file with one token a line.
            idf_weights: a weight for each entry of `vocabulary`; only, and then always, in mode `tf_idf`.

        Raises ValueError for repeated tokens, a mask token elsewhere, an empty vocabulary, one above `max_tokens` and
        weights of another length; InvalidArgumentError naming file and line for a file that is not a vocabulary;
        NotFoundError for a missing file.
        """
        self._check_weights_are_due(idf_weights)
        if isinstance(vocabulary, (str, os.PathLike)):
            return self._set_file(os.fspath(vocabulary))
        tokens = _as_list(vocabulary)
        if not tokens:
            raise ValueError(f"Cannot set an empty vocabulary. Received: vocabulary={vocabulary}")
        start = self._token_start()
        has_special = tokens[:start] == self._special_tokens()
        learned = tokens[start:] if has_special else tokens
        if not learned:
            raise InvalidArgumentError(
                f"{type(self).__name__}: `vocabulary` must hold more than the mask and OOV tokens "
                f"{self._special_tokens()}."
            )
        learned = [int(token) for token in learned] if self._integers else learned
        native = _C.Vocabulary.of(learned)
        self._check_reserved(tokens, learned)
        self._check_size(start + len(learned))
        self._record(native)
        if self.output_mode == "tf_idf":
            self.idf_weights = self._padded_weights(idf_weights, len(tokens), has_special)

    def _check_weights_are_due(self, idf_weights: Any) -> None:
        if self.output_mode == "tf_idf":
            if idf_weights is None:
                raise ValueError("`idf_weights` must be set if output_mode is 'tf_idf'.")
        elif idf_weights is not None:
            raise ValueError(
                "`idf_weights` should only be set if output_mode is `'tf_idf'`. "
                f"Received: output_mode={self.output_mode} and idf_weights={idf_weights}"
            )

    def _set_file(self, path: str) -> None:
        if self.output_mode == "tf_idf":
            raise ValueError("output_mode `'tf_idf'` does not support loading a vocabulary from file.")
        native = _C.Vocabulary.from_file(path, self._integers)
        self._check_size(self._token_start() + len(native))
        self._record(native)

    def _check_size(self, size: int) -> None:
        if self.max_tokens is not None and size > self.max_tokens:
            raise ValueError(
                "Attempted to set a vocabulary larger than the maximum vocab size. Received vocabulary size is "
                f"{size}; `max_tokens` is {self.max_tokens}."
            )

    def _check_reserved(self, tokens: list[Any], learned: list[Any]) -> None:
        reserved = [("mask", self.mask_token)]
        if self.invert:  # a look-up of tokens does not use the OOV token
            reserved.append(("OOV", self.oov_token))
        for kind, token in reserved:
            if token is None or token not in learned:
                continue
            place = len(tokens) - 1 - tokens[::-1].index(token)
            raise ValueError(
                f"Found reserved {kind} token at unexpected location in `vocabulary`. Note that passed `vocabulary` "
                "does not need to include the OOV and mask tokens. Either remove all mask and OOV tokens, or include "
                "them only at the start of the vocabulary in precisely this order: "
                f"{self._special_tokens()}. Received: {kind.lower()}_token={token} at vocabulary index {place}"
            )

    def _padded_weights(self, idf_weights: Any, size: int, has_special: bool) -> torch.Tensor:
        weights = torch.as_tensor(idf_weights, dtype=torch.float64)
        if len(weights) != size:
            raise ValueError(
                "`idf_weights` must be the same length as vocabulary. "
                f"len(idf_weights) is {len(weights)}; len(vocabulary) is {size}"
            )
        if weights.dim() != 1:
            raise ValueError(f"TF-IDF data must be a 1-index array. Received: type(idf_weights)={type(idf_weights)}")
        front = 0 if has_special else self._token_start()
        return self._pad_back(torch.cat([weights.mean().repeat(front), weights])).float()

    def _pad_back(self, weights: torch.Tensor) -> torch.Tensor:
        if not self.pad_to_max_tokens or self.max_tokens is None:
            return weights
        return torch.cat([weights, weights.new_zeros(self.max_tokens - len(weights))])

    def _record(self, vocabulary: _C.Vocabulary | None) -> None:
        size = self._token_start() + (0 if vocabulary is None else len(vocabulary))
        if self._fixes_size() and self._frozen_size is not None and size != self._frozen_size:
            raise RuntimeError(
                f"When using `output_mode={self.output_mode}` and `pad_to_max_tokens=False`, the vocabulary size "
                f"cannot be changed after the layer is called. Old vocab size is {self._frozen_size}, new vocab size "
                f"is {size}"
            )
        self._vocabulary, self._frozen_size = vocabulary, size
        self._forget_native()

    def _fixes_size(self) -> bool:
        return self.output_mode != "int" and not self.pad_to_max_tokens

    def _oov_start(self) -> int:
        return 1 if self.mask_token is not None and self.output_mode == "int" else 0

    def _token_start(self) -> int:
        return self._oov_start() + self.num_oov_indices

    def _special_tokens(self) -> list[Any]:
        return [self.mask_token] * self._oov_start() + [self.oov_token] * self.num_oov_indices

    # Learning.

    def adapt(self, data: Any, steps: int | None = None, *, strategy: Any = None, progress: bool | None = None) -> None:
        """Learns the vocabulary: the tokens of `data` by count, the most frequent first, ties in descending order.

        Args:
            data: a `Dataset` of batches of tokens, read natively in one pass in memory for the distinct tokens; an
                iterable of batches; or a list, array or tensor. In mode `tf_idf` each row is a document; an element
                with one dim is one document.
            steps: how many elements to read; None: all.
            strategy: its processes share the work: each reads its share, and all learn the same. None: the strategy
                whose scope encloses the call.
            progress: whether stderr shows how far the pass is. None: only in a terminal.

        Raises ValueError for a layer whose vocabulary was given, and InvalidArgumentError where `max_tokens` leaves no
        room for a token.
        """
        adapt(self, data, steps, strategy, progress)

    def _adapted_to(self, data: Any) -> Any:
        if self._is_static:
            raise ValueError(
                f"Cannot adapt layer '{self.name}' after setting a static vocabulary via `vocabulary` argument or "
                "`set_vocabulary()` method."
            )
        return data

    def _learner(self) -> TokenLearner:
        return TokenLearner(self._integers, self.output_mode == "tf_idf")

    def _whole(self, data: Any) -> Any:
        """An array as one batch: each entry of an array with one dim is a row."""
        data = data.tolist() if hasattr(data, "tolist") and not isinstance(data, torch.Tensor) else data
        if isinstance(data, torch.Tensor):
            return data.unsqueeze(-1) if data.dim() == 1 else data
        return [[item] for item in data] if not any(isinstance(item, (list, tuple)) for item in data) else data

    def _finish_adapt(self, learner: TokenLearner) -> None:
        if learner.is_empty():
            return
        room = None if self.max_tokens is None else self.max_tokens - self._token_start()
        if room is not None and room <= 0:
            raise InvalidArgumentError(
                f"{type(self).__name__}: `max_tokens={self.max_tokens}` leaves no room for tokens beside "
                f"{self._token_start()} mask and OOV indices."
            )
        excluded = [token for token in (self.mask_token, self.oov_token) if token is not None]
        vocabulary, documents = learner.top(room, excluded)
        if vocabulary is None or len(vocabulary) == 0:
            raise InvalidArgumentError(f"{type(self).__name__}: the data has no tokens but {excluded}.")
        self._record(vocabulary)
        if self.output_mode == "tf_idf":
            weights = torch.log1p(learner.num_documents() / (1 + documents.double())).float()
            front = weights.mean().repeat(self._token_start())
            self.idf_weights = self._pad_back(torch.cat([front, weights]))

    # Calls.

    def _options(self) -> _C.LookupOptions:
        tf_idf = self.output_mode == "tf_idf"
        return _C.LookupOptions(
            num_oov_indices=self.num_oov_indices,
            mask_token=self.mask_token,
            oov_token=self.oov_token,
            hash_integers=self.oov_method == "farmhash",
            salt=native_salt(self.salt),
            depth=self.max_tokens if self.pad_to_max_tokens else None,
            idf_weights=self.idf_weights if tf_idf else None,
            output_mode=self.output_mode,
            sparse=self.sparse,
            dtype=torch.int64,
        )

    def _known_vocabulary(self) -> _C.Vocabulary:
        if self._vocabulary is not None:
            return self._vocabulary
        if self._fixes_size() and self._frozen_size is None:
            raise RuntimeError(
                f"When using `output_mode={self.output_mode}` and `pad_to_max_tokens=False`, you must set the layer's "
                "vocabulary before calling it. Either pass a `vocabulary` argument to the layer, or call `adapt` with "
                "some sample data."
            )
        raise FailedPreconditionError(
            f"{type(self).__name__}: the layer has no vocabulary; pass `vocabulary`, or call `adapt` with some data."
        )

    def _make_native(self) -> _C.Layer:
        return _C.lookup_layer(self._known_vocabulary(), self.invert, self._options())

    def forward(self, inputs: Any) -> Any:
        """The indices of `inputs` (or the tokens, with `invert`), in the shape that `output_mode` says."""
        return call_native(type(self).__name__, self._layer(), (inputs,))

    # State.

    _value_names = ("vocabulary.tokens", "vocabulary.offsets", "idf_weights")

    def _values(self) -> dict[str, torch.Tensor]:
        tokens = [] if self._vocabulary is None else self._vocabulary.tensors()
        values = dict(zip(self._value_names, tokens))
        return values if self.idf_weights is None else {**values, "idf_weights": self.idf_weights}

    def _set_values(self, values: dict[str, torch.Tensor]) -> None:
        tokens = [values[name] for name in self._value_names[:2] if name in values]
        if tokens:
            vocabulary = _C.Vocabulary.from_tensors(tokens)
            self._frozen_size = None
            self._record(vocabulary)
        if "idf_weights" in values:
            self.idf_weights = values["idf_weights"].float().cpu().clone()

    def __getstate__(self) -> dict[str, Any]:
        tensors = None if self._vocabulary is None else self._vocabulary.tensors()
        return {**super().__getstate__(), "_vocabulary": tensors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        tensors = state["_vocabulary"]
        super().__setstate__({**state, "_vocabulary": None if tensors is None else _C.Vocabulary.from_tensors(tensors)})

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments; a vocabulary that came from a file or from `adapt` is not among them."""
        given = {"idf_weights": self._given_weights, "vocabulary": self._given, "vocabulary_size": self._frozen_size}
        return super().get_config() | given


def _as_list(values: Any) -> Any:
    """A sequence, array or tensor as a list; None stays None."""
    if values is None:
        return None
    if hasattr(values, "tolist"):
        return values.tolist()
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes)):
        return list(values)
    raise TypeError(f"a vocabulary must be a sequence of tokens or the path of a file, but is {values!r}.")
