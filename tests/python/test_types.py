# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What type checkers and editors see: the package, its stub, torch's inference, and words that no argument takes."""

import ast
import enum
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import torch
from pages import blocks
from places import ROOT

import torch_distinput
import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput import typing as words

pytest.importorskip("mypy")

# torch leaves some of its own functions untyped; a program without this library has the same errors.
TORCH_ALONE = """
import torch

torch.zeros(1).backward()
"""

DATASETS = """
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, StackDataset, Subset, TensorDataset, random_split


class Rows(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.zeros(3), index


class Stream(IterableDataset[dict[str, Tensor]]):
    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        yield {}


class Untyped(Dataset):  # type: ignore[type-arg]
    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return index
"""
OF_TORCH = (
    "Rows(), 4",
    "Rows(), batch_size=4, shuffle=True, num_workers=2, drop_last=True",
    "Rows(), collate_fn=lambda rows: rows[0]",
    "Stream()",
    "Untyped()",
    "TensorDataset(torch.zeros(3))",
    "Subset(Rows(), [0])",
    "Rows() + Rows()",
    "StackDataset(Rows(), Rows())",
    "random_split(Rows(), [4, 6])[0]",
)
OF_OURS = {
    "[1.5, 2.5]": "float",
    "range(4)": "int",
    "torch.zeros(3)": "Any",
    "numpy.zeros(3)": "Any",
    "tdi.Dataset.range(4).batch(2), batch_size=None": "Any",
}

STRATEGIES = """
import torch
import torch_distinput as tdi

strategy = tdi.MirroredStrategy(["cpu", "cpu"])
reveal_type(strategy.distribute_dataset(tdi.Dataset.range(4).batch(2)))
reveal_type(strategy.distribute_datasets_from_function(lambda context: tdi.Dataset.range(4)))
reveal_type(strategy.reduce("MEAN", torch.ones(1)))
reveal_type(strategy.gather(torch.ones(1), axis=0))
with strategy.scope() as scope:
    reveal_type(scope)
for one in (tdi.OneDeviceStrategy("cpu"), tdi.MultiWorkerMirroredStrategy(), tdi.get_strategy()):
    one.run(lambda: 1)
    one.reduce("SUM", 1.0)
    one.gather(torch.ones(1), 0)
    one.local_results(1)
    one.distribute_values_from_function(lambda context: 1)
    one.distribute_dataset(tdi.Dataset.range(4).batch(2), tdi.InputOptions(tail="merge"))
"""

WRONG_WORDS = {
    "tdi.DataLoader([1], tail='mergee')": "tail",
    "tdi.DataLoader([1], split='even')": "split",
    "tdi.DataLoader(3)": "DataLoader",
    "tdi.InputOptions(tail='last')": "tail",
    "tdi.InputOptions(split='even')": "split",
    "tdi.Options(on_error='ignore')": "on_error",
    "tdi.InputOptions(replication_mode='PER_GPU')": "replication_mode",
    "tdi.MirroredStrategy(['cpu']).reduce('MAX', 1)": "reduce",
    "tdi.MultiWorkerMirroredStrategy(rounds='mpi')": "rounds",
    "tdi.TextLineDataset('x', compression_type='XZ')": "compression_type",
    "tdi.TFRecordDataset('x', index='never')": "index",
    "tdi.Dataset.range(3).pack(4, strategy='worst_fit')": "strategy",
    "tdi.Dataset.range(3).resize(4, interpolation='area')": "interpolation",
    "tdi.Dataset.range(3).pad(4, padding_mode='wrap')": "padding_mode",
    "tdi.Dataset.range(3).decode_image(layout='CHW')": "layout",
    "tdi.Dataset.range(3).with_image_targets(box_format='XY')": "box_format",
    "tdi.preprocessing.StringLookup(output_mode='hot')": "output_mode",
    "tdi.preprocessing.TextVectorization(split='words')": "split",
}


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """Runs mypy --strict over programs by name; returns the lines of its report for each, without the file's name."""
    folder = tmp_path_factory.mktemp("types")
    cache = ROOT / "build/mypy-strict"  # mypy takes half a minute to read torch, and a second from its cache

    def run(**programs: str) -> dict[str, list[str]]:
        for name, text in programs.items():
            (folder / f"{name}.py").write_text(text)
        command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
        command += ["--python-executable", sys.executable, "--cache-dir", str(cache), *(f"{p}.py" for p in programs)]
        environment = {name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")}
        result = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False
        )
        assert result.returncode in (0, 1), result.stdout + result.stderr
        return {name: re.findall(rf"^{name}\.py:(\d+: .*)$", result.stdout, re.MULTILINE) for name in programs}

    return run


