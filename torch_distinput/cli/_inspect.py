# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`inspect`: show the saved positions in a checkpoint file (torch.save or JSON)."""

import argparse
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.cli._target import load_target
from torch_distinput.datasets._source_row import located
from torch_distinput.loader._data_loader import DataLoader, ledger_at
from torch_distinput.loader.state._check import STATE
from torch_distinput.loader.state._place import place_of

_LONGEST = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("state", metavar="STATE", type=Path, help="a file written by torch.save or json.dump")
    parser.add_argument(
        "target",
        metavar="SCRIPT:OBJECT",
        nargs="?",
        help="with --step: a Python file, and the name in it of the DataLoader that was saved, where the state alone "
        "does not tell the rows",
    )
    parser.add_argument(
        "--step",
        type=int,
        metavar="K",
        help="print the rows of step K of the epoch, over all ranks, instead, with the file and record of each",
    )


def run(arguments: argparse.Namespace) -> None:
    """Prints each position of this library in the file: one line on where it stands, then its fields, or the rows of a
    step. ValueError where there is none."""
    found = list(positions(read(arguments.state)))
    if not found:
        raise ValueError(f"`{arguments.state}` holds no position of torch_distinput.")
    for place, state in found:
        print(place or "(the whole file)")
        lines = lines_of(state) if arguments.step is None else rows_lines(state, arguments)
        for line in filter(None, (place_of(state), *lines)):
            print("  " + line)


def rows_lines(state: dict[str, Any], arguments: argparse.Namespace) -> Iterator[str]:
    """The rows of step `arguments.step`, and a line for each that lies in a file. ValueError for a state of no
    DataLoader."""
    if "batches" not in state:
        raise ValueError("--step: the position is not that of a DataLoader.")
    loader = None
    if arguments.target is not None:
        loader, _ = load_target(arguments.target, arguments.script_arguments)
        if not isinstance(loader, DataLoader):
            raise TypeError(f"`{arguments.target}` is a {type(loader).__name__}, but must be a DataLoader.")
    fields = {name: value for name, value in state.items() if name != "version"}
    ledger, world = ledger_at(fields, loader)
    rows = [row for rank in range(world) for row in ledger.rows(arguments.step, rank)]
    yield f"rows of step {arguments.step}: {' '.join(map(str, rows))}"
    if isinstance(ledger, _C.RowLedger):
        yield from place_lines(ledger, rows)


def place_lines(ledger: _C.RowLedger, rows: list[int]) -> Iterator[str]:
    """File and record of each row that has them, or why they are not known."""
    try:
        places = located(ledger, rows)
    except ValueError as error:
        yield str(error)
        return
    for row, place in zip(rows, places, strict=True):
        if place.file is not None:
            shown = _C.shown_url(place.file) if _C.names_object(place.file) else place.file
            yield f"row {row}: {shown}, record {place.record}"


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
