# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The rules of docs/clusters.md on the variables of launchers, as plain Python: a reference for tests."""

import itertools
import re
from dataclasses import dataclass

TORCHRUN = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
BY_HAND = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
PMI = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID")
SLURM += ("SLURM_JOBID", "SLURM_STEP_ID", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST", "SLURMD_NODENAME")
NAMES = (*TORCHRUN, "LOCAL_WORLD_SIZE", *OPEN_MPI, *PMI, *SLURM, "PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK")
LAST_STEP = 0xFFFFFFEF


class Refused(Exception):
    """Variables that are wrong; the message has the name of one of them."""


@dataclass
class Launch:
    launcher: str
    rank: int
    size: int
    local_rank: int | None
    host: str
    master_addr: str
    master_port: int


def expand(hosts: str) -> list[str]:
    """All hosts of a list as Slurm writes them."""
    found = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", hosts):
        pieces = re.split(r"\[([^\]]*)\]", part)
        choices = [_numbers(piece) if odd else [piece] for odd, piece in zip(itertools.cycle((False, True)), pieces)]
        found += ["".join(chosen) for chosen in itertools.product(*choices)]
    return found


def _numbers(ranges: str) -> list[str]:
    numbers = []
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last or first) + 1)]
    return numbers


def launch_in(given: dict[str, str]) -> Launch | None:
    """What is to be read from the variables `given`."""
    env = {name: value for name, value in given.items() if value}
    if all(name in env for name in TORCHRUN):
        return _launch(env, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    in_job = "SLURM_JOB_ID" in env or "SLURM_JOBID" in env
    step = env.get("SLURM_STEP_ID", "")
    in_step = step.isdecimal() and int(step) <= LAST_STEP
    is_task = "SLURM_PROCID" in env and (in_step or not in_job or env["SLURM_PROCID"] != "0")
    ntasks = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in env else "SLURM_NTASKS"
    same = (env.get("PMI_RANK"), env.get("PMI_SIZE")) == (env.get("SLURM_PROCID"), env.get(ntasks))
    if OPEN_MPI[0] in env or OPEN_MPI[1] in env:
        names = ("Open MPI", OPEN_MPI[0], OPEN_MPI[1], OPEN_MPI[3])
    elif (PMI[0] in env or PMI[1] in env) and not (is_task and same):
        names = ("PMI", PMI[0], PMI[1], PMI[3])
    elif is_task:
        names = ("Slurm", "SLURM_PROCID", ntasks, None)
    elif "RANK" in env or "WORLD_SIZE" in env:
        names = ("RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    elif env.get("PET_NNODES", "1") != "1":
        raise Refused("PET_NNODES")
    else:
        return None
    return _launch(env, *names)


def _launch(env: dict[str, str], launcher: str, rank_name: str, size_name: str, local_size: str | None) -> Launch:
    for name in (size_name, rank_name):
        if name not in env:
            raise Refused(name)
    size = _number(env, size_name, 1, 2**31 - 1)
    rank = _number(env, rank_name, 0, size - 1)
    for name, expected in (("RANK", rank), ("WORLD_SIZE", size)):
        if launcher != "torchrun" and name in env and _number(env, name, 0, 2**31 - 1) != expected:
            raise Refused(name)
    local_rank = None
    for name in ("LOCAL_RANK", OPEN_MPI[2], PMI[2], "SLURM_LOCALID"):
        if local_rank is None and name in env:
            local_rank = _number(env, name, 0, 2**31 - 1)
    if "MASTER_ADDR" in env:
        address = env["MASTER_ADDR"]
    elif size == 1 or (local_size in env and _number(env, local_size, 1, size) == size):
        address = "127.0.0.1"
    elif launcher == "Slurm":
        hosts = "SLURM_STEP_NODELIST" if "SLURM_STEP_NODELIST" in env else "SLURM_JOB_NODELIST"
        if hosts not in env:
            raise Refused(hosts)
        if _number(env, "SLURM_NODEID", 0, 2**31 - 1, default=0) != 0 and rank == 0:
            raise Refused("SLURM_NODEID")
        address = expand(env[hosts])[0]
    else:
        raise Refused("MASTER_ADDR")
    port = _number(env, "MASTER_PORT", 1, 65535, default=29500)
    if launcher == "Slurm" and size > 1 and "MASTER_PORT" not in env:
        job = _number(env, "SLURM_JOB_ID" if "SLURM_JOB_ID" in env else "SLURM_JOBID", 0, 2**32 - 1)
        port = 15000 + (job + 1009 * int(env.get("SLURM_STEP_ID", "0"))) % 10000
    return Launch(launcher, rank, size, local_rank, env.get("SLURMD_NODENAME", ""), address, port)


def _number(env: dict[str, str], name: str, least: int, most: int, default: int | None = None) -> int:
    text = env.get(name)
    if text is None and default is not None:
        return default
    if text is None or not re.fullmatch("-?[0-9]+", text) or not least <= int(text) <= most:
        raise Refused(name)
    return int(text)
