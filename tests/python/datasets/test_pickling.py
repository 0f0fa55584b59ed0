# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A pickle of a dataset is the calls that made it: what it makes again is equal in all that can be seen."""

import copy
import dataclasses
import functools
import inspect
import itertools
import pickle
import re
import sys
from collections import namedtuple
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler

import format_datasets
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mixture_pipelines import ENTRIES, SCHEDULED_SOURCES, STEPS, scheduled
from pipelines import build, chains, elements, plain
from torch_datasets import Made

import torch_distinput as tdi
from torch_distinput.ops import _description as description

Pair = namedtuple("Pair", ["a", "b"])
CLASSES = [value for value in vars(tdi).values() if inspect.isclass(value) and issubclass(value, tdi.Dataset)]


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def assert_equal(copied: tdi.Dataset, dataset: tdi.Dataset) -> None:
    """Two epochs, what is known without reading, and positions, which each reads as the other wrote them."""
    assert type(copied) is type(dataset)
    assert repr(copied) == repr(dataset)
    assert copied.explain() == dataset.explain()
    assert copied.cardinality() == dataset.cardinality()
    assert copied.options() == dataset.options()
    for epoch in range(2):
        assert elements(copied, epoch=epoch, seed=5) == elements(dataset, epoch=epoch, seed=5)
    for one, other in ((copied, dataset), (dataset, copied)):
        iterator = iter(one)
        list(itertools.islice(iterator, 2))
        resumed = iter(other)
        resumed.load_state_dict(iterator.state_dict())
        assert [plain(element) for element in resumed] == [plain(element) for element in iterator]


@given(chains())
def test_copies_of_random_pipelines_are_equal(chain):
    dataset = build(chain)
    assert_equal(pickled(dataset), dataset)


@given(SCHEDULED_SOURCES, ENTRIES, STEPS, st.sampled_from(["all", "first"]), st.integers(0, 4) | st.none())
def test_copies_of_random_mixtures_are_equal(sources, entries, steps, stop_on, seed):
    dataset = scheduled(sources, entries, steps, stop_on, seed)
    assert_equal(pickled(dataset.take(30)), dataset.take(30))


# Every public call that makes a dataset.


def rows(count):
    return torch.arange(count)


def numbers() -> tdi.Dataset:
    return tdi.Dataset.range(7)


def small_images(count: int = 3) -> tdi.Dataset:
    return tdi.Dataset.from_tensor_slices(torch.arange(count * 48, dtype=torch.uint8).reshape(count, 3, 4, 4))


def texts() -> tdi.Dataset:
    return tdi.Dataset.from_tensor_slices(["b", "a", "c"])


def add(number):
    return number + 1


def same(value):
    return value


def is_even(number):
    return number % 2 == 0


def count_up(number):
    return tdi.Dataset.range(int(number))


def code_points(batch):
    return [[ord(letter) for letter in text] for text in batch]


def nothing():
    return tdi.Dataset.from_tensor_slices([])


def documents() -> tdi.Dataset:
    jagged = torch.nested.nested_tensor_from_jagged(torch.arange(6), torch.tensor([0, 1, 3, 6]))
    return tdi.Dataset.from_tensor_slices(jagged)


def lines(folder) -> str:
    path = folder / "lines.txt"
    path.write_text("one\ntwo\nthree\n")
    return str(path)


def with_lengths(folder) -> tdi.Dataset:
    return tdi.Dataset.from_torch(Made(3, rows)).with_lengths(folder / "lengths.tdi")


def without_map(make):
    """The dataset of files that `make` reads a column of by a lambda."""
    return lambda folder: make()._call.args[0]


