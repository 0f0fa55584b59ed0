# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster of this machine alone, at ports that are free, which lasts as long as a test."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from launchers import free_port

_START_LIMIT = 30.0  # seconds
_CPUS = 8  # that Slurm gives to tasks, however many there are
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


@contextlib.contextmanager
def slurm_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands find the cluster."""
    host = socket.gethostname().partition(".")[0]
    ports = {"controller_port": free_port(), "node_port": free_port()}
    (folder / "slurm.conf").write_text(_CONFIGURATION.format(folder=folder, host=host, cpus=_CPUS, **ports))
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o600)
    env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
    munge_files = [f"--{what}-file={folder / what}" for what in ("key", "pid", "seed", "log")]
    with contextlib.ExitStack() as daemons:
        # It would refuse a folder of pytest's, which others may write to or cannot enter.
        daemons.enter_context(
            _daemon(["munged", "--foreground", "--force", f"--socket={folder}/munge", *munge_files], env)
        )
        _wait_until(lambda: (folder / "munge").exists(), "munged has no socket")
        daemons.enter_context(_daemon(["slurmctld", "-D"], env, folder / "slurmctld.log"))
        daemons.enter_context(_daemon(["slurmd", "-D", "-N", host], env, folder / "slurmd.log"))
        asked = ["sinfo", "--noheader", "--format=%T"]
        _wait_until(
            lambda: subprocess.run(asked, env=env, capture_output=True, text=True, timeout=20).stdout.strip() == "idle",
            "the node is not idle",
        )
        yield env


@contextlib.contextmanager
def _daemon(command: list[str], env: dict[str, str], log: Path | None = None) -> Iterator[None]:
    with contextlib.ExitStack() as files:
        output = files.enter_context(log.open("w")) if log else subprocess.DEVNULL
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until(condition, otherwise: str) -> None:
    end = time.monotonic() + _START_LIMIT
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"Slurm did not start: {otherwise} after {_START_LIMIT} s")
        time.sleep(0.1)
