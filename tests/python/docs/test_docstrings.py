# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The package's docstrings: every public name has one, and every example in one is true."""

import doctest
import importlib
import inspect
import pkgutil

import pytest
import torch
from decoders import MISSING

import torch_distinput as tdi
from torch_distinput import monitoring

PUBLIC_MODULES = (tdi, tdi.testing, monitoring, tdi.compat, tdi.compat.v1)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules():
    yield tdi
    for info in pkgutil.walk_packages(tdi.__path__, "torch_distinput."):
        if info.name.rsplit(".")[-1] in ("__main__", "_C"):
            continue
        try:
            yield importlib.import_module(info.name)
        except ModuleNotFoundError as error:  # an adapter of a package that is not installed
            if not info.name.startswith(("torch_distinput.frameworks.", "torch_distinput.monitoring.")):
                raise
            assert not str(error.name).startswith("torch_distinput")


def examples():
    """Each docstring of the package that has examples, by name."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    globs = {"torch": torch, "tdi": tdi}
    found = [test for module in modules() for test in finder.find(module, module.__name__, globs=globs)]
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


EXAMPLES = examples()
PUBLIC = dict(public_names())


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    if MISSING and "decode_image" in EXAMPLES[name].docstring:
        pytest.skip(MISSING)
    report = []
    doctest.DocTestRunner(optionflags=FLAGS).run(EXAMPLES[name], out=report.append)
    assert not report, "".join(report)


def test_the_datasets_methods_have_examples():
    without = {"prefetch", "set_epoch", "options", "list_files"}
    owners = [base for base in tdi.Dataset.__mro__ if base.__module__.startswith("torch_distinput")]
    methods = [(base, name) for base in owners for name in vars(base) if not name.startswith("_")]
    assert len(methods) > 50
    names = {f"{base.__module__}.{base.__name__}.{name}" for base, name in methods if name not in without}
    assert names <= EXAMPLES.keys()


def test_every_public_name_has_a_docstring():
    assert len(PUBLIC) > 150
    assert [name for name, value in PUBLIC.items() if not documented(value)] == []
