# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Preprocessing layers: plain-Python models, pipelines, state, files, and `adapt` in pieces and over processes."""

import bisect
import collections
import copy
import io
import pickle
import string

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import returned, run_ranks

import torch_distinput as tdi
from torch_distinput.preprocessing import (
    CategoryEncoding,
    Discretization,
    HashedCrossing,
    Hashing,
    IntegerLookup,
    Normalization,
    StringLookup,
    TextVectorization,
)

WORDS = ["a", "b", "c", "dd", "é", "東"]
LAYERS = {
    "lookup": (lambda: StringLookup(vocabulary=WORDS[:4]), WORDS * 3),
    "multi_hot": (lambda: StringLookup(vocabulary=WORDS[:4], output_mode="multi_hot"), [WORDS[:2], WORDS[2:4]] * 4),
    "integers": (lambda: IntegerLookup(vocabulary=[3, 1], num_oov_indices=2), list(range(9))),
    "text": (lambda: TextVectorization(vocabulary=["a", "b"], output_sequence_length=3), ["A b.", "", "c a b a"] * 3),
    "ragged": (lambda: TextVectorization(vocabulary=["a", "b"], ragged=True), ["A b.", "", "c a b a"] * 3),
    "hashing": (lambda: Hashing(num_bins=7), WORDS * 2),
    "encoding": (lambda: CategoryEncoding(num_tokens=4, output_mode="count"), [[0, 1], [3, 3], [2, 0]] * 3),
    "bins": (lambda: Discretization(bin_boundaries=[0.0, 2.0]), [-1.0, 0.5, 7.0, 2.0, 0.0]),
}


def dataset_of(rows):
    return tdi.Dataset.from_tensor_slices(rows)


# Layers with other inputs or results than one tensor for one.
MORE_LAYERS = {
    "inverse": (lambda: StringLookup(vocabulary=WORDS[:4], invert=True), list(range(7)) * 2),
    "inverse integers": (lambda: IntegerLookup(vocabulary=[3, 1], mask_token=0, invert=True), list(range(5))),
    "crossing": (lambda: HashedCrossing(num_bins=5), (WORDS, list(range(6)))),
    "weights": (lambda: CategoryEncoding(num_tokens=3, output_mode="count"), ([[0, 1]] * 5, [[0.5, 2.0]] * 5)),
    "tf_idf": (lambda: StringLookup(vocabulary=["a"], idf_weights=[0.5], output_mode="tf_idf"), [["a", "z"]] * 5),
    "scaled": (lambda: built(Normalization(mean=1.0, variance=4.0)), [[1.0, 3.0]] * 5),
}


def built(layer):
    layer.build((None, 2))
    return layer


@pytest.mark.parametrize("name", [*LAYERS, *MORE_LAYERS])
def test_a_layer_in_a_pipeline_keeps_the_laws(name):
    make, rows = {**LAYERS, **MORE_LAYERS}[name]
    mapped = dataset_of(rows).batch(2).map(make())
    tdi.testing.assert_resumable(mapped)
    tdi.testing.assert_paths_agree(mapped)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_map_and_a_call_give_the_same(name):
    make, rows = LAYERS[name]
    layer = make()
    for mapped, batch in zip(dataset_of(rows).batch(4).map(layer), dataset_of(rows).batch(4)):
        called = layer(batch)
        if called.is_nested:
            mapped, called = (tuple(part.tolist() for part in value.unbind()) for value in (mapped, called))
            assert mapped == called
        else:
            torch.testing.assert_close(mapped, called, rtol=0, atol=0)


def test_map_runs_a_layer_without_python(monkeypatch):
    layer = StringLookup(vocabulary=["a"])
    mapped = dataset_of(["a", "b"]).batch(2).map(layer)
    monkeypatch.setattr(StringLookup, "forward", None)
    assert [batch.tolist() for batch in mapped] == [[1, 0]]


