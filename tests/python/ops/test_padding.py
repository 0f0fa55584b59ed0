# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""padded_batch and bucket_by_length, against references in plain Python."""

import pipelines
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_distinput as tdi

Ragged = list[list[int]]
ROWS = st.lists(st.lists(st.integers(-9, 9), max_size=5), max_size=9)


def from_rows(rows: Ragged, stream: bool = False) -> tdi.Dataset:
    """Element i is row i as an int64 vector, from a source with or without random access."""
    tensors = [torch.tensor(row, dtype=torch.int64) for row in rows]
    if stream:
        return tdi.Dataset.from_generator(lambda: iter(tensors), tdi.TensorSpec((None,), torch.int64))
    return tdi.Dataset.from_torch(tensors)


def padded(rows: Ragged, length: int | None = None, value: int = 0) -> Ragged:
    length = max(map(len, rows)) if length is None else length
    return [row + [value] * (length - len(row)) for row in rows]


def lists(dataset: tdi.Dataset) -> list[Ragged]:
    return [batch.tolist() for batch in dataset]


@given(ROWS, st.integers(1, 4), st.booleans(), st.booleans(), st.integers(-1, 1))
def test_rows_are_padded_to_the_longest_of_their_batch(rows, size, drop, stream, value):
    dataset = from_rows(rows, stream).padded_batch(size, padding_values=value, drop_remainder=drop)
    groups = [rows[i : i + size] for i in range(0, len(rows), size)]
    expected = [padded(group, value=value) for group in groups if len(group) == size or not drop]
    assert lists(dataset) == expected
    if not stream:
        assert len(dataset) == len(expected)
    assert pipelines.elements(dataset) == pipelines.elements(dataset, stream_only=True)
    tdi.testing.assert_resumable(dataset)


@given(ROWS, st.integers(1, 4))
def test_a_declared_dim_is_the_length_of_all(rows, size):
    dataset = from_rows(rows).padded_batch(size, padded_shapes=[5])
    assert lists(dataset) == [padded(rows[i : i + size], 5) for i in range(0, len(rows), size)]
    assert dataset.element_spec.shape == (None, 5) if rows else True


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4))
def test_every_dim_is_padded_on_its_own(sizes):
    rows = [torch.arange(a * b).reshape(a, b) + 1 for a, b in sizes]
    (batch,) = tdi.Dataset.from_torch(rows).padded_batch(len(rows), padding_values=-1)
    room = [max(a for a, _ in sizes), max(b for _, b in sizes)]
    for row, result in zip(rows, batch):
        expected = torch.full(room, -1)
        expected[: row.shape[0], : row.shape[1]] = row
        assert torch.equal(result, expected)


def test_rows_that_are_not_contiguous_are_padded_alike():
    rows = [torch.arange(6).reshape(2, 3).t(), torch.arange(10)[::2].reshape(1, 5)[:, :2]]
    (batch,) = tdi.Dataset.from_torch(rows).padded_batch(2)
    assert batch.tolist() == [[[0, 3], [1, 4], [2, 5]], [[0, 2], [0, 0], [0, 0]]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int16, torch.float16, torch.float64, torch.complex64])
def test_any_dtype_is_padded(dtype):
    rows = [torch.ones(2, dtype=dtype), torch.ones(1, dtype=dtype)]
    (zeros,) = tdi.Dataset.from_torch(rows).padded_batch(2)
    (ones,) = tdi.Dataset.from_torch(rows).padded_batch(2, padding_values=1)
    assert zeros.dtype == ones.dtype == dtype
    assert (zeros == torch.tensor([[1, 1], [1, 0]])).all() and (ones == 1).all()


def structured() -> tdi.Dataset:
    rows = [{"x": torch.ones(n), "y": torch.tensor(n), "z": torch.ones(n, 2, dtype=torch.int64)} for n in (1, 3)]
    return tdi.Dataset.from_torch(rows)