def revealed(lines: list[str]) -> list[str]:
    return [found[1] for line in lines if (found := re.search(r'Revealed type is "(.*)"', line))]


def errors(lines: list[str]) -> list[str]:
    return [line for line in lines if " error: " in line]


def test_the_programs_of_the_readme_are_strictly_typed(check):
    report = check(readme="\n".join(blocks(ROOT / "README.md", "python")), torch_alone=TORCH_ALONE)
    of_torch = {line.partition("error: ")[2] for line in errors(report["torch_alone"])}
    assert [line for line in errors(report["readme"]) if line.partition("error: ")[2] not in of_torch] == []


def test_a_loader_infers_the_rows_as_torchs_does(check):
    lines = ["import numpy\nimport torch_distinput as tdi\nfrom torch.utils.data import DataLoader as Torchs\n"]
    lines += [f"reveal_type({loader}({rows}))" for rows in OF_TORCH for loader in ("Torchs", "tdi.DataLoader")]
    lines += [f"reveal_type(tdi.DataLoader({rows}))" for rows in OF_OURS]
    lines += [
        "loader = tdi.DataLoader(Rows(), batch_size=4)",
        "def takes_torchs(loader: Torchs[tuple[Tensor, int]]) -> None: ...",
        "takes_torchs(loader)",
        "for x, y in loader:",
        "    tdi.distributed_mean(x.sum(), loader.last_info)",
        "    tdi.scaled_mean(x.mean(), loader.last_info, x)",
        "    tdi.restore_order(x, loader.last_info)",
        "with loader as same:",
        "    reveal_type(same)",
    ]
    report = check(loaders=DATASETS + "\n".join(lines) + "\n")["loaders"]
    assert errors(report) == []
    types = revealed(report)
    *pairs, last = types
    for position, rows in enumerate(OF_TORCH):
        theirs, ours = pairs[2 * position : 2 * position + 2]
        assert ours == theirs.replace("torch.utils.data.dataloader", "torch_distinput.loader._data_loader"), rows
    ours = pairs[2 * len(OF_TORCH) :]
    assert ours == [f"torch_distinput.loader._data_loader.DataLoader[{kind}]" for kind in OF_OURS.values()]
    assert last == "torch_distinput.loader._data_loader.DataLoader[tuple[torch._tensor.Tensor, int]]"


def test_strategies_are_typed(check):
    report = check(strategies=STRATEGIES)["strategies"]
    assert errors(report) == []
    assert revealed(report) == [
        *["torch_distinput.distribute._distributed.DistributedDataset"] * 2,
        *["torch._tensor.Tensor"] * 2,
        "torch_distinput.distribute._base_strategy.Strategy",
    ]


def test_words_that_no_argument_takes_are_errors_of_the_checker(check):
    lines = ["import torch_distinput as tdi", *WRONG_WORDS]
    found = dict.fromkeys(range(2, 2 + len(WRONG_WORDS)), "")
    for line in errors(check(words="\n".join(lines) + "\n")["words"]):
        found[int(line.partition(":")[0])] += line
    for (call, name), line in zip(WRONG_WORDS.items(), found.values(), strict=True):
        assert name in line, call


def test_the_words_of_the_types_are_those_that_arguments_take():
    for tail in get_args(words.Tail):
        assert tdi.InputOptions(tail=tail).tail == tail
    for split in get_args(words.Split):
        assert tdi.InputOptions(split=split).split == split
    for mode in get_args(words.ReplicationMode):
        assert tdi.InputOptions(replication_mode=mode).replication_mode.name == mode
    for op in get_args(words.Reduction):
        assert tdi.ReduceOp.of(op).value == op.upper()
    tokens = tdi.Dataset.from_tensors(torch.arange(3))
    for strategy in get_args(words.PackStrategy):
        tokens.pack(4, strategy=strategy)
    images = tdi.Dataset.from_tensors(b"")
    for layout in get_args(words.ImageLayout):
        images.decode_image(layout=layout)
    decoded = images.decode_image()
    for interpolation in get_args(words.Interpolation):
        decoded.resize(4, interpolation)
    for padding_mode in get_args(words.PaddingMode):
        decoded.pad(1, padding_mode=padding_mode)
    for box_format in get_args(words.BoxFormat):
        decoded.with_image_targets(box_format=box_format)


