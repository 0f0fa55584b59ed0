# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Training under torchrun continues after a process was killed: the elastic example, on one node and on two."""

import contextlib
import os
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from places import EXAMPLES
from ranks import returned, run_ranks

import torch_distinput as tdi
from torch_distinput.cli import _doctor as doctor

EXAMPLE = EXAMPLES / "04_elastic_resume.py"
LIMIT = 150

# Without it, torch's restarted processes may wait for processes that died (see the example).
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def run_agents(folder: Path, *agents: tuple[str, ...]) -> str:
    """Runs one torchrun for each tuple of options, in parallel; returns what they printed."""
    path = [str(Path(tdi.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | OWN_STORE | {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
    training = [str(EXAMPLE), "--folder", str(folder / "run"), "--crash-at", "9"]
    outputs, processes = [], []
    for number, options in enumerate(agents):
        output = folder / f"agent{number}.log"
        outputs.append(output)
        with output.open("w") as file:
            command = [sys.executable, "-m", "torch.distributed.run", *options, "--max-restarts=3", *training]
            processes.append(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment))
    try:
        codes = [process.wait(timeout=LIMIT) for process in processes]
    finally:
        for process in processes:
            process.terminate()  # an agent ends its workers
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            process.kill()
    printed = "".join(output.read_text() for output in outputs)
    assert codes == [0] * len(agents), printed
    return printed


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def strategy_warnings(rank):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            tdi.MultiWorkerMirroredStrategy(devices=["cpu"])
    return [str(one.message) for one in caught]


def torchrun_says(restarts, shared):
    return {"TORCHELASTIC_MAX_RESTARTS": restarts, "TORCHELASTIC_USE_AGENT_STORE": shared}


def test_restarts_that_gloo_does_not_survive_are_foretold_once():
    first, second = returned(run_ranks(strategy_warnings, 2, **torchrun_says("3", "True")))
    assert len(first) == 1 and second == []
    assert "(--max-restarts=3)" in first[0] and "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in first[0]


@pytest.mark.parametrize(("restarts", "shared"), [("0", "True"), ("3", "False")])
def test_jobs_whose_restarts_meet_hear_nothing(restarts, shared):
    assert returned(run_ranks(strategy_warnings, 2, **torchrun_says(restarts, shared))) == [[], []]


def test_doctor_names_the_restarts(monkeypatch):
    for name, value in torchrun_says("3", "True").items():
        monkeypatch.setenv(name, value)
    (finding,) = doctor.restarts()
    assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in finding.advice
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "False")
    assert [finding.advice for finding in doctor.restarts()] == [""]


@pytest.mark.slow
def test_a_killed_process_costs_no_row(tmp_path):
    printed = run_agents(tmp_path, ("--standalone", "--nproc-per-node=2"))
    assert "resumed at row 256 of 1009 on 2 ranks" in printed
    assert "the epoch's 1009 rows were seen exactly once: True" in printed


@pytest.mark.slow
def test_a_process_killed_on_one_of_two_nodes_costs_no_row(tmp_path):
    """Each agent counts its own restarts, so the processes of one group may have different counts."""
    node = ("--nnodes=1:2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=job")
    node += (f"--rdzv-endpoint=localhost:{free_port()}",)
    printed = run_agents(tmp_path, node, node)
    assert "resumed at row 256 of 1009 on 2 ranks" in printed
    assert "the epoch's 1009 rows were seen exactly once: True" in printed
