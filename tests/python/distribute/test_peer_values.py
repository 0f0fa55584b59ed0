# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Values on their way between processes: what arrives, and that nothing of a stranger's bytes is run or believed."""

import collections
import json
import os
import pickle
import random
from typing import NamedTuple

import pytest
import torch
import torch.distributed as dist
from ranks import returned, run_ranks

import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput.distribute._peer_values import decode, decode_example, encode, encode_whole
from torch_distinput.loader._config import config_of
from torch_distinput.loader._data_loader import plain_loader
from torch_distinput.loader.ranks import _feed


class Point(NamedTuple):
    x: torch.Tensor
    y: object


class Bag(collections.UserDict):
    """A mapping of the user's."""


def same(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, (dict, collections.UserDict)):
        return type(one) is type(other) and list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize(
    "value",
    [
        [None, True, 3, -(2**70), 0.1, float("inf"), "ü\ud800\n", b"\x00\xff", ()],
        {"a": torch.arange(3), 5: [torch.ones(2, 0)], (1, "k"): {}, None: torch.tensor(True)},
        [torch.ones(3).to(dtype) for dtype in (torch.bfloat16, torch.complex64, torch.bool, torch.uint8, torch.half)],
        Point(torch.ones(1), [Point(torch.zeros(()), None)]),
        collections.OrderedDict(b=1, a=torch.ones(2)),
        Bag(x=torch.ones(1)),
        torch.arange(6).reshape(2, 3).t(),
    ],
)
def test_values_arrive_as_they_were(value):
    assert same(decode(encode(value), "text", value), value)


def test_sparse_tensors_arrive():
    sparse = torch.eye(3).to_sparse()
    assert torch.equal(decode(encode(sparse), "text", None).to_dense(), torch.eye(3))


def test_a_class_that_this_process_does_not_use_is_not_looked_up():
    point = decode(encode(Point(1, 2)), "text", None)
    assert point == (1, 2)
    assert type(point) is not Point
    assert (type(point).__name__, point._fields) == ("Point", ("x", "y"))
    assert decode(encode(Bag(x=1)), "text", None) == {"x": 1}
    other = decode(encode([object(), torch.nested.nested_tensor([torch.ones(2)])]), "text", None)
    assert [type(value).__name__ for value in other] == ["object", "Tensor"]
    assert type(other[0]) is not object


def test_examples_keep_their_structure():
    example = {"x": torch.ones(0, 3), "names": [], "p": Point(torch.ones(0), ()), "o": collections.OrderedDict(a=[])}
    back = decode_example(encode_whole(example), "text")
    assert back["x"].shape == (0, 3)
    assert (back["names"], back["p"].y, back["o"]) == ([], (), collections.OrderedDict(a=[]))
    assert back["p"].x.shape == (0,)


@pytest.mark.parametrize("batch", [Bag(x=torch.ones(0)), {"x": object()}, [{1, 2}]])
def test_an_example_that_cannot_be_rebuilt_elsewhere_is_not_sent(batch):
    with pytest.raises(ValueError, match="cannot be sent to another process"):
        encode_whole(batch)


def packed(description, tensors=()):
    text = json.dumps(description).encode()
    return len(text).to_bytes(8, "little") + text + _C.encode_tensors(list(tensors))


def nested(depth):
    return '["list",[' * depth + "]]" * depth


