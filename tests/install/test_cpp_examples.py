# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The programs in examples/cpp build against the installed package and do what they say."""

import json
import random
import re
import shutil
import sys
from pathlib import Path

import pytest
from installed import ROOT, build, free_port, run, run_together
from launchers import VERSIONS, Absent
from slurm_cluster import slurm_cluster

import torch_distinput as tdi

# Compiling them takes a minute.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def examples(prefix: Path) -> Path:
    return build("examples", prefix, ROOT / "examples/cpp")


def run_processes(size: int, *command: object, variables: tuple[str, str] = ("RANK", "WORLD_SIZE")) -> list[str]:
    """The output of each of `size` processes with a launcher's two variables, and with a store on rank 0."""
    group = {variables[1]: str(size), "MASTER_ADDR": "localhost", "MASTER_PORT": free_port()}
    return run_together([[*command]] * size, [group | {variables[0]: str(rank)} for rank in range(size)])


def test_the_digits_program_learns_from_a_csv_file(examples: Path, tmp_path: Path):
    """Rows whose brightest eighth of the image says which digit they are."""
    draw = random.Random(0)
    lines = []
    for row in range(500):
        digit = row % 8
        pixels = [draw.randint(8, 16) if pixel // 8 == digit else draw.randint(0, 7) for pixel in range(64)]
        lines.append(",".join(map(str, [*pixels, digit])))
    draw.shuffle(lines)
    file = tmp_path / "digits.csv"
    file.write_text("\n".join(lines) + "\n")
    output = run(examples / "01_digits", file, timeout=60)
    assert "rows 500, tested 100" in output
    assert float(re.search(r"accuracy ([\d.]+)", output)[1]) > 0.9

    file.write_text("\n".join([*lines[:5], "1,2,three", *lines[5:]]) + "\n")
    with pytest.raises(AssertionError, match=r"map\(function\): element 5: number 2 is missing"):
        run(examples / "01_digits", file, timeout=60)


def test_two_replicas_train_one_model(examples: Path):
    assert "rows seen 2020 of 2020" in run(examples / "02_two_replicas", timeout=60)


def uneven_lines(size: int) -> list[str]:
    """What 03_uneven_processes prints in each of `size` processes."""
    rows = [100 * process + k for process in range(size) for k in range(5 + 4 * process)]
    steps = -(-(5 + 4 * (size - 1)) // 2)
    return [f"process {rank} of {size}: steps {steps}, rows {len(rows)}, sum {sum(rows)}" for rank in range(size)]


# As torchrun sets them, Open MPI, MPICH and Slurm.
@pytest.mark.parametrize(
    "variables",
    [
        ("RANK", "WORLD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
    ],
)
def test_processes_with_uneven_data_take_the_same_steps(examples: Path, variables: tuple[str, str]):
    size = 4 if variables[0] == "RANK" else 2
    outputs = run_processes(size, examples / "03_uneven_processes", variables=variables)
    assert [output.splitlines()[-1] for output in outputs] == uneven_lines(size)


@pytest.mark.parametrize("agent_hosts", [True, False])
def test_torchrun_starts_a_program_without_python(examples: Path, agent_hosts: bool):
    """With the store of torchrun's agent, and with one on rank 0."""
    command = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node=3"]
    rendezvous = ["--standalone"] if agent_hosts else ["--master-addr=localhost", f"--master-port={free_port()}"]
    environment = {} if agent_hosts else {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    output = run(*command, *rendezvous, examples / "03_uneven_processes", env=environment, timeout=120)
    assert sorted(line for line in output.splitlines() if line.startswith("process ")) == uneven_lines(3)


def test_mpirun_starts_a_program(examples: Path):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed (Debian: openmpi-bin)")
    version = run("mpirun", "--version", timeout=60)
    # Open MPI refuses to run as root, and to run more processes than there are cores.
    options = ["--allow-run-as-root", "--oversubscribe"] if "Open" in version or "OpenRTE" in version else []
    port = {"MASTER_PORT": free_port()}
    output = run("mpirun", *options, "-n", 3, examples / "03_uneven_processes", env=port, timeout=120)
    assert sorted(line for line in output.splitlines() if line.startswith("process ")) == uneven_lines(3)


def test_srun_starts_a_program_without_an_address(examples: Path, tmp_path: Path):
    try:
        VERSIONS["Slurm"]()
    except Absent as absent:
        pytest.skip(str(absent))
    with slurm_cluster(tmp_path) as cluster:
        where = {"SLURM_CONF": cluster["SLURM_CONF"]}
        output = run("srun", "-n", 3, examples / "03_uneven_processes", env=where, timeout=120)
    assert sorted(line for line in output.splitlines() if line.startswith("process ")) == uneven_lines(3)


def test_an_own_source_and_an_own_op_obey_the_laws(examples: Path):
    assert run(examples / "04_own_source", timeout=60) == "row 0: 0\nrow 2: 4\nrow 4: 16\nrow 6: 36\n"


def test_processes_continue_as_another_number_and_in_python(examples: Path, tmp_path: Path):
    def rows(outputs: list[str]) -> list[int]:
        return [int(row) for output in outputs for row in re.search(r"^rows(.*)$", output, re.M)[1].split()]

    state = tmp_path / "state.json"
    first = rows(run_processes(2, examples / "05_checkpoint", state, 3))
    assert len(first) == 3 * 6

    # The same pipeline in Python continues from the file that C++ wrote.
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    dataset = tdi.Dataset.range(50).shuffle(seed=7).batch(6)
    steps = iter(strategy.distribute_dataset(dataset))
    steps.load_state_dict(json.loads(state.read_text()))
    seen = [int(row) for part in next(steps).values for row in part]
    assert sorted({*first, *seen}) == sorted([*first, *seen])
    # C++ continues from the file that Python writes, as another number of processes.
    state.write_text(json.dumps(steps.state_dict(), indent=2))
    rest = rows(run_processes(3, examples / "05_checkpoint", state))
    assert sorted([*first, *seen, *rest]) == list(range(50))


def test_a_program_of_torch_data_changes_one_name(examples: Path):
    assert run(examples / "06_torch_data", timeout=60) == "rows 10, resumed at 4, streamed 10\n"
