# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Methods of `Dataset` for sequences of tokens."""

from torch_distinput import _C
from torch_distinput.base._arguments import integer, optional_integer, optional_text, text
from torch_distinput.ops._base import Dataset, Ops
from torch_distinput.typing import PackStrategy


class TokenOps(Ops[Dataset]):
    """What `Dataset` does with documents of tokens."""

    def pack(
        self,
        sequence_length: int,
        key: str | None = None,
        strategy: PackStrategy = "greedy",
        window: int = 1024,
        pad_id: int = 0,
        max_documents: int | None = None,
    ) -> Dataset:
        """Documents of tokens joined to rows of one length, each token once.

        Args:
            sequence_length: L, the tokens of a row, at least 1.
            key: the entry of dict elements that holds the tokens; other entries are left out. None where elements are
                bare sequences. Sequences are int64 or int32, of shape [any length].
            strategy: "greedy" joins documents in order and cuts them where a row is full, so that only the last row is
                padded. "best_fit" reads `window` documents at a time and cuts only those longer than L: the longest
                first, each into the row in which it leaves the least room.
            window: documents that "best_fit" holds at a time, at least 1.
            pad_id: the token in the places that stay empty.
            max_documents: how many documents a row may hold, at least 1; None: L.

        An element is a dict: `tokens` [L]; `position_ids` [L], which count from 0 in each document; `loss_mask` [L],
        True for tokens with a token of the same document before them, so `torch.where(loss_mask, tokens, -100)` are
        labels for a model that shifts them itself; and `cu_seqlens` [min(max_documents + 1, L) + 1], int32, the bounds
        of the documents as attention over sequences of varying length takes them: the padding counts as a document, and
        the last bound is repeated. A document that was cut begins anew in the next row.

        The elements come in sequence, and their number is not known beforehand. A saved position is small, also in the
        middle of a document; to resume, at most the documents of one row or one `window` are read again, or 4,096 short
        ones. Raises TypeError and ValueError for elements that are not such sequences.

        >>> documents = tdi.Dataset.from_generator(lambda: [torch.tensor([1, 2, 3]), torch.tensor([4, 5])], None)
        >>> for row in documents.pack(4, pad_id=9):
        ...     print(row["tokens"].tolist(), row["position_ids"].tolist(), row["cu_seqlens"].tolist())
        [1, 2, 3, 4] [0, 1, 2, 0] [0, 3, 4, 4, 4]
        [5, 9, 9, 9] [0, 0, 0, 0] [0, 1, 4, 4, 4]
        """
        op = "pack"
        return self._wrapped(
            _C.pack(
                self._native,
                integer(op, "sequence_length", sequence_length),
                optional_text(op, "key", key),
                text(op, "strategy", strategy),
                integer(op, "window", window),
                integer(op, "pad_id", pad_id),
                optional_integer(op, "max_documents", max_documents),
            )
        )
