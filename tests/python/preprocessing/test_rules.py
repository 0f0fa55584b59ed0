# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Preprocessing layers: rules of Keras at the edges, and what `load_state_dict` refuses."""

import math

import numpy as np
import pytest
import torch

import torch_distinput as tdi
from torch_distinput.preprocessing import (
    CategoryEncoding,
    Discretization,
    IntegerLookup,
    Normalization,
    StringLookup,
    TextVectorization,
)


def batches_of(*batches):
    return tdi.Dataset.from_generator(lambda: iter(batches), None)


def commas(texts):
    return [text.split(",") for text in texts]


def upper(texts):
    return [text.upper() for text in texts]


# TextVectorization: texts that are tokens, shapes, and functions of the user.


def test_ngrams_of_texts_that_are_not_split_join_texts_of_a_row():
    layer = TextVectorization(split=None, ngrams=(2,))
    layer.adapt(batches_of(["It's", "a", "dog"], ["A", "dog"]))
    assert layer.get_vocabulary() == ["", "[UNK]", "a dog", "its a"]
    assert layer([["its", "a"], ["a", "Dog!"]]).tolist() == [[3], [2]]
    assert layer(np.empty((0, 2), dtype="U1")).shape == (0, 1)


def test_a_batch_of_texts_that_are_not_split_is_one_document():
    layer = TextVectorization(split=None, output_mode="tf_idf")
    layer.adapt(batches_of(["a b", "c"], ["a b"]))
    assert layer.get_vocabulary() == ["[UNK]", "a b", "c"]
    weights = [math.log(1 + 2 / 3), math.log(1 + 2 / 2)]
    assert layer.idf_weights.tolist() == pytest.approx([sum(weights) / 2, *weights])


@pytest.mark.parametrize("standardize", ["lower", lambda texts: [text.lower() for text in texts]])
def test_rows_of_different_length_are_tokens_where_texts_are_not_split(standardize):
    layer = TextVectorization(split=None, standardize=standardize)
    layer.adapt(iter([[["A", "b", "B"], ["b"]]]))
    assert layer.get_vocabulary() == ["", "[UNK]", "b", "a"]
    assert layer([["B"], ["A", "x"], []]).tolist() == [[2, 0], [3, 1], [0, 0]]


@pytest.mark.parametrize("split", ["whitespace", commas])
def test_rows_of_different_length_are_refused_where_texts_are_split(split):
    layer = TextVectorization(split=split, vocabulary=["a"])
    for use in (layer, lambda rows: TextVectorization(split=split).adapt(iter([rows]))):
        with pytest.raises(ValueError, match="adapt|rank must be 1 or the last shape dimension"):
            use([["a", "b"], ["c"]])


@pytest.mark.parametrize("options", [{}, {"standardize": upper}, {"split": commas}])
def test_texts_have_one_text_in_the_last_dim_where_they_are_split(options):
    layer = TextVectorization(vocabulary=["a", "A"], **options)
    with pytest.raises(ValueError, match=r"rank must be 1 or the last.*shape=.?\(?\[?2, 3"):
        layer([["a", "b", "c"], ["a", "b", "c"]])
    assert layer([[["a"]], [["b"]]]).shape == (2, 1, 1)
    assert layer("a").shape == (1,)


@pytest.mark.parametrize("options", [{}, {"standardize": upper}, {"split": commas}, {"output_mode": "count"}])
def test_batches_without_texts_work(options):
    layer = TextVectorization(vocabulary=["a", "b"], **options)
    for nothing in ([], np.empty((0, 1), dtype="U1")):
        assert layer(nothing).shape[0] == 0


@pytest.mark.parametrize("options", [{"output_mode": "one_hot"}, {"ragged": True}])
def test_rows_of_rows_of_texts_are_refused_where_the_result_has_two_ragged_dims(options):
    with pytest.raises(ValueError, match="but they have 3 dims"):
        TextVectorization(vocabulary=["a"], **options)([[["a b"]], [["a"]]])


