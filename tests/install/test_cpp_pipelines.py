# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The same pipelines, random ones, give the same elements in C++ and in Python."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from installed import build, run

import torch_distinput as tdi

PIPELINES = 50


def random_pipeline(draw: random.Random) -> dict[str, Any]:
    """A description that both languages can build: `size` rows, and ops with their numbers."""
    ops: list[list[Any]] = []
    batched = False
    for _ in range(draw.randint(1, 6)):
        kind = draw.choice(["order", "length", "buffer", "map", "batch"])
        if kind == "order":
            ops.append(
                draw.choice(
                    [["unseeded_shuffle"], ["shuffle", draw.randrange(99)], ["windowed_shuffle", 3, draw.randrange(99)]]
                )
            )
            if any(op[0] in ("filter", "unbatch", "rebatch") for op in ops):  # their number of elements is not known
                ops[-1] = ["windowed_shuffle", draw.randint(1, 9), draw.randrange(99)]
        elif kind == "length":
            ops.append(
                draw.choice(
                    [
                        ["take", draw.randint(0, 15)],
                        ["skip", draw.randint(0, 5)],
                        ["repeat", draw.randint(1, 2)],
                        ["shard", 2, draw.randrange(2)],
                        ["concatenate", draw.randint(0, 4)],
                    ]
                )
            )
        elif kind == "buffer":
            ops.append(draw.choice([["cache"], ["prefetch", 2]]))
        elif kind == "map":
            ops.append(draw.choice([["map", 3], ["parallel_map", 5], ["filter", 3]]))
        elif batched:
            batched = draw.random() < 0.5
            ops.append(["rebatch", draw.randint(1, 4), draw.randint(0, 3)] if batched else ["unbatch"])
        else:
            batched = True
            ops.append(["batch", draw.randint(1, 5), draw.randrange(2)])
    ops.append(["seed", draw.randrange(99)])
    return {"size": draw.randint(1, 20), "ops": ops, "batched": batched}


def with_op(dataset: tdi.Dataset, name: str, *numbers: int) -> tdi.Dataset:
    first = numbers[0] if numbers else 0
    ops = {
        "shuffle": lambda: dataset.shuffle(seed=first),
        "unseeded_shuffle": lambda: dataset.shuffle(),
        "windowed_shuffle": lambda: dataset.shuffle(first, seed=numbers[1]),
        "batch": lambda: dataset.batch(first, drop_remainder=numbers[1] == 1),
        "unbatch": lambda: dataset.unbatch(),
        "rebatch": lambda: dataset.rebatch(list(numbers)),
        "repeat": lambda: dataset.repeat(first),
        "take": lambda: dataset.take(first),
        "skip": lambda: dataset.skip(first),
        "shard": lambda: dataset.shard(*numbers),
        "concatenate": lambda: dataset.concatenate(dataset.take(first)),
        "cache": lambda: dataset.cache(),
        "prefetch": lambda: dataset.prefetch(first),
        "seed": lambda: dataset.with_options(tdi.Options(seed=first)),
        "map": lambda: dataset.map(lambda x: x + first),
        "parallel_map": lambda: dataset.map(lambda x: x + first, num_parallel_calls=2),
        "filter": lambda: dataset.filter(lambda x: x.sum() % first != 0),
    }
    return ops[name]()


def text(tensor: Any) -> str:
    return "".join(f"{item} " for item in tensor.flatten().tolist())


def lines(pipeline: dict[str, Any]) -> list[str]:
    """What tests/install/processes/pipelines.cpp prints for it."""
    dataset = tdi.Dataset.range(pipeline["size"])
    for name, *numbers in pipeline["ops"]:
        dataset = with_op(dataset, name, *numbers)
    found = []
    for epoch in range(2):
        dataset.set_epoch(epoch)
        found += [text(element) for element in dataset]
    if pipeline["batched"]:
        dataset.set_epoch(0)
        steps = tdi.MirroredStrategy(["cpu"] * 3).distribute_dataset(dataset)
        found += ["".join(f"{text(part)}| " for part in step.values) for step in steps]
    return found


@pytest.mark.slow
def test_random_pipelines_are_the_same_in_both_languages(prefix: Path, tmp_path: Path):
    draw = random.Random(7)
    pipelines = [random_pipeline(draw) for _ in range(PIPELINES)]
    file = tmp_path / "pipelines.json"
    file.write_text(json.dumps(pipelines))
    folder = build("processes", prefix)
    run("cmake", "--build", folder, "--target", "pipelines", timeout=900)
    blocks = run(folder / "pipelines", file, timeout=60).split("end\n")[:-1]
    assert len(blocks) == PIPELINES
    for pipeline, block in zip(pipelines, blocks):
        assert block.splitlines() == lines(pipeline), pipeline
