# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Objects other than tensors, which a pipeline carries without a look inside, and strings, with their encoding."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch_datasets import Made

import torch_distinput as tdi


class Thing:
    def __init__(self, number):
        self.number = int(number)


def numbers(things):
    return [thing.number for thing in things]


def test_a_generator_may_yield_any_object():
    made = [Thing(i) for i in range(3)]
    dataset = tdi.Dataset.from_generator(lambda: iter(made), None)
    assert all(got is given for got, given in zip(dataset, made))
    assert dataset.element_spec == tdi.OpaqueSpec()


def test_objects_may_be_declared():
    spec = {"thing": tdi.OpaqueSpec(), "n": tdi.TensorSpec([], torch.int64)}
    dataset = tdi.Dataset.from_generator(lambda: ({"thing": Thing(i), "n": i} for i in range(3)), spec)
    assert dataset.batch(2).element_spec["thing"] == tdi.OpaqueSpec([None])
    assert [numbers(batch["thing"]) for batch in dataset.batch(2)] == [[0, 1], [2]]


def test_a_dataset_of_torch_may_hold_objects():
    things = Made(3, lambda index: (Thing(index), index))
    assert [(thing.number, int(n)) for thing, n in tdi.Dataset.from_torch(things)] == [(0, 0), (1, 1), (2, 2)]


def test_a_batch_of_objects_is_a_list_and_goes_back_into_functions():
    batches = tdi.Dataset.range(5).map(Thing).batch(2)
    assert [numbers(batch) for batch in batches] == [[0, 1], [2, 3], [4]]
    assert [numbers(batch) for batch in batches.map(lambda things: things[::-1])] == [[1, 0], [3, 2], [4]]
    assert numbers(batches.unbatch()) == [0, 1, 2, 3, 4]
    assert [numbers(batch) for batch in batches.rebatch([3, 1])] == [[0, 1, 2], [3], [4]]
    assert [[numbers(part) for part in batch] for batch in tdi.Dataset.range(4).map(Thing).batch(2).batch(2)] == [
        [[0, 1], [2, 3]]
    ]


def test_replicas_without_rows_get_empty_lists():
    dataset = tdi.Dataset.range(5).map(Thing).batch(4)
    steps = list(tdi.MirroredStrategy(["cpu"] * 3).distribute_dataset(dataset))
    assert [[numbers(part) for part in step.values] for step in steps] == [[[0, 1], [2, 3], []], [[4], [], []]]


def test_objects_are_released():
    alive = []

    def make(x):
        thing = Thing(x)
        alive.append(weakref.ref(thing))
        return thing

    for batch in tdi.Dataset.range(6).map(make, num_parallel_calls=2).batch(2).prefetch(2):
        del batch
    gc.collect()
    assert len(alive) >= 6
    assert [ref() for ref in alive] == [None] * len(alive)


@pytest.mark.parametrize("method", ["from_tensors", "from_tensor_slices"])
def test_a_source_in_memory_refuses_objects(method):
    with pytest.raises(TypeError, match=rf"^{method}: leaf \['x'\] is a .*Thing, which cannot be a leaf"):
        getattr(tdi.Dataset, method)({"x": Thing(1)})


def test_a_list_of_objects_of_unequal_depth_is_refused():
    with pytest.raises(TypeError, match="objects in parts of unequal lengths"):
        list(tdi.Dataset.range(1).map(lambda x: [[Thing(1)], [Thing(2), Thing(3)]]))


def test_an_object_where_a_tensor_came_before_names_both():
    made = [1, Thing(1)]
    with pytest.raises(ValueError, match=r"element 1: the element: expected TensorSpec.*, got OpaqueSpec"):
        list(tdi.Dataset.from_generator(lambda: iter(made), None))


WORDS = ["a", "bé", "", "日本", "end"]


def words(encoding="utf-8"):
    return WORDS if encoding else [word.encode() for word in WORDS]