def test_shapes_and_values_have_the_structure_of_the_elements():
    shapes = {"x": [None], "y": [], "z": (4, -1)}
    (batch,) = structured().padded_batch(2, shapes, {"x": 0.5, "y": 0, "z": -1})
    assert batch["x"].tolist() == [[1, 0.5, 0.5], [1, 1, 1]]
    assert batch["y"].tolist() == [1, 3]
    assert batch["z"].shape == (2, 4, 2) and batch["z"][0, 1:].eq(-1).all()
    pairs = tdi.Dataset.from_torch([(torch.ones(1), torch.ones(2)), (torch.ones(2), torch.ones(1))])
    first, second = next(iter(pairs.padded_batch(2, ([3], [None]), (7, 8))))
    assert first.tolist() == [[1, 7, 7], [1, 1, 7]] and second.tolist() == [[1, 1], [1, 8]]
    assert pairs.padded_batch(2, ([3], [None])).element_spec[0].shape == (None, 3)


def test_strings_are_padded_with_strings():
    rows = [(["a", "bb"], torch.ones(1)), (["c"], torch.ones(2))]
    spec = (tdi.StringSpec([None]), tdi.TensorSpec([None]))
    dataset = tdi.Dataset.from_generator(lambda: iter(rows), spec)
    ((strings, numbers),) = dataset.padded_batch(2)
    assert strings == [["a", "bb"], ["c", ""]] and numbers.tolist() == [[1, 0], [1, 1]]
    ((strings, _),) = dataset.padded_batch(2, ([3], [None]), ("-", 0))
    assert strings == [["a", "bb", "-"], ["c", "-", "-"]]
    assert dataset.padded_batch(2, ([3], [None])).element_spec[0] == tdi.StringSpec([None, 3])
    with pytest.raises(ValueError, match=r"leaf \[1\] is the string '-', but a tensor is padded with a number"):
        list(dataset.padded_batch(2, padding_values="-"))
    with pytest.raises(ValueError, match=r"leaf \[0\] is 1, but strings are padded with a string"):
        list(dataset.padded_batch(2, padding_values=1))
    tdi.testing.assert_resumable(dataset.padded_batch(2))


def test_unique_strings():
    assert list(tdi.Dataset.from_tensor_slices(["a", "b", "a", "", "b"]).unique()) == ["a", "b", ""]


def test_a_float_value_keeps_its_precision():
    rows = [torch.ones(1, dtype=torch.float64), torch.ones(2, dtype=torch.float64)]
    (batch,) = tdi.Dataset.from_torch(rows).padded_batch(2, padding_values=0.1)
    assert batch[0, 1].item() == 0.1


def error_of(dataset: tdi.Dataset, **arguments) -> str:
    with pytest.raises(ValueError) as caught:
        list(dataset.padded_batch(2, **arguments))
    return str(caught.value)


def test_errors_name_leaf_row_and_shapes():
    long = tdi.Dataset.from_torch([{"x": torch.ones(1)}, {"x": torch.ones(5)}])
    assert error_of(long, padded_shapes={"x": [4]}) == (
        "padded_batch: leaf ['x'] has the shape (5,) in row 1 of the batch, which is more than `padded_shapes` allows: "
        "(4,)."
    )
    assert "leaf ['x'] has the shape (1,)" in error_of(long, padded_shapes={"x": [4, 4]})
    assert "`padded_shapes` must have the structure of the elements, {'x': *}, but is *" in error_of(
        long, padded_shapes=[4]
    )
    assert "`padding_values` must have the structure of the elements" in error_of(long, padding_values={"y": 0})
    ints = tdi.Dataset.from_torch([torch.ones(1, dtype=torch.uint8), torch.ones(2, dtype=torch.uint8)])
    assert error_of(ints, padding_values=-1) == (
        "padded_batch: `padding_values` for the element is -1, which torch.uint8 cannot hold."
    )
    assert "is 0.5, which torch.uint8 cannot hold" in error_of(ints, padding_values=0.5)
    ranks = tdi.Dataset.from_torch([torch.ones(1), torch.ones(1, 1)])
    assert "must have one number of dims, but has the shape (1,) in row 0 of the batch and (1, 1) in row 1" in error_of(
        ranks
    )