CALLS: dict[str, Callable[..., tdi.Dataset]] = {
    "range": lambda folder: tdi.Dataset.range(9, 1, -2),
    "from_tensors": lambda folder: tdi.Dataset.from_tensors({"x": torch.tensor([1, 2]), "names": ["a", "b"], "n": 3}),
    "from_tensor_slices": lambda folder: tdi.Dataset.from_tensor_slices((["a", "b"], np.arange(2), rows(2))),
    "from_generator": lambda folder: tdi.Dataset.from_generator(range, tdi.TensorSpec((), torch.int64), [2, 5]),
    "from_torch": lambda folder: tdi.Dataset.from_torch(Made(4, rows)),
    "from_arrow": lambda folder: tdi.Dataset.from_arrow(format_datasets.table([1, 2]), stack={"x": ["i"]}),
    "from_tokens": lambda folder: tdi.TokenDataset.from_tokens([[1, 2, 3], [4, 5]], 1, document_boundary="index"),
    "list_files": lambda folder: tdi.Dataset.list_files(lines(folder), seed=1),
    "RecordFiles": lambda folder: tdi.TextLineDataset([lines(folder)], max_record_bytes=9),
    "FixedLengthRecordDataset": lambda folder: tdi.FixedLengthRecordDataset(lines(folder), 7),
    "DeltaDataset": without_map(format_datasets.delta),
    "IcebergDataset": without_map(format_datasets.iceberg),
    "LanceDataset": without_map(format_datasets.lance),
    "ZarrDataset": lambda folder: format_datasets.zarr(),
    "ZipDataset": lambda folder: format_datasets.zipped(),
    "NumpyDataset": lambda folder: format_datasets.npy(),
    "SafetensorsDataset": without_map(format_datasets.safetensors),
    "ParquetDataset": without_map(functools.partial(format_datasets.parquet, columns=["i"], filters=[("i", ">", 2)])),
    "CsvDataset": without_map(format_datasets.csv),
    "JsonLinesDataset": without_map(format_datasets.json_lines),
    "TokenDataset": without_map(format_datasets.tokens),
    "ImageFolder": lambda folder: format_datasets.images(),
    "zip": lambda folder: tdi.Dataset.zip((numbers(), {"b": texts()})),
    "sample_from_datasets": lambda folder: tdi.Dataset.sample_from_datasets([numbers(), numbers()], [1, 2], seed=1),
    "choose_from_datasets": lambda folder: tdi.Dataset.choose_from_datasets([numbers()], nothing().map(int)),
    "concatenate": lambda folder: numbers().concatenate(tdi.Dataset.range(2)),
    "batch": lambda folder: numbers().batch([(0, 2), (1, 3)], drop_remainder=True),
    "ragged_batch": lambda folder: documents().ragged_batch(2).unbatch(),
    "unbatch": lambda folder: numbers().batch(3).unbatch(),
    "rebatch": lambda folder: numbers().batch(3).rebatch([1, 2]),
    "window": lambda folder: numbers().window(3).flat_map(same),
    "padded_batch": lambda folder: documents().padded_batch(2, padding_values=torch.tensor(9)),
    "bucket_by_length": lambda folder: documents().bucket_by_length(len, [2], [1, 2]),
    "batch_by_cost": lambda folder: documents().batch_by_cost(torch.tensor([1.0, 2.0, 3.0]), 3, window=2),
    "shuffle": lambda folder: numbers().shuffle(3, seed=2, reshuffle_each_iteration=False),
    "sample": lambda folder: numbers().sample([1, 2, 3, 4, 5, 6, 7], 5, replacement=False, seed=1),
    "repeat": lambda folder: numbers().repeat(2),
    "take": lambda folder: numbers().take(count=3),
    "skip": lambda folder: numbers().skip(3),
    "shard": lambda folder: numbers().shard(2, 1),
    "enumerate": lambda folder: numbers().enumerate(5),
    "unique": lambda folder: numbers().repeat(2).unique(),
    "assert_cardinality": lambda folder: numbers().filter(is_even).assert_cardinality(4),
    "cache": lambda folder: numbers().map(add).cache(),
    "prefetch": lambda folder: numbers().prefetch(2),
    "with_options": lambda folder: numbers().with_options(tdi.Options(seed=1, on_error=tdi.Skip(3, 0.5))),
    "map": lambda folder: numbers().map(add, num_parallel_calls=2, row_wise=True),
    "filter": lambda folder: numbers().filter(is_even),
    "flat_map": lambda folder: numbers().flat_map(count_up),
    "interleave": lambda folder: numbers().interleave(count_up, 2, block_length=2),
    "normalize_images": lambda folder: small_images().batch(2).normalize_images([0.5] * 3, std=[0.25] * 3),
    "decode_image": lambda folder: format_datasets.images().decode_image(key=0),
    "resize": lambda folder: small_images().resize(2),
    "center_crop": lambda folder: small_images().center_crop((2, 3)),
    "random_crop": lambda folder: small_images().random_crop(2, padding=1),
    "pad": lambda folder: small_images().pad(1, fill=3),
    "random_resized_crop": lambda folder: small_images().random_resized_crop(2),
    "horizontal_flip": lambda folder: small_images().horizontal_flip(),
    "vertical_flip": lambda folder: small_images().vertical_flip(p=0.7),
    "rotate90": lambda folder: small_images().rotate90(),
    "color_jitter": lambda folder: small_images().color_jitter(0.5, hue=0.1),
    "rand_augment": lambda folder: small_images().rand_augment(1),
    "with_image_targets": lambda folder: tdi.Dataset.zip({"x": small_images()}).with_image_targets(masks=[], key="x"),
    "decode_raw": lambda folder: format_datasets.records(format_datasets.number).decode_raw(torch.int64),
    "to_number": lambda folder: tdi.Dataset.from_tensor_slices(["1", "2"]).to_number(torch.int64),
    "parse_example": lambda folder: without_map(format_datasets.parsed)(folder),
    "parse_sequence_example": lambda folder: without_map(format_datasets.sequences)(folder),
    "parse_tensor": lambda folder: nothing().map(bytes).parse_tensor(torch.int64, [2]),
    "decode_members": lambda folder: format_datasets.tar().decode_members(),
    "tokenize": lambda folder: texts().tokenize(code_points, cache=100),
    "pack": lambda folder: documents().pack(2, strategy="best_fit", window=2),
    "with_lengths": with_lengths,
    "legacy_rebatch": lambda folder: tdi.testing.legacy_rebatch(numbers().batch(3), 2),
    "auto_shard": lambda folder: tdi.testing.auto_shard(numbers(), 2, worker_index=1),
    "worker_stream": lambda folder: tdi.testing.worker_stream(numbers().batch(4), 1, 2, 0),
}


