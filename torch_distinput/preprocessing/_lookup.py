# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`StringLookup` and `IntegerLookup`: tokens as indices."""

from typing import Any, Literal

from torch_distinput.preprocessing._index_lookup import IndexLookup
from torch_distinput.typing import OovMethod, OutputMode, OutputModeAlias


class StringLookup(IndexLookup):
    """Strings as the indices of a vocabulary.

    Index 0 is the mask (with `mask_token`, in mode `int`), then come `num_oov_indices` indices for strings that the
    vocabulary does not hold, then the vocabulary in order.

    Args:
        max_tokens: the size of the vocabulary with mask and OOV tokens, at least 2; None: no limit.
        num_oov_indices: how many indices the strings outside the vocabulary share, chosen by hash. With 0, such a
            string raises InvalidArgumentError.
        mask_token: the string that marks an absent token; None: no string does. Modes other than `int` leave it out.
        oov_token: what an inverse look-up returns for other indices.
        vocabulary: the tokens, or the path of a file with one a line; None: `adapt` learns it.
        idf_weights: mode `tf_idf`: a weight for each entry of `vocabulary`.
        invert: whether indices become tokens.
        output_mode: `int`: indices of the input's shape; `one_hot`: [..., size]; `multi_hot`, `count` and `tf_idf`:
            the last dim becomes one vector [..., size] of ones, counts, or counts times weights (float32; the others
            are int64).
        pad_to_max_tokens: whether vectors have `max_tokens` entries.
        sparse: COO tensors in place of dense ones; not in mode `int`.
        encoding: "utf-8", the only one.
        name: of the layer, in messages; None: from the class.
        salt: two ints or one, the key of SipHash for strings out of the vocabulary; None: FarmHash.
        oov_method: taken as in Keras; strings are always hashed.

    Raises ValueError for arguments that contradict each other, as Keras does.

    >>> layer = tdi.preprocessing.StringLookup(vocabulary=["a", "b"])
    >>> layer(["b", "z"])
    tensor([2, 0])
    """

    _integers = False
    _config_names = (*IndexLookup._config_names, "encoding")

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: str | None = None,
        oov_token: str | None = "[UNK]",
        vocabulary: Any = None,
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: OutputMode | OutputModeAlias = "int",
        pad_to_max_tokens: bool = False,
        sparse: bool = False,
        encoding: str = "utf-8",
        name: str | None = None,
        salt: Any = None,
        oov_method: OovMethod = "floormod",
        **kwargs: Any,
    ):
        if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
            raise ValueError(f"StringLookup: `encoding` must be 'utf-8', but is {encoding!r}.")
        self.encoding = encoding
        super().__init__(
            max_tokens,
            num_oov_indices,
            mask_token,
            oov_token,
            vocabulary,
            idf_weights,
            invert,
            output_mode,
            sparse,
            pad_to_max_tokens,
            name,
            oov_method,
            salt,
            kwargs,
        )


class IntegerLookup(IndexLookup):
    """Integers as the indices of a vocabulary; see `StringLookup`.

    Args:
        max_tokens: as in `StringLookup`.
        num_oov_indices: how many indices integers out of the vocabulary share: by modulo, or as `oov_method` says.
        mask_token: the integer that marks an absent token; None: no integer does.
        oov_token: what an inverse look-up returns for other indices.
        vocabulary: as in `StringLookup`.
        vocabulary_dtype: "int64", the only one.
        idf_weights: as in `StringLookup`.
        invert: as in `StringLookup`.
        output_mode: as in `StringLookup`.
        sparse: as in `StringLookup`.
        pad_to_max_tokens: as in `StringLookup`.
        oov_method: "floormod", or "farmhash" for the hash of the decimal text.
        salt: as in `StringLookup`; only with `oov_method="farmhash"`.
        name: of the layer, in messages; None: from the class.

    Raises ValueError for arguments that contradict each other, as Keras does.

    >>> tdi.preprocessing.IntegerLookup(vocabulary=[12, 36])(torch.tensor([[36, 7]]))
    tensor([[2, 0]])
    """

    _integers = True
    _config_names = (*IndexLookup._config_names, "vocabulary_dtype")

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: int | None = None,
        oov_token: int | None = -1,
        vocabulary: Any = None,
        vocabulary_dtype: Literal["int64"] = "int64",
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: OutputMode | OutputModeAlias = "int",
        sparse: bool = False,
        pad_to_max_tokens: bool = False,
        oov_method: OovMethod = "floormod",
        salt: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ):
        if vocabulary_dtype != "int64":
            raise ValueError(
                "Only `vocabulary_dtype='int64'` is supported at this time. "
                f"Received: vocabulary_dtype={vocabulary_dtype}"
            )
        self.vocabulary_dtype = vocabulary_dtype
        super().__init__(
            max_tokens,
            num_oov_indices,
            mask_token,
            oov_token,
            vocabulary,
            idf_weights,
            invert,
            output_mode,
            sparse,
            pad_to_max_tokens,
            name,
            oov_method,
            salt,
            kwargs,
        )