@pytest.mark.parametrize("encoding", ["utf-8", None])
def test_slices_are_single_strings_of_the_same_type(encoding):
    dataset = tdi.Dataset.from_tensor_slices(words(encoding))
    assert list(dataset) == words(encoding)
    assert dataset.element_spec == tdi.StringSpec((), encoding)


@pytest.mark.parametrize("encoding", ["utf-8", None])
def test_a_batch_is_a_list(encoding):
    dataset = tdi.Dataset.from_tensor_slices({"s": words(encoding)}).batch(2)
    assert [batch["s"] for batch in dataset] == [words(encoding)[:2], words(encoding)[2:4], words(encoding)[4:]]
    assert dataset.element_spec == {"s": tdi.StringSpec([None], encoding)}


def test_shuffled_batches_hold_the_rows_of_strings_and_numbers_that_belong_together():
    texts = [[f"{row}", "é" * (row % 4)] for row in range(23)]
    numbers = torch.arange(46).reshape(23, 2).t().contiguous().t()  # rows that are not contiguous
    dataset = tdi.Dataset.from_tensor_slices({"s": texts, "x": numbers[:, 0], "y": numbers.contiguous()})
    shuffled = dataset.shuffle(23, seed=5)
    rows = list(shuffled)
    batches = list(shuffled.batch(4))
    assert [text for batch in batches for text in batch["s"]] == [row["s"] for row in rows]
    assert [row["s"][0] for row in rows] != [text[0] for text in texts]
    for name in ("x", "y"):
        torch.testing.assert_close(torch.cat([b[name] for b in batches]), torch.stack([row[name] for row in rows]))
        assert all(row[name].reshape(-1)[0] == 2 * int(row["s"][0]) for row in rows)


def test_one_element_may_be_a_string_or_lists_of_strings():
    value = ("x", b"y", [["a", "b"], ["c", "dd"]])
    assert list(tdi.Dataset.from_tensors(value)) == [value]
    assert tdi.Dataset.from_tensors(value).element_spec[2] == tdi.StringSpec([2, 2])


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (np.array(["a", "bé"]), ["a", "bé"]),
        (np.array([b"a", b"bcd"]), [b"a", b"bcd"]),
        (np.array(["a", "bé"], dtype=object), ["a", "bé"]),
        (np.array([[b"a"], [b"b"]], dtype=object), [[b"a"], [b"b"]]),
        (np.array(["a", "b", "c"])[::-1], ["c", "b", "a"]),
        (np.array([], dtype="U3"), []),
    ],
    ids=["str", "bytes", "object", "object-bytes", "strided", "empty"],
)
def test_arrays_of_numpy_are_strings(array, wanted):
    assert list(tdi.Dataset.from_tensor_slices(array)) == wanted


def test_a_scalar_of_numpy_is_a_string():
    assert list(tdi.Dataset.from_tensors((np.str_("a"), np.bytes_(b"b")))) == [("a", b"b")]


@pytest.mark.parametrize("text", ["", "plain", "é\0ü", "𝄞"])
def test_every_text_comes_back(text):
    assert list(tdi.Dataset.from_tensors({"s": text, "b": text.encode()})) == [{"s": text, "b": text.encode()}]


def test_a_function_gets_and_returns_strings():
    dataset = tdi.Dataset.from_tensor_slices(WORDS).map(str.upper).batch(3).map(lambda batch: [s + "!" for s in batch])
    assert list(dataset) == [["A!", "BÉ!", "!"], ["日本!", "END!"]]


def test_unbatch_rebatch_cache_take_skip_and_concatenate_keep_strings():
    dataset = tdi.Dataset.from_tensor_slices(WORDS)
    assert list(dataset.batch(3).unbatch()) == WORDS
    assert list(dataset.batch(2).rebatch([1, 3])) == [WORDS[:1], WORDS[1:4], WORDS[4:]]
    cached = dataset.batch(2).cache()
    assert list(cached) == list(cached) == [WORDS[:2], WORDS[2:4], WORDS[4:]]
    assert list(dataset.skip(1).take(2).concatenate(dataset.take(1))) == [*WORDS[1:3], WORDS[0]]


