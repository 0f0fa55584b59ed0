# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The package's docstrings: every public name has one, and every example in one is true."""

import ast
import doctest
import functools
import importlib
import inspect
from pathlib import Path

import pytest
import torch
from decoders import MISSING

import torch_distinput as tdi
from torch_distinput import monitoring

PUBLIC_MODULES = (tdi, tdi.testing, monitoring, tdi.compat, tdi.compat.v1)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples_in_sources():
    """The names of the docstrings with examples, and those of their modules. No module is imported: each worker of
    pytest-xdist collects the tests, and adapters bring their frameworks along."""
    root = Path(tdi.__file__).parent
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        if ">>> " in text:
            yield from ((name, module) for name in with_examples(ast.parse(text), module))


def with_examples(node, name):
    if ">>> " in (ast.get_docstring(node) or ""):
        yield name
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for inner in node.body:
            if isinstance(inner, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from with_examples(inner, f"{name}.{inner.name}")


class Finder(doctest.DocTestFinder):
    """Finds functions that are decorated, too, whose globals are the decorator's."""

    def _from_module(self, module, value):
        return super()._from_module(module, inspect.unwrap(value) if inspect.isfunction(value) else value)


@functools.cache
def examples(name):
    """The examples of a module, by name."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:  # an adapter of a package that is not installed
        if not name.startswith(("torch_distinput.frameworks.", "torch_distinput.monitoring.")):
            raise
        assert not str(error.name).startswith("torch_distinput")
        pytest.skip(str(error))
    found = Finder(exclude_empty=True).find(module, name, globs={"torch": torch, "tdi": tdi})
    return {test.name: test for test in found if test.examples}


def members(owner):
    """The public members that this library, not torch, gives to a class, with the names of their owners."""
    bases = [base for base in owner.__mro__ if base.__module__.startswith("torch_distinput")]
    for name in sorted({name for base in bases for name in vars(base) if not name.startswith("_")}):
        member = inspect.getattr_static(owner, name)
        if callable(member) or isinstance(member, (property, staticmethod, classmethod)):
            yield name, getattr(owner, name)


def public_names():
    """Every public function, class, method and property of the package, by name."""
    for module in PUBLIC_MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, (int, str)):  # constants
                continue
            yield f"{module.__name__}.{name}", value
            if inspect.isclass(value):
                for member, found in members(value):
                    yield f"{module.__name__}.{name}.{member}", found


def documented(value):
    """Whether `value` has a docstring of its own; one of a method may be its parent's, one of a class may not."""
    text = value.__doc__ if inspect.isclass(value) else inspect.getdoc(value)
    return bool((text or "").strip())


EXAMPLES = dict(examples_in_sources())
PUBLIC = dict(public_names())


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    example = examples(EXAMPLES[name])[name]
    if MISSING and "decode_image" in example.docstring:
        pytest.skip(MISSING)
    report = []
    doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("module", dict.fromkeys(EXAMPLES.values()))
def test_all_examples_of_a_module_are_tried(module):
    assert examples(module).keys() == {name for name, place in EXAMPLES.items() if place == module}


def test_the_datasets_methods_have_examples():
    without = {"prefetch", "set_epoch", "options", "list_files", "from_ray"}
    owners = [base for base in tdi.Dataset.__mro__ if base.__module__.startswith("torch_distinput")]
    methods = [(base, name) for base in owners for name in vars(base) if not name.startswith("_")]
    assert len(methods) > 50
    names = {f"{base.__module__}.{base.__name__}.{name}" for base, name in methods if name not in without}
    assert names <= EXAMPLES.keys()


def test_every_public_name_has_a_docstring():
    assert len(PUBLIC) > 150
    assert [name for name, value in PUBLIC.items() if not documented(value)] == []
