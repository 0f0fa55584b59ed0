# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`inspect`: show the saved positions in a checkpoint file (torch.save or JSON)."""

import argparse
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from torch_distinput.loader.state._check import STATE
from torch_distinput.loader.state._place import place_of

_LONGEST = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("state", metavar="STATE", type=Path, help="a file written by torch.save or json.dump")


def run(arguments: argparse.Namespace) -> None:
    """Prints each position of this library in the file: one line on where it stands, then its fields. ValueError where
    there is none."""
    found = list(positions(read(arguments.state)))
    if not found:
        raise ValueError(f"`{arguments.state}` holds no position of torch_distinput.")
    for place, state in found:
        print(place or "(the whole file)")
        for line in filter(None, (place_of(state), *lines_of(state))):
            print("  " + line)


def read(path: Path) -> Any:
    """What the file holds; code in a pickle is not run."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file `{path}`.")
    data = path.read_bytes()
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"`{path}` begins like JSON, but is not valid JSON: {error}") from error
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of many types, and with advice to run what the file holds
        told = "holds code or classes, which are not run" if zipfile.is_zipfile(path) else "is damaged, or another file"
        raise ValueError(f"`{path}` is neither JSON nor a plain checkpoint of torch.save: it {told}.") from error


def positions(value: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The states of loaders and iterators in a nested value, with the place of each."""
    if isinstance(value, dict):
        own = isinstance(value.get("kind"), str) and value["kind"].startswith("torch_distinput.")
        if own or STATE in value:
            yield place, value.get(STATE, value)
            return
        for key, inner in value.items():
            yield from positions(inner, f"{place}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from positions(inner, f"{place}[{index}]")


def lines_of(state: dict[str, Any]) -> Iterator[str]:
    """A line for each field; long values are cut, nested ones are indented."""
    for key, value in state.items():
        if isinstance(value, dict) and value:
            yield f"{key}:"
            yield from ("  " + line for line in lines_of(value))
        elif isinstance(value, torch.Tensor):
            yield f"{key}: tensor of {value.dtype}, shape {tuple(value.shape)}"
        else:
            text = repr(value)
            yield f"{key}: {text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}"