def public_makers():
    """The names of the public functions that return a dataset, and of the constructors."""
    owners = {base for kind in CLASSES for base in kind.__mro__ if base.__module__.startswith("torch_distinput")}
    named = [(name, value) for owner in owners for name, value in vars(owner).items() if not name.startswith("_")]
    named += [(name, getattr(tdi.testing, name)) for name in tdi.testing.__all__]
    for name, value in named:
        function = getattr(value, "__func__", value)
        returned = getattr(function, "__annotations__", {}).get("return")
        if getattr(returned, "__name__", returned) == "Dataset":
            yield name
    for kind in set(CLASSES) - {tdi.Dataset}:
        yield next(base.__name__ for base in kind.__mro__ if "__init__" in vars(base))


def test_every_public_call_that_makes_a_dataset_is_described():
    # What `apply` and `from_ray` return was made by other calls.
    assert set(public_makers()) - {"apply", "from_ray"} == set(description._functions) == set(CALLS)


@pytest.mark.parametrize("op", CALLS)
def test_a_copy_is_equal_after(op, tmp_path):
    dataset = CALLS[op](tmp_path)
    made = {step.op for step in description.describe(dataset)}
    assert op in made
    assert_equal(pickled(dataset), dataset)


# What a copy has besides its elements.


def test_an_epoch_that_was_set_travels():
    dataset = tdi.Dataset.range(9).shuffle(seed=1)
    dataset.set_epoch(4)
    copied = pickled(dataset)
    assert [list(copied), list(copied)] == [list(dataset), list(dataset)]


def test_a_copy_without_a_seed_draws_one_and_goes_on_in_the_order_of_a_state():
    dataset = tdi.Dataset.range(1000).shuffle()
    copied = pickled(dataset)
    assert list(copied) != list(dataset)
    iterator, resumed = iter(dataset), iter(copied)
    next(iterator)
    resumed.load_state_dict(iterator.state_dict())
    assert list(resumed) == list(iterator)
    assert list(copied) == list(dataset)  # the next epoch


class Named(tdi.TextLineDataset):
    def __init__(self, name, files):
        super().__init__(files)
        self.name = name


def test_subclasses_and_their_attributes_travel(tmp_path):
    copied = pickled(Named("news", lines(tmp_path)))
    assert type(copied) is Named and copied.name == "news" and list(copied) == ["one", "two", "three"]
    inner = pickled(Named("news", lines(tmp_path)).take(1))
    assert type(inner) is tdi.Dataset and list(inner) == ["one"]


def test_named_tuples_and_datasets_in_them_stay():
    copied = pickled(tdi.Dataset.zip(Pair(numbers(), {"b": texts()})))
    assert next(iter(copied)) == Pair(0, {"b": "b"})
    assert next(iter(pickled(tdi.Dataset.from_tensor_slices(Pair([1], ["x"]))))) == Pair(1, "x")