@pytest.mark.parametrize("compression", get_args(words.Compression))
def test_compressions_are_written_and_read(compression, tmp_path):
    with tdi.TFRecordWriter(tmp_path / "x", compression) as writer:
        writer.write(b"one")
    assert list(tdi.TFRecordDataset(tmp_path / "x", compression)) == [b"one"]


def test_none_as_an_info_says_when_there_is_one():
    calls = (
        lambda: tdi.distributed_mean(torch.ones(()), None),
        lambda: tdi.scaled_mean(torch.ones(()), None, torch.ones(())),
        lambda: tdi.restore_order(torch.ones(1), None),
    )
    for call in calls:
        with pytest.raises(TypeError, match=r"`info` must be a StepInfo, but is None. `last_info` of a DataLoader is"):
            call()


def test_the_package_is_marked_as_typed():
    assert (Path(tdi.__file__).parent / "py.typed").exists()


STUB = Path(torch_distinput.__file__).with_name("_C.pyi")


def live_parameters(doc):
    """The parameter names in the signature, which pybind11 puts at the beginning of a docstring."""
    arguments = doc.partition("\n")[0].partition("(")[2].rpartition(") ->")[0]
    while re.search(r"\[[^\[\]]*\]|\([^()]*\)", arguments):
        arguments = re.sub(r"\[[^\[\]]*\]|\([^()]*\)", "", arguments)
    return [part.split(":")[0].split("=")[0].strip() for part in arguments.split(",") if part.strip()]


def live_members(owner):
    found = {}
    for name, value in vars(owner).items():
        value = value.__func__ if isinstance(value, staticmethod) else value
        if isinstance(value, property):
            found[name] = ["self"]
        elif isinstance(value, (type, int)) or inspect.ismodule(value):
            continue
        elif callable(value) and (value.__doc__ or "").startswith(f"{name}("):
            found[name] = live_parameters(value.__doc__)
    return found


def stub_members(body):
    return {
        node.name: [argument.arg for argument in node.args.args]
        for node in body
        if isinstance(node, ast.FunctionDef) and not any(isinstance(d, ast.Attribute) for d in node.decorator_list)
    }


def test_the_stub_matches_the_module():
    tree = ast.parse(STUB.read_text())
    stubs = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    live = {name: value for name, value in vars(_C).items() if not name.startswith("_") and not isinstance(value, int)}
    functions = {name: live.pop(name) for name in list(live) if inspect.isbuiltin(live[name])}
    assert stub_members(tree.body) == {name: live_parameters(value.__doc__) for name, value in functions.items()}
    constants = {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    assert constants == {name for name, value in vars(_C).items() if isinstance(value, int)}
    assert set(stubs) == set(live)
    for name, owner in live.items():
        if isinstance(owner, type) and issubclass(owner, enum.Enum):
            in_stub = {node.targets[0].id for node in stubs[name].body if isinstance(node, ast.Assign)}
            assert in_stub == set(owner.__members__), name
        else:
            assert stub_members(stubs[name].body) == live_members(owner), name


def test_everything_bound_is_documented():
    undocumented = []
    for owner_name, owner in vars(_C).items():
        if owner_name.startswith("_") or isinstance(owner, (int, enum.EnumMeta)):
            continue
        assert owner.__doc__, owner_name
        if inspect.isbuiltin(owner):
            if not owner.__doc__.partition("\n")[2].strip():
                undocumented.append(owner_name)
            continue
        for name, value in vars(owner).items():
            if name.startswith("_") or not (callable(value) or isinstance(value, (property, staticmethod))):
                continue
            doc = getattr(value, "__func__", value).__doc__ or ""
            # pybind11 puts the signature into the first line.
            text = doc if isinstance(value, property) else doc.partition("\n")[2]
            if not text.strip():
                undocumented.append(f"{owner_name}.{name}")
    assert undocumented == []