def test_each_replica_gets_the_indices_of_its_rows():
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    indices = dataset_of(["a", "b", "z", "a"]).batch(4).map(StringLookup(vocabulary=["a", "b"]), row_wise=True)
    [step] = strategy.distribute_dataset(indices)
    assert [part.tolist() for part in strategy.local_results(step)] == [[1, 2], [0, 1]]


class Shifted(StringLookup):
    def forward(self, inputs):
        return super().forward(inputs) + 100


def test_a_subclass_and_hooks_are_called():
    words = dataset_of(["a", "b"]).batch(2)
    assert next(iter(words.map(Shifted(vocabulary=["a"])))).tolist() == [101, 100]
    hooked = StringLookup(vocabulary=["a"])
    hooked.register_forward_hook(lambda module, inputs, output: output + 10)
    assert next(iter(words.map(hooked))).tolist() == [11, 10]


def test_normalization_in_a_pipeline_is_what_a_call_gives():
    data = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    layer = Normalization()
    layer.adapt(data)
    got = torch.cat(list(dataset_of(data).batch(6).map(layer)))
    torch.testing.assert_close(got, (data - data.mean(0)) / data.std(0, unbiased=False))


def test_a_state_of_another_vocabulary_is_refused_by_name():
    words = dataset_of(["a", "b"]).batch(1)
    state = iter(words.map(StringLookup(vocabulary=["a", "b"]))).state_dict()
    other = iter(words.map(StringLookup(vocabulary=["b", "a"])))
    with pytest.raises(ValueError, match="StringLookup.*vocabulary=2 tokens"):
        other.load_state_dict(state)


words_of = st.lists(st.text(alphabet="abc", max_size=3), max_size=12)


@settings(max_examples=30, deadline=None)
@given(
    words_of.map(lambda words: sorted(set(words) - {""})).filter(bool),
    st.lists(st.text(alphabet="abcd", max_size=3), min_size=1),
    st.booleans(),
)
def test_lookup_is_a_dict_with_a_default(vocabulary, words, masked):
    layer = StringLookup(vocabulary=vocabulary, mask_token="" if masked else None)
    first = 2 if masked else 1
    table = {word: first + place for place, word in enumerate(vocabulary)} | ({"": 0} if masked else {})
    indices = layer(words).tolist()
    assert indices == [table.get(word, first - 1) for word in words]
    inverse = StringLookup(vocabulary=vocabulary, mask_token=layer.mask_token, invert=True)
    assert inverse(torch.tensor(indices)) == [word if word in table else "[UNK]" for word in words]


def model_of_text(text, ngrams):
    for mark in string.punctuation:
        text = text.replace(mark, "")
    tokens = "".join(c.lower() if c in string.ascii_uppercase else c for c in text).split()
    return [" ".join(tokens[i : i + n]) for n in range(1, ngrams + 1) for i in range(len(tokens) - n + 1)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(alphabet="aB .,\t-é", max_size=12), min_size=1, max_size=6), st.integers(1, 3))
def test_text_vectorization_learns_and_counts_as_a_plain_model(texts, ngrams):
    layer = TextVectorization(ngrams=ngrams, output_mode="count")
    counts = collections.Counter(token for text in texts for token in model_of_text(text, ngrams))
    if not counts:
        return
    layer.adapt(dataset_of(texts).batch(2))
    expected = sorted(counts, key=lambda token: (counts[token], token.encode()), reverse=True)
    assert layer.get_vocabulary(include_special_tokens=False) == expected
    for row, text in zip(layer(texts).tolist(), texts):
        mine = collections.Counter(model_of_text(text, ngrams))
        assert row == [0, *(mine[token] for token in expected)]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-3, 12), min_size=1, max_size=30), st.integers(1, 5))
def test_multi_hot_and_count_are_plain_counts(values, oov):
    vocabulary = [0, 5, 9]
    layer = IntegerLookup(vocabulary=vocabulary, num_oov_indices=oov, output_mode="count")
    counts = [0] * (oov + 3)
    for value in values:
        counts[oov + vocabulary.index(value) if value in vocabulary else value % oov] += 1
    assert layer(torch.tensor(values)).tolist() == counts
    sparse = IntegerLookup(vocabulary=vocabulary, num_oov_indices=oov, output_mode="multi_hot", sparse=True)
    assert sparse(torch.tensor(values)).to_dense().tolist() == [min(count, 1) for count in counts]


