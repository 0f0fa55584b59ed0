# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The type stub of the native module has the names and parameters of the module."""

import ast
import enum
import inspect
import re
from pathlib import Path

import torch_distinput
from torch_distinput import _C

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
