# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Texts to packed rows of tokens, beside the bare batch call of each tokenizer over the same texts.

    python benchmarks/python/text_to_tokens.py --json benchmarks/results/text_to_tokens.json

The bare call gets 256 texts at a time and throws its result away; for tokenizers of Hugging Face there are two of them,
with and without offsets. All sides run in turn on all CPUs. Processor time counts beside time where others use CPUs.
"""

import argparse
import io
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import machine
import sentencepiece
import tiktoken
import tokenizers

import torch_distinput as tdi

LENGTH, TOGETHER = 2048, 256


def make_texts(count: int) -> list[str]:
    """English-like: words by Zipf's law, documents of lognormal length."""
    rng = random.Random(1)
    words = ["".join(rng.choices("etaoinshrdlucmfwypvbgkjqxz", k=rng.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=max(5, int(rng.lognormvariate(5, 1))))) for _ in range(count)]


def hugging_face(texts: list[str]) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=8000, show_progress=False)
    tokenizer.train_from_iterator(texts[:1000], trainer)
    return tokenizer


def of_tiktoken(tokenizer: tokenizers.Tokenizer) -> tiktoken.Encoding:
    """With the merges of a tokenizer of bytes."""
    letters = {letter: byte for byte, letter in enumerate(_byte_letters())}
    ranks = {bytes([byte]): byte for byte in range(256)}
    for word, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        ranks.setdefault(bytes(letters[letter] for letter in word), len(ranks))
    return tiktoken.Encoding("trained", pat_str=r" ?\S+|\s+", mergeable_ranks=ranks, special_tokens={})


def _byte_letters() -> list[str]:
    """The letters that byte-level tokenizers write for bytes, as GPT-2 has them."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) if byte in shown else chr(256 + hidden.index(byte)) for byte in range(256)]


def of_sentencepiece(texts: list[str]) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts[:1000]), model_writer=model, vocab_size=4000, model_type="bpe", minloglevel=2
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def in_blocks(texts: list[str], call: Callable[[list[str]], object]) -> Callable[[], None]:
    def run() -> None:
        for begin in range(0, len(texts), TOGETHER):
            call(texts[begin : begin + TOGETHER])

    return run


def packed(dataset: tdi.Dataset) -> Callable[[], None]:
    def run() -> None:
        for _ in dataset.pack(LENGTH):
            pass

    return run


def sides(texts: list[str]) -> dict[str, dict[str, Callable[[], None]]]:
    """For each tokenizer its bare calls, the first of which counts, and this library."""
    rows = tdi.Dataset.from_tensor_slices(texts)
    stream = tdi.Dataset.from_generator(lambda: texts, None)
    fast, cpus = hugging_face(texts), machine.describe(())["machine"]["cpus"]
    other, pieces = of_tiktoken(fast), of_sentencepiece(texts)
    bare = {
        "tokenizers": {"encode_batch": fast.encode_batch, "encode_batch_fast": fast.encode_batch_fast},
        "tiktoken": {"encode_ordinary_batch": lambda block: other.encode_ordinary_batch(block, num_threads=cpus)},
        "sentencepiece": {"encode": lambda block: pieces.encode(block, out_type=int, num_threads=cpus)},
    }
    return {
        name: {
            **{f"bare {call}": in_blocks(texts, function) for call, function in bare[name].items()},
            "torch_distinput": packed(rows.tokenize(tokenizer)),
            "torch_distinput, 2 calls": packed(rows.tokenize(tokenizer, num_parallel_calls=2)),
            "torch_distinput, generator": packed(stream.tokenize(tokenizer)),
        }
        for name, tokenizer in (("tokenizers", fast), ("tiktoken", other), ("sentencepiece", pieces))
    }


def measured(run: Callable[[], None]) -> tuple[float, float]:
    """Seconds and processor seconds."""
    start, used = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start, time.process_time() - used


def compared(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, dict[str, float]]:
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name in list(runs)[:: 1 if number % 2 == 0 else -1]:
            found = measured(runs[name])
            if number > 0:  # the first round warms up
                times[name].append(found)
    medians = {name: [statistics.median(column) for column in zip(*found)] for name, found in times.items()}
    limit = next(iter(medians.values()))
    return {
        name: {
            "seconds": round(seconds, 4),
            "cpu_seconds": round(used, 4),
            "speed_of_bare": round(limit[0] / seconds, 3),
            "speed_of_bare_by_cpu": round(limit[1] / used, 3),
        }
        for name, (seconds, used) in medians.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--texts", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    neighbours = machine.Neighbours()
    texts = make_texts(arguments.texts)
    results = {name: compared(runs, arguments.rounds) for name, runs in sides(texts).items()}
    for name, runs in results.items():
        for side, cost in runs.items():
            print(
                f"{name:14} {side:28} {cost['seconds']:8.4f} s, {cost['speed_of_bare']:6.3f} of the speed of bare, "
                f"{cost['speed_of_bare_by_cpu']:6.3f} by processor time"
            )
    others = round(neighbours.cores(), 2)
    print(f"others used {others} cores")
    if arguments.json:
        content = {
            **machine.describe(("torch", "tokenizers", "tiktoken", "sentencepiece")),
            "others_used_cores": others,
            "texts": len(texts),
            "bytes": sum(len(text.encode()) for text in texts),
            "text_to_packed_tokens": results,
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
