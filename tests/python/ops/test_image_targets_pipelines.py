# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Masks and boxes in pipelines: the laws, how far their declaration reaches, and what it refuses."""

import numpy as np
import pytest
import torch
from decoders import needs_decoders
from masks_and_boxes import coordinates, dataset, one, png, random_boxes

import torch_distinput as tdi
from torch_distinput.testing import assert_paths_agree, assert_resumable


def segmented(count: int = 7) -> tdi.Dataset:
    """Rows with other sizes, other numbers of boxes, and encoded images and masks."""
    generator = np.random.default_rng(2)
    images, masks, boxes = [], [], []
    for i in range(count):
        height, width = 20 + 3 * i, 40 - 2 * i
        images.append(png(generator.integers(0, 256, (height, width), dtype=np.uint8), "RGB"))
        masks.append(png(generator.integers(0, 256, (height, width), dtype=np.uint8)))
        boxes.append(random_boxes(generator, i % 3, "XYXY", torch.float32))
    jagged = torch.nested.nested_tensor(boxes, layout=torch.jagged)
    return tdi.Dataset.from_tensor_slices(
        {"mask": masks, "image": images, "boxes": jagged, "number": torch.arange(count)}
    )


def augmented(rows: tdi.Dataset) -> tdi.Dataset:
    rows = rows.decode_image("image").with_image_targets("mask", "boxes", key="image")
    return rows.random_resized_crop(16, scale=(0.2, 1)).horizontal_flip().rotate90().color_jitter(0.4)


@needs_decoders
def test_laws():
    rows = segmented()
    options = tdi.Options(seed=5)
    for batched in (
        augmented(rows).ragged_batch(3),
        augmented(rows.shuffle(seed=3)).ragged_batch(2),
        augmented(rows).shuffle(seed=1).random_crop(9).padded_batch(3),
        augmented(rows.filter(lambda row: True)).ragged_batch(2),
    ):
        assert_resumable(batched.with_options(options))
    assert_paths_agree(augmented(rows).ragged_batch(3).with_options(options))
    dense = augmented(rows).map(lambda row: {**row, "boxes": torch.zeros(3, 4)}).with_options(options)
    assert_paths_agree(dense.batch(3))


@needs_decoders
def test_ops_in_one_program_are_as_ops_apart():
    rows = segmented().decode_image("image").with_image_targets("mask", "boxes", key="image")

    def chain(between):
        rows_ = between(between(rows).resize((30, 33), "nearest")).center_crop((25, 40))
        return between(between(rows_.rotate90(1)).pad((1, 2)).horizontal_flip(1.0)).resize(14, "nearest")

    for left, right in zip(chain(lambda ds: ds), chain(lambda ds: ds.prefetch(1)), strict=True):
        for key in ("image", "mask", "boxes"):
            assert torch.equal(left[key], right[key]), key


@needs_decoders
def test_a_row_gets_the_same_on_any_threads_and_replicas():
    rows = augmented(segmented().shuffle(seed=2)).ragged_batch(4).with_options(tdi.Options(seed=5))

    def flat(batches):
        found = {"mask": [], "boxes": [], "image": []}
        for batch in batches:
            for key, parts in found.items():
                parts.extend(batch[key].unbind())
        return found

    def agree(found, expected):
        for key, parts in expected.items():
            assert all(torch.equal(*pair) for pair in zip(found[key], parts, strict=True)), key

    expected = flat(rows._native.iterate(epoch=1))
    assert len(expected["mask"]) == 7
    for threads in (0, 1, 3):
        agree(flat(rows.with_options(tdi.Options(num_threads=threads))._native.iterate(epoch=1)), expected)
    for replicas in (2, 3):
        distributed = tdi.MirroredStrategy(["cpu"] * replicas).distribute_dataset(rows)
        distributed.set_epoch(1)
        parts = [{key: step[key].values[i] for key in expected} for step in distributed for i in range(replicas)]
        agree(flat(parts), expected)


def plain(**leaves) -> tdi.Dataset:
    row = {"image": torch.zeros(2, 3, 6, 8, dtype=torch.uint8), "boxes": torch.zeros(2, 5, 4)} | leaves
    return tdi.Dataset.from_tensor_slices(row)