def test_a_dataset_that_is_read_twice_stays_one(tmp_path):
    cached = tdi.Dataset.range(3).map(count_call).cache()
    copied = pickled(cached.concatenate(cached))
    CALLED.clear()
    assert len(list(copied)) == 6 and len(CALLED) == 3
    assert len(description.describe(copied)) == 4


CALLED = []


def count_call(number):
    CALLED.append(number)
    return number


def test_a_pipeline_may_have_any_number_of_ops():
    dataset = tdi.Dataset.range(3)
    for _ in range(2000):
        dataset = dataset.take(3)
    assert list(pickled(dataset)) == [0, 1, 2]


def test_copies_share_the_data_and_deep_copies_do_not():
    data = torch.arange(3)
    dataset = tdi.Dataset.from_tensor_slices(data)
    near, deep = copy.copy(dataset), copy.deepcopy(dataset)
    data[0] = 7
    assert [list(near)[0], list(deep)[0], list(dataset)[0]] == [7, 0, 7]


@pytest.mark.parametrize(
    "data",
    [
        [1, 2],
        [1.5, 2],
        [True, False],
        [b"a", b"b"],
        [[1, 2], [3, 4]],
        [["a", "b"], ["c", "d"]],
        [torch.tensor([1]), torch.tensor([2])],
        np.array(["a", "bc"]),
        np.array([1, 2], ">i4"),
        range(3),
        [],
        {"a": [], "b": np.zeros((0, 2))},
        {"a": ["x", "y"], "b": torch.eye(2).to_sparse(), "c": (torch.tensor([3, 4]), [5, 6])},
    ],
    ids=str,
)
def test_data_in_memory_is_the_same_again(data):
    check_copies(data)


def test_ragged_data_in_memory_is_the_same_again():
    ragged = torch.nested.nested_tensor_from_jagged(torch.arange(3), torch.tensor([0, 1, 3]))
    check_copies({"a": ["x", "y"], "b": ragged})


def check_copies(data):
    dataset = tdi.Dataset.from_tensor_slices(data)
    between_processes = pickle.loads(ForkingPickler.dumps(dataset))
    for copied in (pickled(dataset), pickled(pickled(dataset)), between_processes):
        assert copied.explain() == dataset.explain() and copied.element_spec == dataset.element_spec
        assert list(map(str, copied)) == list(map(str, dataset))


def test_the_description_holds_no_second_copy_of_the_data():
    names = [f"text {number}" for number in range(3)]
    before = sys.getrefcount(names[0])
    dataset = tdi.Dataset.from_tensor_slices(names)
    during = sys.getrefcount(names[0])
    assert before == during and list(pickled(dataset)) == names


def test_later_changes_of_arguments_do_not_count():
    sizes, table = [1, 2], torch.ones(7)
    batches = numbers().batch(3).rebatch(sizes)
    drawn = numbers().sample(table, 5, seed=1)
    sizes[0], table[:3] = 9, 0
    for dataset in (batches, drawn):
        assert list(map(str, pickled(dataset))) == list(map(str, dataset))


def test_a_layer_is_pickled_as_it_was_when_the_op_was_made():
    layer = tdi.preprocessing.Normalization()
    layer.adapt(np.array([[1.0], [3.0]]))
    dataset = tdi.Dataset.from_tensor_slices(torch.tensor([[1.0], [3.0]])).batch(2).map(layer)
    layer.adapt(np.array([[100.0], [300.0]]))
    assert_equal(pickled(dataset), dataset)
    lookup = tdi.preprocessing.StringLookup(vocabulary=["b", "a"])
    assert_equal(pickled(texts().batch(2).map(lookup)), texts().batch(2).map(lookup))


def test_tokenizers_travel_with_their_names():
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "c": 2}, unk_token="a"))
    dataset = texts().tokenize(tokenizer)
    assert_equal(pickled(dataset), dataset)
    assert "tokenize(Tokenizer)" in pickled(pickled(dataset)).explain()


