# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The commands of `python -m torch_distinput`."""

import json
import re
import time

import pytest
import torch
from torch_datasets import IndexStream

import torch_distinput as tdi
from torch_distinput.cli import _bench as bench
from torch_distinput.cli import _doctor as doctor
from torch_distinput.cli import main

SCRIPT = """
import torch
import torch_distinput as tdi

loader = tdi.DataLoader(torch.arange(400).reshape(100, 4), batch_size=8)
number = 5
empty = tdi.Dataset.range(0)
steps = []


def make():
    return tdi.Dataset.range(6).batch(2)


def train(batch):
    steps.append(len(batch))


def needs(argument):
    pass


def fails():
    raise RuntimeError("no data here")


once = iter(loader)


if __name__ == "__main__":
    raise SystemExit("the script ran")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_explain_shows_the_tree_of_an_object_or_of_what_a_function_makes(script, capsys):
    main(["explain", f"{script}:loader"])
    assert "path" in capsys.readouterr().out
    main(["explain", f"{script}:make"])
    assert capsys.readouterr().out.startswith("batch(batch_size=2")


@pytest.mark.parametrize(
    "command, message",
    [
        (["explain", "{script}:nothing"], "defines no `nothing`"),
        (["explain", "{script}:number"], "has no explain"),
        (["explain", "{script}"], "must be SCRIPT:OBJECT"),
        (["explain", "no.py:loader"], "there is no file"),
        (["bench", "{script}:empty"], "yields no batch"),
        (["bench", "{script}:once"], "an iterator, which can be read once"),
        (["explain", "{script}:needs"], "TypeError: needs() missing 1 required positional argument"),
        (["explain", "{script}:fails"], "train.py`, line 24: RuntimeError: no data here"),
        (["explain", "{folder}/exits.py:loader"], "ended with exit status 3 before `loader` was there"),
        (["explain", "{folder}/syntax.py:loader"], "SyntaxError"),
        (["report", "{folder}/event.json"], "event 1 is {'ph': 'X', 'ts': 0.0}"),
        (["report", "{folder}/list.json"], "has no list `traceEvents`"),
        (["report", "{folder}"], "Is a directory"),
        (["report", "{folder}/event.json", "--output", "{folder}"], "event 1"),
        (["inspect", "{folder}/list.json"], "holds no position"),
        (["inspect", "{folder}/none"], "there is no file"),
        (["bench", "{script}:loader", "--seconds", "0"], "must be above 0"),
        (["bench", "{script}:loader", "--step", "nothing"], "no function `nothing`"),
        (["bench-store", "--ranks", "0"], "`--ranks` must be at least 1, but is 0."),
        (
            ["bench-store", "--ranks", "4", "--nodes", "5"],
            "`--nodes` must be in [1, 4], the number of ranks, but is 5.",
        ),
        (["bench-store", "--ranks", "4", "--store", "here"], "`--store` must be HOST:PORT, but is 'here'."),
        (["inspect", "{script}"], "neither JSON nor a plain checkpoint of torch.save"),
        (["report", "{script}"], "is not JSON"),
    ],
)
def test_a_command_that_fails_says_why_in_one_line(script, tmp_path, command, message):
    (tmp_path / "exits.py").write_text("raise SystemExit(3)")
    (tmp_path / "syntax.py").write_text("def (")
    (tmp_path / "event.json").write_text('{"traceEvents": [{"ph": "i"}, {"ph": "X", "ts": 0.0}]}')
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(SystemExit) as error:
        main([part.format(script=script, folder=tmp_path) for part in command])
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_script_gets_the_arguments_after_two_dashes(tmp_path, capsys):
    script = tmp_path / "parses.py"
    script.write_text(
        "import argparse, beside, torch, torch_distinput as tdi\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--rows', type=int, required=True)\n"
        "loader = tdi.DataLoader(torch.arange(parser.parse_args().rows), batch_size=8)\n"
    )
    (tmp_path / "beside.py").touch()
    main(["explain", f"{script}:loader", "--", "--rows", "24"])
    assert "path" in capsys.readouterr().out
    main(["bench", f"{script}:loader", "--seconds", "0.01", "--", "--rows", "24"])
    assert "batches/s" in capsys.readouterr().out
    with pytest.raises(SystemExit) as error:
        main(["explain", f"{script}:loader"])
    assert "exit status 2" in str(error.value) and "after `--`" in str(error.value)
    with pytest.raises(SystemExit):
        main(["doctor", "--", "--rows"])
    assert "only commands that run a script" in capsys.readouterr().err


def test_bench_tells_the_rate_the_limit_and_what_a_perfect_loader_would_gain(script, capsys):
    main(["bench", f"{script}:loader", "--seconds", "0.05", "--step", "train"])
    text = capsys.readouterr().out
    assert re.search(r"loader: +[\d,.]+ batches/s, [\d,]+ rows/s", text) and "reached" in text
    gain, least, most = map(
        float, re.search(r"([\d.]+) times as fast \(([\d.]+) to ([\d.]+) in 5 turns\)", text).groups()
    )
    assert 1 <= least <= gain <= most and ("-bound" in text or "the step hardly waits" in text)


class Waiting:
    """A loader of others, with counters of its last epoch only."""

    def stats(self):
        return tdi.Stats(batches=3, wait_seconds=9.0, consumer_seconds=1.0, build_seconds=8.0)


@pytest.mark.parametrize(
    ("waited", "gains", "said", "not_said"),
    [
        (0.06, [1.4, 1.47, 1.5], "is slower beside the loader than without", "-bound"),
        (0.06, [1.0, 1.02, 0.9], "training was consumer-bound\nevidence: 2.0% of the time", "slower beside"),
        (0.06, [0.97, 1.5, 1.6], "training was consumer-bound", "slower beside"),
        (2.0, [1.9, 2.0, 2.2], "training was decode-bound\nevidence: 40.0% of the time", "slower beside"),
    ],
)
def test_what_bench_concludes_follows_from_one_measurement(waited, gains, said, not_said):
    turns = [bench.Training(100, waited / 3, 1.0 if waited > 1 else 0.98) for _ in gains]
    text = "\n".join(bench.conclusions(Waiting(), turns, gains))
    share = waited / (waited + sum(turn.worked for turn in turns))
    assert f"{1 / (1 - share):.2f} times by not waiting for data, which takes {share:.1%}" in text
    assert f"({max(min(gains), 1):.2f} to {max(gains):.2f} in 3 turns)" in text
    assert said in text and not_said not in text


def test_bench_takes_the_time_inside_next_for_the_wait():
    def batches():
        while True:
            time.sleep(0.002)
            yield 1

    turn = bench._train(batches(), lambda batch: time.sleep(0.001), 0.05)
    assert turn.waited > turn.worked > 0 and turn.batches > 2


@pytest.mark.parametrize("save", [torch.save, lambda value, path: path.write_text(json.dumps(value))])
def test_inspect_finds_the_positions_in_a_checkpoint(tmp_path, capsys, save):
    iterator = iter(tdi.Dataset.range(10).batch(4))
    next(iterator)
    save({"step": 7, "data": [iterator.state_dict()]}, tmp_path / "state")
    main(["inspect", str(tmp_path / "state")])
    text = capsys.readouterr().out
    assert (
        text.startswith("['data'][0]\n  epoch 0, 1 element, 4 rows\n")
        and "kind: 'torch_distinput.DatasetIterator'" in text
        and "row: 4" in text
    )


class Code:
    def __reduce__(self):
        return print, ("run",)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: path.write_bytes(b"garbage" * 9), "nor a plain checkpoint of torch.save: it is damaged"),
        (
            lambda path: path.write_bytes(b"PK\x03\x04" + bytes(50)),
            "nor a plain checkpoint of torch.save: it is damaged",
        ),
        (lambda path: path.write_bytes(b""), "nor a plain checkpoint of torch.save: it is damaged"),
        (lambda path: torch.save({"a": Code()}, path), "it holds code or classes, which are not run"),
        (lambda path: path.write_bytes(b'{"a": '), "begins like JSON, but is not valid JSON"),
        (lambda path: path.write_bytes(b"[" * 100_000), "begins like JSON, but is not valid JSON"),
        (lambda path: path.write_bytes(b'{"\xff": 1}'), "begins like JSON, but is not valid JSON"),
        (lambda path: None, "there is no file"),
        (lambda path: path.mkdir(), "there is no file"),
    ],
)
def test_inspect_says_in_its_own_words_what_it_cannot_read(tmp_path, capsys, write, message):
    path = tmp_path / "state.pt"
    write(path)
    with pytest.raises(SystemExit) as error:
        main(["inspect", str(path)])
    text = str(error.value)
    assert text.startswith("inspect: ") and message in text and str(path) in text
    assert "weights_only" not in text and "Errno" not in text and "\n" not in text
    assert "run" not in capsys.readouterr().out


def test_inspect_shows_the_state_of_a_loader(tmp_path, capsys):
    loader = tdi.DataLoader(torch.arange(10), batch_size=4)
    next(iter(loader))
    torch.save({"loader": loader.state_dict(), "model": {"weight": torch.ones(3)}}, tmp_path / "state.pt")
    main(["inspect", str(tmp_path / "state.pt")])
    text = capsys.readouterr().out
    assert text.startswith("['loader']\n  epoch 0, batch 1 of 3, 4 of 10 rows\n")
    assert "version: 3" in text and "weight" not in text


@pytest.mark.parametrize(
    ("dataset", "arguments", "wanted"),
    [
        (torch.arange(100), {}, "epoch 0, batch 2 of 4, 64 of 100 rows"),
        (torch.arange(100), {"drop_last": True}, "epoch 0, batch 2 of 3, 64 of 100 rows"),
        (torch.arange(100), {"collate_fn": list, "num_workers": 2}, "epoch 0, batch 2 of 4, 64 of 100 rows"),
        (torch.arange(100), {"distributed": True}, "epoch 0, batch 2 of 4, 64 of 100 rows"),
        (torch.arange(100), {"distributed": True, "collate_fn": list}, "epoch 0, batch 2 of 4, 64 of 100 rows"),
        (torch.arange(100), {"sampler": range(100)}, "epoch 0, batch 2"),  # only the sampler knows how many there are
        (torch.arange(100), {"batch_size": None}, "epoch 0, batch 2"),
        (tdi.Dataset.range(100), {}, "epoch 0, batch 2 of 4, 64 rows"),
        (tdi.Dataset.range(100).batch(32), {"batch_size": None}, "epoch 0, batch 2 of 4, 64 rows"),
        (tdi.Dataset.range(100).filter(lambda row: row >= 0), {}, "epoch 0, batch 2"),
        (tdi.Dataset.range(100), {"distributed": True}, "epoch 0, batch 2 of 4, 64 rows"),
        (IndexStream(100), {}, "epoch 0, batch 2"),
        (IndexStream(100), {"distributed": True}, "epoch 0, batch 2, 64 rows over all ranks, rank 0 of 1"),
    ],
)
def test_inspect_says_where_a_loader_stands(tmp_path, capsys, dataset, arguments, wanted):
    loader = tdi.DataLoader(dataset, **{"batch_size": 32} | arguments)
    with loader:
        iterator = iter(loader)
        next(iterator), next(iterator)
        torch.save(loader.state_dict(), tmp_path / "state.pt")
        main(["inspect", str(tmp_path / "state.pt")])
        assert capsys.readouterr().out.splitlines()[:2] == ["(the whole file)", f"  {wanted}"]
        assert [*iterator]
        torch.save(loader.state_dict(), tmp_path / "state.pt")
    main(["inspect", str(tmp_path / "state.pt")])
    assert capsys.readouterr().out.splitlines()[1].endswith(", ended")


def test_inspect_says_where_the_steps_of_a_strategy_stand(tmp_path, capsys):
    steps = iter(tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(tdi.Dataset.range(10).batch(4)))
    next(steps), next(steps)
    torch.save(steps.state_dict(), tmp_path / "state.pt")
    main(["inspect", str(tmp_path / "state.pt")])
    assert capsys.readouterr().out.startswith("(the whole file)\n  epoch 0, 2 steps, 8 rows\n")


def test_inspect_says_what_a_strange_state_tells(tmp_path, capsys):
    (tmp_path / "state.json").write_text(
        '{"torch_distinput.DataLoader": {"epoch": "?", "batches": 2, "num_batches": [4], "rows": 64, "native": 1}}'
    )
    main(["inspect", str(tmp_path / "state.json")])
    assert capsys.readouterr().out.startswith("(the whole file)\n  batch 2\n  epoch: '?'\n")


def test_bench_store_tells_what_hosts_cost_the_store(tmp_path, capsys):
    costs = {}
    for ranks, nodes in [(16, 4), (32, 4), (4, 1)]:
        main(["bench-store", "--ranks", str(ranks), "--nodes", str(nodes), "--json", str(tmp_path / "costs.json")])
        assert f"{ranks} ranks on {nodes} hosts" in capsys.readouterr().out
        costs[ranks] = json.loads((tmp_path / "costs.json").read_text())
    for ranks in (16, 32):
        assert costs[ranks]["connections"] == 8
        assert costs[ranks]["rest_requests_per_second"] <= 4 * 2.5
        # A contribution and a counter, the wait for the result and its text; a few of the host that joins them.
        assert costs[ranks]["round_messages"] <= 4 * 4 + 8
        assert costs[ranks]["start_bytes"] < 50_000
    assert costs[4]["round_messages"] == 0  # a host of its own needs no store


def test_doctor_looks_at_the_limits_of_the_stores_host(capsys, monkeypatch):
    main(["doctor", "--ranks", "100000000"])
    text = capsys.readouterr().out
    assert "net.core.somaxconn=100000000" in text and "ulimit -n 300000256" in text
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda which: (1024, 1024))
    advice = [finding.advice for finding in doctor.store_limits(100)]
    assert advice == ["", ""]


def test_doctor_looks_at_everything_and_advises_where_a_limit_is_low(capsys, tmp_path, monkeypatch):
    main(["doctor"])
    text = capsys.readouterr().out
    for name in ("versions", "CUDA", "CPUs", "page-locked memory", "open files"):
        assert f"  {name}: " in text
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda which: (256, 1024))
    assert "ulimit -n 1024" in str(next(doctor.files()))
    monkeypatch.setattr(doctor._C, "cpu_quota", lambda: 0.5)
    assert any(f.name == "cgroup" and f.seen.startswith("CPU time for 0.5 CPUs") for f in doctor.processors())