def test_padded_and_ragged_batches_stack_strings():
    dataset = tdi.Dataset.range(3).map(lambda x: {"s": "ab" * int(x), "v": x.repeat(int(x))})
    for batch in (next(iter(dataset.padded_batch(3))), next(iter(dataset.ragged_batch(3)))):
        assert batch["s"] == ["", "ab", "abab"]


def test_unique_compares_strings():
    assert list(tdi.Dataset.from_tensor_slices(["a", "b", "a", "", "b", ""]).unique()) == ["a", "b", ""]


def test_concatenating_str_and_bytes_names_both():
    text, raw = (tdi.Dataset.from_tensor_slices(words(encoding)) for encoding in ("utf-8", None))
    with pytest.raises(ValueError, match="concatenate: the element must have one type .*'utf-8'.*encoding=None"):
        list(text.concatenate(raw))


def test_replicas_without_rows_get_empty_lists_of_strings():
    dataset = tdi.Dataset.from_tensor_slices({"s": WORDS, "n": np.arange(5)}).batch(4)
    steps = list(tdi.MirroredStrategy(["cpu"] * 3).distribute_dataset(dataset))
    assert [step["s"].values for step in steps] == [(WORDS[:2], WORDS[2:4], []), (WORDS[4:], [], [])]


def test_a_list_of_strings_is_one_leaf_of_a_step():
    dataset = tdi.Dataset.from_tensor_slices(WORDS).batch(4)
    step = next(iter(tdi.MirroredStrategy(["cpu"] * 2).distribute_dataset(dataset)))
    assert isinstance(step, tdi.PerReplica)
    assert step.values == (WORDS[:2], WORDS[2:4])


def test_an_empty_list_is_read_as_the_strings_that_came_before():
    dataset = tdi.Dataset.from_tensor_slices(WORDS).batch(2).rebatch([2, 0]).map(lambda batch: batch)
    assert list(dataset) == [WORDS[:2], [], WORDS[2:4], [], WORDS[4:]]


def test_an_empty_list_fits_a_declared_spec():
    dataset = tdi.Dataset.from_generator(lambda: iter([[], ["a"]]), tdi.StringSpec([None]))
    assert list(dataset) == [[], ["a"]]


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (["a", b"b"], TypeError, "a list of str that holds a bytes as its string 1; use str or bytes"),
        ([b"a", 1], TypeError, "a list of bytes that holds a int as its string 1"),
        ([["a"], ["b", "c"]], TypeError, "strings in parts of unequal lengths"),
        (["a", "\ud800"], ValueError, "its string 1 a str with a lone surrogate"),
    ],
    ids=["encodings", "kinds", "lengths", "surrogate"],
)
def test_lists_that_are_no_column_are_refused(value, error, words):
    with pytest.raises(error, match=rf"^from_tensor_slices: leaf \['s'\] .*{words}"):
        tdi.Dataset.from_tensor_slices({"s": value})


def test_bytes_where_text_is_declared_name_both_and_the_way_out():
    dataset = tdi.Dataset.from_generator(lambda: [b"a"], tdi.StringSpec())
    with pytest.raises(ValueError, match="element 0: .*'utf-8'.*got .*encoding=None.*Use str for encoding='utf-8'"):
        list(dataset)


def test_an_encoding_other_than_utf8_is_refused():
    with pytest.raises(ValueError, match='`encoding` must be "utf-8", or None for bytes, but is "latin-1"'):
        tdi.StringSpec((), "latin-1")


def test_batching_rows_of_other_kinds_names_the_leaf():
    rows = [{"x": "a"}, {"x": 1}]
    with pytest.raises(ValueError, match=r"leaf \['x'\]"):
        list(tdi.Dataset.from_generator(lambda: iter(rows), None).batch(2))