def test_batches_of_static_shape():
    masks = torch.arange(2 * 2 * 6 * 8, dtype=torch.uint8).reshape(2, 2, 6, 8)
    rows = plain(mask=masks, boxes=torch.tensor([[[0, 1, 2, 3]]] * 2)).with_image_targets("mask", "boxes")
    rows = rows.horizontal_flip(1.0).center_crop((2, 4)).batch(2)
    (batch,) = list(rows)
    assert rows.element_spec["mask"] == tdi.TensorSpec((None, 2, 2, 4), torch.uint8)
    assert torch.equal(batch["mask"], masks.flip(3)[:, :, 2:4, 2:6])
    assert batch["boxes"].tolist() == [[[4, 0, 4, 1]]] * 2
    assert_paths_agree(rows)


def test_an_image_whose_masks_are_declared_needs_no_key():
    rows = plain(mask=torch.zeros(2, 1, 6, 8, dtype=torch.uint8))
    with pytest.raises(ValueError, match="center_crop: `key` must name one leaf, because 2 leaves could be meant"):
        rows.center_crop(3)
    row = next(iter(rows.with_image_targets("mask", key="image").center_crop(3)))
    assert row["image"].shape == (3, 3, 3)
    assert row["mask"].shape == (1, 3, 3)


def test_nested_targets():
    boxes = torch.tensor([[[0.0, 1, 2, 3]]])
    row = (torch.zeros(1, 3, 4, 6, dtype=torch.uint8), {"boxes": boxes, "masks": torch.zeros(1, 2, 4, 6).bool()})
    rows = tdi.Dataset.from_tensor_slices(row).with_image_targets(masks=1, boxes=[1], key=0)
    _, target = one(rows.vertical_flip(1.0).resize((8, 6)))
    assert target["boxes"].tolist() == [[0, 2, 2, 6]]
    assert target["masks"].shape == (2, 8, 6)


def test_the_declaration_passes_ops_that_keep_the_structure():
    rows = plain(boxes=torch.tensor([[[0, 1, 2, 3]]] * 2)).with_image_targets(boxes="boxes")
    kept = rows.shuffle(seed=1).filter(lambda row: True).take(1).concatenate(rows.take(1)).cache()
    assert [row["boxes"].tolist() for row in kept.horizontal_flip(1.0)] == [[[6, 1, 8, 3]]] * 2


def test_an_op_that_changes_the_structure_ends_the_declaration_aloud():
    rows = plain(boxes=torch.tensor([[[0, 1, 2, 3]]] * 2)).with_image_targets(boxes="boxes")
    numbered = rows.enumerate()
    with pytest.raises(ValueError, match="vertical_flip: `enumerate` has changed what elements are made of"):
        numbered.vertical_flip()
    numbered.color_jitter(0.2)
    again = numbered.with_image_targets(boxes=1, key=1).horizontal_flip(1.0, key=1)
    assert [row["boxes"].tolist() for _, row in again] == [[[6, 1, 8, 3]]] * 2
    none = numbered.with_image_targets(key=1).horizontal_flip(1.0, key=1)
    assert [row["boxes"].tolist() for _, row in none] == [[[0, 1, 2, 3]]] * 2
    other = plain(boxes=torch.zeros(2, 1, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match="`concatenate` has changed"):
        rows.concatenate(other).vertical_flip()


def test_a_second_declaration_replaces_the_first():
    boxes = torch.tensor([[[0, 1, 2, 3]]] * 2)
    rows = plain(boxes=boxes, more=boxes + 1).with_image_targets(boxes=["boxes", "more"]).horizontal_flip(1.0)
    row = next(iter(rows.with_image_targets(boxes="more").vertical_flip(1.0)))
    assert row["boxes"].tolist() == [[6, 1, 8, 3]]
    assert row["more"].tolist() == [[5, 2, 7, 4]]


def test_ops_before_the_declaration_change_the_image_only():
    rows = plain(boxes=torch.tensor([[[0, 1, 2, 3]]] * 2), mask=torch.ones(2, 4, 6, dtype=torch.bool))
    rows = rows.center_crop((4, 6), key="image").with_image_targets("mask", "boxes", key="image").horizontal_flip(1.0)
    row = next(iter(rows))
    assert row["boxes"].tolist() == [[4, 1, 6, 3]]
    assert row["mask"].shape == row["image"].shape[1:]


def test_describe():
    rows = plain().with_image_targets(boxes=["boxes"], box_format="XYWH", key="image")
    assert "with_image_targets(masks=[], boxes=['boxes'], box_format=XYWH, key='image')" in str(rows.explain())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ds: ds.with_image_targets(boxes="boxes", box_format="YXYX"), '`box_format` must be one of "XYXY"'),
        (lambda ds: ds.with_image_targets(masks="boxes"), "no leaf that `masks` names is a mask"),
        (lambda ds: ds.with_image_targets(boxes="image"), "no leaf that `boxes` names is a tensor of boxes"),
        (lambda ds: ds.with_image_targets(boxes="other"), '`boxes` "other" names no part of the elements'),
        (
            lambda ds: ds.with_image_targets(boxes=["boxes", "boxes"]),
            "`boxes` names leaf \\['boxes'\\], which is an image or",
        ),
        (lambda ds: ds.with_image_targets(masks="image"), "`masks` names leaf \\['image'\\], which is an image"),
        (
            lambda ds: ds.with_image_targets(masks="small"),
            "mask leaf \\['small'\\] must be as large as its image, \\(6, 8\\), but is \\(6, 7\\)",
        ),
        (
            lambda ds: ds.with_image_targets(boxes="boxes").pad(1, padding_mode="edge"),
            "pad: `padding_mode` must be \"constant\" where boxes follow the image, as leaf \\['boxes'\\] does",
        ),
        (
            lambda ds: ds.with_image_targets(boxes="boxes").random_crop(3, 1, padding_mode="reflect"),
            'random_crop: `padding_mode` must be "constant"',
        ),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(call, message):
    with pytest.raises(ValueError, match=message):
        call(plain(small=torch.zeros(2, 6, 7, dtype=torch.bool)))