@pytest.mark.parametrize(("value", "shown"), [(1e6, "1e+06"), (100_000, "100000"), (2j, "0,2")])
def test_a_value_that_the_dtype_cannot_hold_is_refused(recwarn, value, shown):
    rows = tdi.Dataset.from_torch([torch.ones(1, dtype=torch.float16), torch.ones(2, dtype=torch.float16)])
    message = error_of(rows, padding_values=value)
    assert message.startswith("padded_batch: `padding_values`") and shown in message and "torch.float16" in message
    assert not recwarn.list


def test_infinity_is_a_value_like_others():
    rows = tdi.Dataset.from_torch([torch.ones(1, dtype=torch.float16), torch.ones(2, dtype=torch.float16)])
    (batch,) = rows.padded_batch(2, padding_values=float("-inf"))
    assert batch[0].tolist() == [1, float("-inf")]


def test_bytes_pad_text_where_they_are_utf8():
    text = tdi.Dataset.from_generator(lambda: iter([["a"], ["b", "c"]]), tdi.StringSpec([None]))
    assert list(text.padded_batch(2, padding_values=b"-")) == [[["a", "-"], ["b", "c"]]]
    dataset = text.padded_batch(2, padding_values=b"\xff")
    assert r"padding_values=b'\xff'" in repr(dataset)
    message = error_of(text, padding_values=b"\xff")
    assert message.startswith("padded_batch: `padding_values`") and r"b'\xff'" in message
    raw = tdi.Dataset.from_generator(lambda: iter([[b"a"], [b"b", b"c"]]), tdi.StringSpec([None], None))
    for value, padded_with in ((b"\xff", b"\xff"), (b"-", b"-"), ("-", b"-")):
        assert list(raw.padded_batch(2, padding_values=value)) == [[[b"a", padded_with], [b"b", b"c"]]]


def test_shapes_that_no_memory_holds():
    rows = from_rows([[1], [2, 3]])
    assert error_of(rows, padded_shapes=[2**62]) == (
        f"padded_batch: `padded_shapes` makes the element a batch of the shape (2, {2**62}), which is more than any "
        "memory holds."
    )


def test_no_shapes_are_printed_as_such():
    unknown = tdi.Dataset.from_generator(lambda: iter([]), None)
    assert "padded_shapes=[])" in repr(unknown.padded_batch(2, padded_shapes={}))


def test_wrong_arguments_are_refused_when_the_op_is_called():
    rows = pipelines.slices(4)
    with pytest.raises(ValueError, match="padded_batch: `batch_size` must be at least 1, but is 0"):
        rows.padded_batch(0)
    with pytest.raises(ValueError, match=r"leaf \['x'\] has the shape \(2,\), which cannot be padded to \(1,\)"):
        rows.padded_batch(2, {"id": [], "x": [1]})
    with pytest.raises(ValueError, match="dims of at least 0, -1 or None, but has -2"):
        rows.padded_batch(2, {"id": [], "x": [-2]})
    with pytest.raises(TypeError, match="sequences of ints and None, but has 3"):
        rows.padded_batch(2, {"id": [], "x": 3})
    with pytest.raises(ValueError, match=r"`padding_values` must be scalars, but leaf \['x'\] has the shape \(2,\)"):
        rows.padded_batch(2, padding_values={"id": 0, "x": torch.zeros(2)})


def test_the_batch_size_is_inferred_and_rows_are_split():
    dataset = from_rows([[1], [2, 3], [4], [5, 6, 7], [8]]).padded_batch(4)
    assert tdi.testing.infer_batch_size(dataset) == 4
    steps = list(tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(dataset))
    assert [[part.tolist() for part in step.values] for step in steps] == [
        [[[1, 0, 0], [2, 3, 0]], [[4, 0, 0], [5, 6, 7]]],
        [[[8]], []],
    ]


# bucket_by_length


def bucketed(rows: Ragged, boundaries: list[int], sizes: list[int], boundary: bool, drop: bool) -> list[Ragged]:
    """tf.data's bucket_by_sequence_length, step by step."""
    held: list[Ragged] = [[] for _ in sizes]

    def emit(bucket: int) -> Ragged:
        batch, held[bucket] = held[bucket], []
        return padded(batch, boundaries[bucket] - 1 if boundary else None)

    result = []
    for row in rows:
        bucket = sum(len(row) >= b for b in boundaries)
        held[bucket].append(row)
        if len(held[bucket]) == sizes[bucket]:
            result.append(emit(bucket))
    return result + [emit(bucket) for bucket in range(len(sizes)) if held[bucket] and not drop]


