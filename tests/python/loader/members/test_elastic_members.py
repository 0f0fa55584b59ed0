# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Members under torchrun, which starts all processes again when one dies or a node joins."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import elastic_members
import member_training
import pytest
import torch

import torch_distinput as tdi

NODES = 3
LIMIT = 280


class Agents:
    """torchrun's agents of `NODES` nodes with one process each, of which those that are killed begin again."""

    def __init__(self, folder, training, kills):
        path = [str(Path(tdi.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._env = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "PYTHONPATH": os.pathsep.join(path)}
        self._folder, self._arguments = folder, [*(str(int(value)) for value in training), str(kills)]
        self._endpoint = f"localhost:{_free_port()}"
        self._running = {}  # agents and their nodes, by descriptor
        self.begun = 0

    def start(self, node):
        command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes=1:{NODES}", "--nproc-per-node=1"]
        command += ["--max-restarts=100", "--monitor-interval=0.1", "--rdzv-backend=c10d", "--rdzv-id=job"]
        command += [f"--rdzv-endpoint={self._endpoint}"]
        conf = f"is_host={int(node == 0)},last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=8"
        command += [f"--rdzv-conf={conf}"]
        command += [elastic_members.__file__, str(self._folder), str(node), str(NODES), *self._arguments]
        with (self._folder / f"agent {self.begun}.log").open("w") as log:
            agent = subprocess.Popen(command, env=self._env, stdout=log, stderr=subprocess.STDOUT)
        self._running[os.pidfd_open(agent.pid)] = agent, node
        self.begun += 1

    def run(self):
        """Until the agent of node 0 ends, which holds the job's store and so is not killed. Its exit status."""
        for node in range(NODES):
            self.start(node)
        deadline = time.monotonic() + LIMIT
        while True:
            ended, _, _ = select.select(list(self._running), [], [], max(deadline - time.monotonic(), 0))
            assert ended, f"the job has not ended after {LIMIT} s\n{self.told()}"
            for descriptor in ended:
                agent, node = self._running.pop(descriptor)
                os.close(descriptor)
                if node == 0:
                    return agent.wait()
                if agent.wait() == -signal.SIGKILL:
                    self.start(node)

    def told(self):
        return "".join(log.read_text() for log in sorted(self._folder.glob("agent *.log")))

    def end(self):
        for descriptor, (agent, _) in self._running.items():
            os.close(descriptor)
            agent.terminate()  # and its process
        for agent, _ in self._running.values():
            agent.wait(timeout=30)


def _free_port():
    with socket.create_server(("localhost", 0)) as listener:
        return listener.getsockname()[1]


def _learnt(folder, training, kills):
    """What each process that lives to the end has learnt, after `kills` kills."""
    agents = Agents(folder, training, kills)
    try:
        assert agents.run() == 0, agents.told()
    finally:
        agents.end()
    assert len(list(folder.glob("kill *"))) == kills
    assert agents.begun == NODES + (kills + 1) // 2
    assert (folder / "learnt 0.pt").exists()
    return [torch.load(learnt) for learnt in folder.glob("learnt *.pt")]


@pytest.mark.slow
def test_processes_and_nodes_that_are_killed_cost_no_row(tmp_path):
    training = member_training.Training(600, 7, 1)
    expected = member_training.undisturbed(training)
    for learnt in _learnt(tmp_path, training, 4):
        member_training.check_learnt(learnt, expected)


@pytest.mark.slow
def test_streams_of_processes_and_nodes_that_are_killed_are_handed_over(tmp_path):
    for learnt in _learnt(tmp_path, member_training.Training(600, 7, 1, streams=True), 3):
        assert learnt["seen"].eq(1).all()