@pytest.mark.parametrize("masks", [3.5, True, [None], ["mask", 1.0]])
def test_names_of_wrong_types(masks):
    with pytest.raises(TypeError, match="with_image_targets: `masks` must be a str, an int or a sequence of them"):
        plain().with_image_targets(masks=masks)


def test_rows_of_wrong_shapes():
    def rows(boxes=torch.zeros(2, 4), mask=torch.zeros(6, 8, dtype=torch.uint8)):  # noqa: B008
        spec = {
            "image": tdi.TensorSpec((3, 6, 8), torch.uint8),
            "boxes": tdi.TensorSpec(None, boxes.dtype),
            "mask": tdi.TensorSpec(None, mask.dtype),
        }
        row = {"image": torch.zeros(3, 6, 8, dtype=torch.uint8), "boxes": boxes, "mask": mask}
        made = tdi.Dataset.from_generator(lambda: iter([row]), spec)
        return list(made.with_image_targets("mask", "boxes", key="image").vertical_flip())

    rows()
    where = "with_image_targets: row 0, leaf "
    with pytest.raises(
        tdi.InvalidArgumentError, match=where + r"\['boxes'\]: boxes must be .*float32 of shape \(2, 5\)"
    ):
        rows(boxes=torch.zeros(2, 5))
    with pytest.raises(
        tdi.InvalidArgumentError, match=where + r"\['mask'\]: a mask must be as large .* 6 x 8, but is 8 x 6"
    ):
        rows(mask=torch.zeros(8, 6, dtype=torch.uint8))
    with pytest.raises(
        tdi.InvalidArgumentError, match=where + r"\['mask'\]: a mask must be uint8 or bool.*of shape \(8,\)"
    ):
        rows(mask=torch.zeros(8, dtype=torch.uint8))


def test_what_follows_is_a_copy():
    boxes, mask = torch.tensor([[0, 1, 2, 3]]), torch.arange(48, dtype=torch.uint8).reshape(6, 8)
    one(dataset(coordinates(8, 6), mask, boxes).horizontal_flip(1.0))
    assert boxes.tolist() == [[0, 1, 2, 3]]
    assert mask[0].tolist() == list(range(8))


def test_ops_on_images_without_targets_run_no_function_to_look_for_some():
    calls = []

    def counting(image):
        calls.append(image)
        return image

    image = tdi.TensorSpec((3, 8, 8), torch.uint8)
    images = tdi.Dataset.from_tensor_slices(torch.zeros(3, 3, 8, 8, dtype=torch.uint8)).map(counting)
    images.map(counting, element_spec=image).center_crop(4).horizontal_flip()
    assert calls == []
