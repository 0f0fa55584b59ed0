# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Methods of `Dataset` for sequences of tokens."""

from collections.abc import Sequence
from typing import Any

from torch_distinput import _C
from torch_distinput.base._arguments import (
    Path,
    count,
    file_names,
    integer,
    optional_integer,
    optional_text,
    sequence,
    text,
)
from torch_distinput.ops._base import Call, Dataset, Ops, remember
from torch_distinput.ops._description import described
from torch_distinput.ops._tokenize import TokenCache, Tokenize
from torch_distinput.recognize._tokenizers import batch_call
from torch_distinput.typing import PackStrategy

# Texts that a tokenizer gets with one call: enough for each of many CPUs, and made in some milliseconds.
_TEXTS_TOGETHER = 256


class TokenOps(Ops[Dataset]):
    """What `Dataset` does with documents of tokens."""

    @described
    def tokenize(
        self,
        tokenizer: Any,
        key: str | None = None,
        num_parallel_calls: int | None = None,
        cache: int | None = None,
    ) -> Dataset:
        """Texts as tokens, int64 of shape [any length], by the batch call of the tokenizer.

        Args:
            tokenizer: a `tokenizers.Tokenizer`, a fast tokenizer of transformers, a `tiktoken.Encoding`, a
                `sentencepiece.SentencePieceProcessor`, or a function from a list of texts to a list of sequences of
                token numbers.
            key: the entry of dict elements that holds the text, and then the tokens; other entries stay. None where
                elements are bare texts. Texts are `str`, or `bytes` of UTF-8.
            num_parallel_calls: how many calls run at a time, each on a thread of its own; None runs them in the
                consumer's thread. The tokenizers use all CPUs in each call; 2 lets one call begin while the tokens of
                another are taken over. Without effect on the sequential path.
            cache: bytes for the tokens of the texts that came last, which are looked up by a hash of the text when it
                comes again. Each process has its own. None keeps nothing.

        Nothing is cut, padded or added that the tokenizer is not set up to: `tokenizers.Tokenizer` does what its
        `enable_truncation`, `enable_padding` and `post_processor` say, transformers' what `tokenizer(texts)` does,
        which is to add special tokens only. tiktoken and SentencePiece add none, and text that looks like a special
        token is text. transformers' is copied, so that later changes of it have no effect.

        Texts are handed over in blocks of up to 256, where so many are read at once: by `pack` and other iterators, and
        by a batch, which hands over its rows. Rows and their order do not depend on that, and random access stays. An
        error names the row and the key: a block that fails is handed over again text by text.

        >>> documents = tdi.Dataset.from_tensor_slices(["ab", "c"])
        >>> list(documents.tokenize(lambda texts: [[ord(letter) for letter in text] for text in texts]))
        [tensor([97, 98]), tensor([99])]
        """
        op = "tokenize"
        key = optional_text(op, "key", key)
        encode = batch_call(tokenizer)
        if encode is None:
            raise TypeError(
                "tokenize: `tokenizer` must be a tokenizer of tokenizers, transformers (fast), tiktoken or "
                f"SentencePiece, or a function of a list of texts, but is a {type(tokenizer).__name__}."
            )
        kept = None if cache is None else TokenCache(count(op, "cache", cache))
        name = getattr(encode, "__name__", type(encode).__name__)
        calls = optional_integer(op, "num_parallel_calls", num_parallel_calls)
        tokens = self._wrapped(_C.map_blocks(self._native, Tokenize(encode, name, key, kept), calls, _TEXTS_TOGETHER))
        remember(tokens, Call(op, (self, encode, key, num_parallel_calls, cache), {}))
        return tokens

    @described
    def pack(
        self,
        sequence_length: int,
        key: str | None = None,
        strategy: PackStrategy = "greedy",
        window: int = 1024,
        pad_id: int = 0,
        max_documents: int | None = None,
        keys: Sequence[str] = (),
        pad_to_multiple_of: int = 1,
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
            keys: entries of dict elements that travel with their documents, such as the patches of their pictures:
                dense, with any length along dim 0, else alike. Needs "best_fit", and documents of at most L tokens,
                because a document that is cut would have to cut them, too.
            pad_to_multiple_of: what the places of each document in a row are a multiple of: it is padded at its end, by
                tokens `pad_id` that belong to it in `cu_seqlens` and `position_ids`, but not in `loss_mask`. L must be
                a multiple too, m * k, and k takes the place of L in the shape of `cu_seqlens`. For context parallelism
                of n peers 2 * n; see `SequenceCut`.

        An element is a dict: `tokens` [L]; `position_ids` [L], which count from 0 in each document; `loss_mask` [L],
        True for tokens with a token of the same document before them, so `torch.where(loss_mask, tokens, -100)` are
        labels for a model that shifts them itself; and `cu_seqlens` [min(max_documents + 1, L) + 1], int32, the bounds
        of the documents as attention over sequences of varying length takes them: the padding counts as a document, and
        the last bound is repeated. A document that was cut begins anew in the next row. For each of `keys` there are
        two entries more: `key`, those of the row's documents joined along dim 0, and `key`_cu_seqlens, int32, as long
        as `cu_seqlens`, with the bounds of the same documents in it. Rows then differ in length, and `ragged_batch`
        joins them. Documents without tokens are in no row, nor is what would travel with them.

        Rows have random access where the documents have it and their lengths are known without reading them: whole
        documents of `TokenDataset`, list columns and jagged tensors in memory, rows of one shape, elements
        `with_lengths`; also after ops that choose and order elements. Rows can then be shuffled and sharded, each
        process reads the tokens of its own rows only, a position is a number, `explain()` tells how well rows are
        filled, and `len` is known where it is the same in each epoch: not where the documents are shuffled anew before
        "best_fit" or `max_documents`. Otherwise they come in sequence, and their number is not known beforehand. A
        saved position is small then, too, also in the middle of a document; to resume, at most the documents of one row
        or one `window` are read again, or 4,096 short ones. Both ways yield the same rows.

        Raises TypeError and ValueError for elements that are not such sequences, and with `keys` for a document of more
        than L tokens, which they name.

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
                sequence(op, "keys", keys, text),
                integer(op, "pad_to_multiple_of", pad_to_multiple_of),
            )
        )

    @described
    def with_lengths(self, path: Path | None = None, key: str | None = None) -> Dataset:
        """The same elements, whose lengths along dim 0 are stored, so that `pack` has random access to its rows.

        For documents whose lengths nothing tells before they are made: text that is tokenized, lists in Parquet files.

        Args:
            path: the file with the lengths. None: a hidden file beside the first file that the dataset reads, or one in
                the user's cache folder, as with indexes of records.
            key: the entry of dict elements whose length is meant: that with the tokens. None where there is only one.

        The lengths are read from the file, or else counted once, when they are first needed, by reading all elements;
        a bar shows how far that is. One process of a host counts. They are counted anew where ops, files (name, size,
        time of change), the number of elements or the file itself are not those that were stored. What a function does
        is not compared, but each element that is read is: one of another length is an InvalidArgumentError.

        Elements need random access and the same order in each epoch, so it stands before what shuffles them; without
        random access the elements pass through. Raises ValueError where the order is drawn, or a `path` is needed, and
        InvalidArgumentError for a file that holds something else.

        >>> texts = tdi.Dataset.from_tensor_slices(["to be", "or not to be"])
        >>> tokens = texts.map(lambda text: torch.tensor([len(word) for word in text.split()]))
        >>> rows = tokens.with_lengths("lengths.tdi").shuffle(seed=1).pack(3)
        >>> len(rows), [row["tokens"].tolist() for row in rows]
        (2, [[2, 2, 2], [3, 2, 2]])
        """
        op = "with_lengths"
        [name] = [None] if path is None else file_names([path], f"{op}: `path`")
        return self._wrapped(_C.with_lengths(self._native, name, optional_text(op, "key", key)))
