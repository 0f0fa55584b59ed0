# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Random crops and flips whose numbers belong to the row: equal on 1 and 4 threads, and after a restore."""

import torch

import torch_distinput as tdi

CROP = 24


def augment(row: dict) -> dict:
    """A random 24 x 24 crop, mirrored half of the time. The generator is this row's own."""
    generator = tdi.random()
    top, left = torch.randint(0, row["image"].shape[1] - CROP + 1, (2,), generator=generator).tolist()
    image = row["image"][:, top : top + CROP, left : left + CROP]
    if torch.rand((), generator=generator) < 0.5:
        image = image.flip(2)
    return {"image": image.float() / 255, "label": row["label"]}


def batches(images: torch.Tensor, threads: int | None) -> tdi.Dataset:
    rows = tdi.Dataset.from_tensor_slices({"image": images, "label": torch.arange(len(images))})
    pipeline = rows.shuffle().map(augment, num_parallel_calls=threads).batch(32)
    return pipeline.with_options(tdi.Options(seed=7))


def equal(left: list[dict], right: list[dict]) -> bool:
    return len(left) == len(right) and all(torch.equal(a[key], b[key]) for a, b in zip(left, right) for key in a)


def main() -> None:
    images = torch.randint(0, 256, (256, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    one, four = batches(images, threads=None), batches(images, threads=4)
    first = list(one)
    print(f"1 and 4 threads agree: {equal(first, list(four))}")
    print(f"the next epoch differs: {not equal(first, list(one))}")

    iterator = iter(batches(images, threads=4))
    for _ in range(3):
        next(iterator)
    state = iterator.state_dict()
    resumed = iter(batches(images, threads=None))
    resumed.load_state_dict(state)
    print(f"resumed after batch 3 alike: {equal(list(resumed), first[3:])}")


if __name__ == "__main__":
    main()