# The other layers.


def test_strings_are_looked_up_and_numbers_are_not():
    with pytest.raises(TypeError, match="StringLookup: the input must be strings"):
        StringLookup(vocabulary=["1"])(torch.tensor([1]))


@pytest.mark.parametrize("layer", [lambda: StringLookup(mask_token=""), IntegerLookup])
def test_a_vocabulary_of_special_tokens_alone_is_refused(layer):
    special = layer().get_vocabulary()
    with pytest.raises(tdi.InvalidArgumentError, match="must hold more than the mask and OOV tokens"):
        layer().set_vocabulary(special)
    with pytest.raises(tdi.InvalidArgumentError, match="the data has no tokens but"):
        layer().adapt(batches_of(special))


def test_weights_are_cut_to_the_dtype_before_they_are_added():
    layer = CategoryEncoding(num_tokens=1, output_mode="count", dtype="int64")
    assert layer([[0, 0, 0]], count_weights=torch.tensor([[2.9, 1.9, 0.9]])).tolist() == [[3]]


def test_adapt_needs_a_bin():
    with pytest.raises(ValueError, match="`num_bins` must be at least 1 to adapt"):
        Discretization(num_bins=0).adapt(torch.arange(4.0))


def test_an_input_that_does_not_fit_the_means_is_named_with_both_shapes():
    layer = Normalization(axis=(0, 1))
    layer.adapt(torch.ones(4, 3))
    rows = tdi.Dataset.from_tensor_slices(torch.ones(2, 3)).batch(2)
    for use in (lambda: layer(torch.ones(2, 3)), lambda: list(rows.map(layer))):
        with pytest.raises(tdi.InvalidArgumentError, match=r"input of shape .2, 3. does not fit means of shape .4, 3"):
            use()


def test_rows_that_adapt_batches_have_no_means_of_their_own():
    with pytest.raises(ValueError, match="must have a known shape"):
        Normalization(axis=0).adapt(tdi.Dataset.from_tensor_slices(torch.ones(4, 3)))


def test_an_axis_may_be_named_twice_where_means_are_given():
    layer = Normalization(axis=(1, -1), mean=[1.0, 2.0], variance=[1.0, 4.0])
    assert layer(torch.tensor([[2.0, 6.0]])).tolist() == [[1.0, 2.0]]


# What is saved with the model.


def test_a_state_without_what_a_layer_knows_or_with_more_is_refused():
    model = torch.nn.ModuleDict({"words": StringLookup(vocabulary=["a"]), "bins": Discretization(bin_boundaries=[0.0])})
    state = model.state_dict()
    with pytest.raises(RuntimeError, match=r"Missing key.*words.vocabulary.offsets"):
        model.load_state_dict({key: value for key, value in state.items() if not key.startswith("words")})
    with pytest.raises(RuntimeError, match=r"Unexpected key.*bins.mean"):
        model.load_state_dict({**state, "bins.mean": torch.ones(1)})
    model.load_state_dict({}, strict=False)
    assert model["words"].get_vocabulary() == ["[UNK]", "a"]


def test_a_damaged_vocabulary_is_refused_by_the_name_of_its_layer():
    model = torch.nn.ModuleDict({"words": StringLookup(vocabulary=["a", "b"])})
    state = model.state_dict()
    state["words.vocabulary.offsets"] = torch.tensor([0, 5, 2])
    with pytest.raises(RuntimeError, match="words: vocabulary: the saved offsets do not divide the saved bytes"):
        model.load_state_dict(state)
    assert model["words"].get_vocabulary() == ["[UNK]", "a", "b"]


def test_given_means_need_no_state_from_before_the_first_call():
    layer = Normalization(mean=1.0, variance=4.0)
    before = layer.state_dict()
    layer(torch.ones(2, 2))
    layer.load_state_dict(before)
    assert layer(torch.tensor([[3.0, 1.0]])).tolist() == [[1.0, 0.0]]