def with_text(text):
    return len(text).to_bytes(8, "little") + text.encode() + _C.encode_tensors([])


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "the description must end within the 0 bytes"),
        (b"\xff" * 30, "the description must end within the 30 bytes"),
        (with_text("{"), "the description must be JSON"),
        (with_text(nested(100_000)), "must be JSON, but RecursionError"),
        (with_text(nested(150)), "nested at most 100 deep"),
        (packed({"a": 1}), "must be plain, or a list"),
        (packed([]), "must be plain, or a list"),
        (packed(["eval", "1"]), "must be a known one, but is 'eval'"),
        (packed(["tensor", 1]), r"the number of a tensor must be in \[1, 0\]"),
        (packed(["tensor", True], [torch.ones(1)]), "the number of a tensor"),
        (packed(["dict", [["list", []]], [1]]), "one key for each part"),
        (packed(["dict", ["a", "b"], [1]]), "one key for each part"),
        (packed(["dict", ["a", "a"], [1, 2]]), "keys of a dict must differ"),
        (packed(["class", "P", ["a b"], [1]]), "must be an identifier"),
        (packed(["class", "P", ["class"], [1]]), "must be an identifier"),
        (packed(["class", "P", ["__init__"], [1]]), "must be an identifier"),
        (packed(["class", "P", ["a", "a"], [1, 2]]), "one field for each part"),
        (packed(["class", "P(object): pass", ["a"], [1]]), "must be an identifier"),
        (packed(["mapping", 7, [], []]), "the name of a class"),
        (packed(["bytes", "\u0100"]), "characters below 256"),
        (packed(["other", ["x"]]), "the name of a class"),
    ],
)
def test_bytes_of_another_program_are_one_error_that_names_whose_and_rule(data, rule):
    with pytest.raises(tdi.DistributedDatasetError, match=rule) as raised:
        decode(data, "the values of rank 1", None)
    assert str(raised.value).startswith("the values of rank 1: ")
    assert "Did another program, or another version of the library, write to the group's store?" in str(raised.value)


def test_an_example_may_not_claim_rows_of_any_size():
    huge = torch.ones(0, 2**20, 2**20)
    with pytest.raises(tdi.DistributedDatasetError, match="a row of an example must have at most"):
        decode_example(encode_whole(huge), "text")


def test_damaged_bytes_are_errors_or_values():
    draw = random.Random(0)
    good = encode([Point(torch.arange(4), "name"), {"a": [1.5, None, b"x"]}, Bag(k=torch.ones(2, 2))])
    read = 0
    for _ in range(5000):
        bad = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(bad))
            change = draw.choice(["set", "cut", "insert"])
            if change == "set":
                bad[place] = draw.randrange(256)
            elif change == "cut":
                del bad[place : place + draw.randint(1, 8)]
            else:
                bad[place:place] = bad[place : place + 5]
        try:
            decode(bytes(bad), "text", Bag(k=1))
            read += 1
        except tdi.DistributedDatasetError:
            continue
    assert read > 50


class Code:
    """Unpickling it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_an_example_in_the_store_is_not_run(tmp_path, monkeypatch):
    mark = str(tmp_path / "ran")
    config, board = config_of(tdi.DataLoader(range(4), distributed=True)), dist.HashStore()
    feed = _feed.Feed(config, plain_loader)
    board.set("batch", pickle.dumps(Code(mark)))
    monkeypatch.setattr(_feed, "examples_of", lambda strategy: board)
    with pytest.raises(tdi.DistributedDatasetError, match="under `batch` in the group's store: the description must"):
        feed.example(config)
    assert not os.path.exists(mark)


def values(rank):
    strategy = tdi.MultiWorkerMirroredStrategy(devices=["cpu"])

    def fn():
        context = tdi.get_replica_context()
        return context.all_reduce("SUM", Point(torch.ones(2, dtype=torch.bfloat16), Bag(k=torch.tensor(1j * rank))))

    total = strategy.run(fn)
    with pytest.raises(TypeError, match="must hold tensors, but replica . has a "):
        strategy.gather(torch.ones(2) if rank == 0 else object(), 0)
    sparse = strategy.reduce("SUM", torch.eye(2).to_sparse()).to_dense()
    return type(total) is Point, type(total.y) is Bag, total.x.tolist(), complex(total.y["k"]), sparse.tolist()


def test_structures_of_the_users_classes_are_combined_over_processes():
    wanted = (True, True, [2.0, 2.0], 1j, [[2.0, 0.0], [0.0, 2.0]])
    assert returned(run_ranks(values, 2)) == [wanted, wanted]


def test_no_module_unpickles_what_came_over_a_network():
    for name in ("distribute/_multi_worker", "loader/ranks/_feed", "loader/_explained", "frameworks/_accelerate"):
        path = os.path.join(os.path.dirname(tdi.__file__), f"{name}.py")
        with open(path) as file:
            text = file.read()
        assert not any(word in text for word in ("pickle", "_object(", "_object_list", "torch.load")), name