numbers = st.floats(-4, 4, width=16)  # few of them, so that values hit boundaries


@settings(max_examples=30, deadline=None)
@given(st.lists(numbers, max_size=6).map(sorted), st.lists(numbers, min_size=1, max_size=20))
def test_discretization_is_a_bisection(boundaries, values):
    layer = Discretization(bin_boundaries=boundaries)
    bins = [bisect.bisect_right(boundaries, value) for value in values]
    assert layer(torch.tensor(values)).tolist() == bins
    counts = Discretization(bin_boundaries=boundaries, output_mode="count")(torch.tensor(values))
    assert counts.tolist() == [bins.count(number) for number in range(len(boundaries) + 1)]


def test_crossing_takes_features_of_a_tuple_element():
    crossing = HashedCrossing(num_bins=5)
    pairs = dataset_of((["A", "B"], [101, 101])).batch(2)
    assert next(iter(pairs.map(crossing))).tolist() == crossing((["A", "B"], [101, 101])).tolist() == [1, 4]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"a\nb\na\n", 3, "repeats the token 'a' of line 1"),
        (b"a\n\nb\n", 2, "is empty"),
        (b"a\n\xff\n", 2, r"is not UTF-8.*\\xff"),
    ],
)
def test_a_bad_vocabulary_file_is_named_with_its_line(tmp_path, content, line, problem):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(tdi.InvalidArgumentError, match=f"words.txt:{line}: the line {problem}"):
        StringLookup(vocabulary=path)