@given(ROWS, st.sampled_from([[2], [1, 3], [1, 2, 4]]), st.integers(1, 3), st.booleans(), st.booleans())
def test_buckets_follow_the_reference(rows, boundaries, size, drop, stream):
    sizes = [size + i % 2 for i in range(len(boundaries) + 1)]
    dataset = from_rows(rows, stream).bucket_by_length(len, boundaries, sizes, drop_remainder=drop)
    assert lists(dataset) == bucketed(rows, boundaries, sizes, False, drop)
    assert dataset.cardinality() == tdi.UNKNOWN
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_resumable(dataset.unbatch())


@given(ROWS, st.integers(1, 3))
def test_a_bucket_may_be_padded_to_its_boundary(rows, size):
    arguments = [3, 6], [size, size, 1]
    dataset = from_rows(rows).bucket_by_length(len, *arguments, pad_to_bucket_boundary=True)
    assert lists(dataset) == bucketed(rows, *arguments, True, False)


def test_a_bucket_may_do_without_padding():
    dataset = from_rows([[1], [2, 3], [4], [5, 6]]).bucket_by_length(len, [2, 3], [2, 2, 1], no_padding=True)
    assert lists(dataset) == [[[1], [4]], [[2, 3], [5, 6]]]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"bucket_boundaries": []}, "`bucket_boundaries` must not be empty"),
        ({"bucket_boundaries": [3, 3]}, r"must be increasing numbers of at least 1, but is \[3, 3\]"),
        ({"bucket_boundaries": [0, 3]}, r"must be increasing numbers of at least 1, but is \[0, 3\]"),
        ({"bucket_batch_sizes": [2, 2]}, "must have one entry more than `bucket_boundaries`, 3, but has 2"),
        ({"bucket_batch_sizes": [2, 0, 2]}, r"must be at least 1, but is \[2, 0, 2\]"),
        ({"no_padding": True, "padded_shapes": [4]}, "`no_padding=True` excludes `padded_shapes`"),
        ({"padded_shapes": [4, 4]}, r"numbers of dims must be equal"),
        ({"pad_to_bucket_boundary": True}, "element 1 has the length 5, but with `pad_to_bucket_boundary=True`"),
    ],
)
def test_wrong_arguments_of_bucket_by_length(arguments, message):
    arguments = {"bucket_boundaries": [2, 4], "bucket_batch_sizes": [2, 2, 2]} | arguments
    with pytest.raises(ValueError, match=message):
        list(from_rows([[1], [1] * 5, [2]]).bucket_by_length(len, **arguments))


def test_the_length_must_be_an_int():
    with pytest.raises(TypeError, match=r"bucket_by_length\(<lambda>\): element 0: the function must return one int"):
        list(from_rows([[1]]).bucket_by_length(lambda row: 0.5, [2], [1, 1]))


def test_elements_whose_length_fails_can_be_skipped():
    def length(row):
        if row[0] == 2:
            raise KeyError("two")
        return len(row)

    dataset = from_rows([[1], [2], [3, 4], [5]]).bucket_by_length(length, [2], [2, 2])
    dataset = dataset.with_options(tdi.Options(on_error="skip"))
    assert lists(dataset) == [[[1], [5]], [[3, 4]]]
    tdi.testing.assert_resumable(dataset)


def test_explain_has_a_line_for_each():
    dataset = from_rows([[1], [2, 3]]).bucket_by_length(len, [2], [1, 1]).unbatch().padded_batch(2, [None], -1)
    text = dataset.explain()
    assert "bucket_by_length(len, bucket_boundaries=[2], bucket_batch_sizes=[1, 1])" in text
    assert "padded_batch(batch_size=2, drop_remainder=False, padded_shapes=(None,), padding_values=-1)" in text
