# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`inspect STATE --step K`: the rows of a step, from the state of any rank, in one process."""

import itertools
import runpy

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi
from torch_distinput.cli import main

SCRIPT = """
import torch, torch_distinput as tdi
dataset = tdi.Dataset.range(23).shuffle()
loader = tdi.DataLoader(dataset, batch_size=3, distributed=True)
alone = tdi.DataLoader(torch.arange(23), batch_size=3, shuffle=True)
"""


def shown(capsys, *arguments):
    main(["inspect", *map(str, arguments)])
    return [int(row) for row in capsys.readouterr().out.rpartition(": ")[2].split()]


def train(rank, path, kind, options):
    data = tdi.Dataset.range(23).shuffle() if kind == "pipeline" else range(23)
    loader = tdi.DataLoader(data, batch_size=3, distributed=True, **options)
    iterator = iter(loader)
    parts = [batch.tolist() for batch in itertools.islice(iterator, 1)]
    loader.exclude([4, 5])
    if rank == 0:
        torch.save({"data": loader.state_dict()}, path)
    return parts + [batch.tolist() for batch in iterator]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("map-style", {"shuffle": True, "seed": 4}),
        ("map-style", {"shuffle": True, "split": "tf"}),
        ("map-style", {"drop_last": True}),
        ("pipeline", {}),
    ],
)
def test_the_rows_of_any_step_of_a_run_of_ranks_are_shown(kind, options, tmp_path, capsys):
    path, script = tmp_path / "state.pt", tmp_path / "train.py"
    script.write_text(SCRIPT)
    parts = returned(run_ranks(train, 2, str(path), kind, options))
    target = [f"{script}:loader"] if kind == "pipeline" else []
    for step, expected in enumerate(zip(*parts, strict=True)):
        assert shown(capsys, path, *target, "--step", step) == sum(expected, [])


def test_the_loader_of_one_process_is_named(tmp_path, capsys):
    path, script = tmp_path / "state.pt", tmp_path / "train.py"
    script.write_text(SCRIPT)
    loader = tdi.DataLoader(torch.arange(23), batch_size=3, shuffle=True)
    iterator = iter(loader)
    seen = [batch.tolist() for batch in itertools.islice(iterator, 2)]
    torch.save(loader.state_dict(), path)
    seen += [batch.tolist() for batch in iterator]
    for step in (0, 1, 5):
        assert shown(capsys, path, f"{script}:alone", "--step", step) == seen[step]
    with pytest.raises(SystemExit, match="name the loader too, as SCRIPT:OBJECT"):
        main(["inspect", str(path), "--step", "1"])


def test_file_and_record_are_shown_beside_rows_of_files(tmp_path, capsys):
    path, script = tmp_path / "state.pt", tmp_path / "train.py"
    names = [str(tmp_path / f"{number}.txt") for number in range(3)]
    for name in names:
        with open(name, "w", encoding="utf-8") as file:
            file.writelines(f"{name} {record}\n" for record in range(4))
    script.write_text(
        f"import torch_distinput as tdi\n"
        f"dataset = tdi.TextLineDataset({names}).shuffle()\n"
        f"loader = tdi.DataLoader(dataset, batch_size=5)\n"
        f"drawn = tdi.TextLineDataset(tdi.Dataset.list_files({names})).shuffle().repeat(2)\n"
        f"rounds = tdi.DataLoader(drawn, batch_size=5)\n"
    )
    loader = tdi.DataLoader(tdi.TextLineDataset(names).shuffle(), batch_size=5)
    batches = list(loader)
    torch.save(loader.state_dict(), path)
    rows = loader.rows_of(0, 1).tolist()
    main(["inspect", str(path), f"{script}:loader", "--step", "1"])
    shown = capsys.readouterr().out.splitlines()[-6:]
    assert shown[0] == f"  rows of step 1: {' '.join(map(str, rows))}"
    places = [line.rsplit(" ", 1) for line in batches[1]]
    assert shown[1:] == [
        f"  row {row}: {name}, record {record}" for row, (name, record) in zip(rows, places, strict=True)
    ]
    rounds = runpy.run_path(str(script))["rounds"]
    next(iter(rounds))
    torch.save(rounds.state_dict(), path)
    main(["inspect", str(path), f"{script}:rounds", "--step", "1"])
    assert capsys.readouterr().out.splitlines()[-1].startswith("  repeat: each round reads the files in an order")


def test_an_iterator_of_a_dataset_has_no_steps(tmp_path):
    path = tmp_path / "state.pt"
    torch.save(iter(tdi.Dataset.range(3)).state_dict(), path)
    with pytest.raises(SystemExit, match="not that of a DataLoader"):
        main(["inspect", str(path), "--step", "1"])