def test_file_systems_and_options_of_stores_travel(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    dataset = tdi.TextLineDataset(lines(tmp_path), filesystem=fsspec.filesystem("file"))
    assert list(pickled(dataset)) == list(dataset) == ["one", "two", "three"]
    options = {"endpoint_url": "http://localhost:1", "key": "me", "secret": "s"}
    remote = tdi.TextLineDataset("s3://bucket/a", index=False, storage_options=options)
    [step] = description.describe(pickled(remote))
    assert step.arguments["storage_options"] == options


def test_names_of_files_from_an_iterator_travel(tmp_path):
    lines(tmp_path)
    dataset = tdi.TextLineDataset(tmp_path.glob("*.txt"))
    assert list(pickled(dataset)) == list(dataset) == ["one", "two", "three"]


# What cannot be pickled.


def test_a_function_without_a_name_is_refused_by_op_and_parameter():
    def local(number):
        return number

    for function in (local, lambda number: number):
        name = re.escape(function.__name__)
        with pytest.raises(pickle.PicklingError, match=rf"map\(fn={name}\), which is not at the top level of a module"):
            pickle.dumps(numbers().map(function).batch(2))
        assert list(copy.copy(numbers().map(function))) == list(range(7))
        assert list(copy.deepcopy(numbers().map(function))) == list(range(7))


def test_cloudpickle_takes_functions_without_names():
    cloudpickle = pytest.importorskip("cloudpickle")
    offset = 3
    dataset = numbers().map(lambda number, *, scale=2: number * scale + offset).filter(lambda number: number > 4)
    copied = cloudpickle.loads(cloudpickle.dumps(dataset))
    assert_equal(copied, dataset)
    assert_equal(cloudpickle.loads(cloudpickle.dumps(copied)), dataset)


def test_what_can_be_read_only_once_is_refused_by_op_and_parameter():
    pyarrow = pytest.importorskip("pyarrow")
    reader = pyarrow.table({"a": [1, 2]}).to_reader()
    with pytest.raises(TypeError, match="pickle: .*`stream` of from_arrow is a RecordBatchReader.* only once"):
        pickle.dumps(tdi.Dataset.from_arrow(reader).batch(2))


def test_the_elements_of_window_are_refused():
    window = next(iter(numbers().window(2)))
    for dataset in (window, window.batch(2)):
        with pytest.raises(TypeError, match=r"pickle: Dataset\(values_of_window\(2\)\) cannot be pickled"):
            pickle.dumps(dataset)


def test_a_newer_version_is_refused_and_so_is_an_unknown_call():
    function, (version, steps), _ = numbers().__reduce__()
    with pytest.raises(ValueError, match=f"unpickle: .*has version {version + 1}, .*reads versions up to {version}"):
        function(version + 1, steps)
    with pytest.raises(ValueError, match="unpickle: a Dataset was made by 'fold', which this torch_distinput does not"):
        function(version, (dataclasses.replace(steps[0], op="fold"),))


# Other values.


@pytest.mark.parametrize(
    "value",
    [
        tdi.Options(tdi.AutoShardPolicy.DATA, True, 2, 3, 4, tdi.Skip(1, 0.5), 6),
        tdi.Options(),
        tdi.Options(on_error="skip"),
        tdi.Skip(max_fraction=0.1),
        tdi.TensorSpec((None, 2), torch.float16),
        tdi.StringSpec(),
        tdi.OpaqueSpec(),
        tdi.RaggedTensorSpec((None, None), torch.int64),
        tdi.SparseTensorSpec((None, 3), torch.float32),
        tdi.DatasetSpec(tdi.TensorSpec((), torch.int64)),
        tdi.PerReplicaSpec(tdi.TensorSpec((2,))),
        tdi.FixedLenFeature([2], torch.int64, [1, 2]),
        tdi.FixedLenSequenceFeature([], str),
        tdi.VarLenFeature(torch.float32),
        tdi.RaggedFeature(bytes),
        tdi.SparseFeature("i", "v", torch.float32, 4),
        tdi.InputOptions(split="balanced"),
        tdi.Stats(batches=3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_equal_again(value):
    assert pickled(value) == copy.copy(value) == copy.deepcopy(value) == value


def test_contexts_are_equal_again():
    context = pickled(tdi.InputContext(3, 1, 6))
    assert (context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync) == (3, 1, 6)
    replica = pickled(tdi.ValueContext(1, 4))
    assert (replica.replica_id_in_sync_group, replica.num_replicas_in_sync) == (1, 4)


def test_an_iterator_is_refused():
    with pytest.raises(TypeError, match="cannot pickle '.*DatasetIterator' object"):
        pickle.dumps(iter(numbers()))