def test_a_vocabulary_file_of_integers_and_a_missing_one(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("7\nx\n")
    with pytest.raises(tdi.InvalidArgumentError, match="numbers.txt:2: the line must be a 64-bit integer"):
        IntegerLookup(vocabulary=str(path))
    with pytest.raises(tdi.NotFoundError, match="missing.txt"):
        StringLookup(vocabulary=str(tmp_path / "missing.txt"))
    path.write_text("7\n-1\n")
    assert IntegerLookup(vocabulary=str(path), oov_token=0).get_vocabulary() == [0, 7, -1]


def learned_layers():
    lookup = StringLookup(output_mode="tf_idf")
    lookup.adapt([["a", "b"], ["a", "c"]])
    scale = Normalization()
    scale.adapt(torch.tensor([[1.0, 5.0], [3.0, 9.0]]))
    bins = Discretization(num_bins=3)
    bins.adapt(torch.arange(30.0))
    return {"lookup": lookup, "scale": scale, "bins": bins}


def test_state_dict_holds_what_was_learned_and_is_plain_tensors():
    layers = learned_layers()
    model = torch.nn.ModuleDict(layers)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    empty = torch.nn.ModuleDict(
        {"lookup": StringLookup(output_mode="tf_idf"), "scale": Normalization(), "bins": Discretization(num_bins=3)}
    )
    assert all(isinstance(value, torch.Tensor) for value in model.state_dict().values())
    result = empty.load_state_dict(torch.load(file, weights_only=True))
    assert not result.missing_keys and not result.unexpected_keys
    assert empty["lookup"].get_vocabulary() == layers["lookup"].get_vocabulary()
    words = [["a", "z"]]
    torch.testing.assert_close(empty["lookup"](words), layers["lookup"](words))
    value = torch.tensor([[2.0, 6.0]])
    torch.testing.assert_close(empty["scale"](value), layers["scale"](value))
    assert empty["bins"].bin_boundaries == layers["bins"].bin_boundaries


def test_layers_are_copied_and_pickled_with_what_they_learned():
    for layer in learned_layers().values():
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert other._layer().name == layer._layer().name


def test_normalization_passes_gradients_on():
    layer = Normalization(mean=1.0, variance=4.0)
    value = torch.tensor([[3.0]], requires_grad=True)
    layer(value).sum().backward()
    assert value.grad.tolist() == [[0.5]]


# What a layer learns: from one pass, in pieces, and over several processes.


def texts_for_learning():
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(0, 6, (37,), generator=generator).tolist()
    tokens = torch.randint(0, 20, (sum(lengths),), generator=generator).tolist()
    rows = iter(tokens)
    return [" ".join(f"w{next(rows)}" for _ in range(length)) for length in lengths]


def numbers_for_learning():
    return torch.randn(101, 3, generator=torch.Generator().manual_seed(4))


MAKERS = {
    "text": (lambda: TextVectorization(output_mode="tf_idf", max_tokens=12), texts_for_learning),
    "moments": (Normalization, numbers_for_learning),
    "quantiles": (lambda: Discretization(num_bins=5, epsilon=0.05), numbers_for_learning),
}


def learned(layer):
    return {name: value.tolist() for name, value in layer.state_dict().items()}


def learning(name, strategy=None):
    make, data = MAKERS[name]
    layer = make()
    return layer, layer.start_adapt(tdi.Dataset.from_tensor_slices(data()).batch(5), strategy=strategy)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("elements", [0, 1, 4, 30])
def test_adapt_goes_on_where_it_was_saved(name, elements):
    whole, adaptation = learning(name)
    adaptation.finish()
    _, first = learning(name)
    for _ in range(elements):
        first.step(1)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    layer, second = learning(name)
    second.step(2)  # what the second one learned before is forgotten
    second.load_state_dict(torch.load(file, weights_only=True))
    second.finish()
    assert learned(layer) == learned(whole)


@pytest.mark.parametrize("name", MAKERS)
def test_adapt_under_a_mirrored_strategy_reads_everything_once(name):
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    whole, adaptation = learning(name)
    adaptation.finish()
    given, first = learning(name, strategy)
    first.finish()
    with strategy.scope():
        scoped, second = learning(name)
        second.finish()
    assert learned(given) == learned(scoped) == learned(whole)
    assert first.elements == second.elements == len(list(dataset_of(MAKERS[name][1]()).batch(5)))


def adapt_all(rank, count):
    strategy = tdi.MultiWorkerMirroredStrategy(devices=["cpu"])
    results = {}
    for name in MAKERS:
        _, first = learning(name, strategy)
        first.step(1)  # what is saved here goes on below
        layer, adaptation = learning(name, strategy)
        adaptation.load_state_dict(first.state_dict())
        adaptation.finish()
        results[name] = (learned(layer), adaptation.elements)
    return results


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(5, marks=pytest.mark.slow)])
def test_processes_learn_what_one_learns_bit_for_bit(count):
    everyone = returned(run_ranks(adapt_all, count, count))
    for name in MAKERS:
        whole, adaptation = learning(name)
        adaptation.finish()
        assert all(result[name][0] == learned(whole) for result in everyone)
        assert sum(result[name][1] for result in everyone) == adaptation.elements


def test_adapt_reads_the_data_once_and_shows_progress(capfd):
    reads = []

    def batches():
        for number in range(3):
            reads.append(number)
            yield [f"w{number}", "w0"]

    layer = StringLookup()
    layer.adapt(tdi.Dataset.from_generator(batches, None), progress=True)
    assert reads == [0, 1, 2]
    assert layer.get_vocabulary() == ["[UNK]", "w0", "w2", "w1"]
    layer.adapt(dataset_of(["x"] * 600).batch(1), progress=True)
    assert "adapt StringLookup: 256/600 (42 %) elements" in capfd.readouterr().err


@pytest.mark.parametrize(
    "make", [lambda: StringLookup(vocabulary=["a"]), lambda: Normalization(mean=0.0, variance=1.0)]
)
def test_a_layer_that_was_given_its_values_cannot_be_adapted(make):
    with pytest.raises(ValueError, match="Cannot adapt"):
        make().adapt(dataset_of(["a"]).batch(1))
