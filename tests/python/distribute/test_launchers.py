# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Programs that a launcher started in several processes, but that made no process group."""

import pytest
import torch

import torch_distinput as tdi

LAUNCHERS = {
    "RANK": "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK": "PMI_SIZE",
    "SLURM_PROCID": "SLURM_NTASKS",
}
NAMES = [*LAUNCHERS, *LAUNCHERS.values(), "SLURM_STEP_ID", "SLURM_JOB_ID", "SLURM_JOBID"]


@pytest.fixture
def environment(monkeypatch):
    """Sets variables, after it has removed those of launchers."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return lambda variables: [monkeypatch.setenv(name, value) for name, value in variables.items()]


@pytest.mark.parametrize(
    ("variables", "quoted"),
    [
        ({"OMPI_COMM_WORLD_SIZE": "4"}, "OMPI_COMM_WORLD_SIZE=4"),
        (
            {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"},
            "OMPI_COMM_WORLD_SIZE=4 and OMPI_COMM_WORLD_RANK=3",
        ),
        ({"PMI_SIZE": "2", "PMI_RANK": "0"}, "PMI_SIZE=2 and PMI_RANK=0"),
        (
            {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_PROCID": "0"},
            "SLURM_NTASKS=2 and SLURM_PROCID=0",
        ),
        ({"WORLD_SIZE": "2", "RANK": "1"}, "WORLD_SIZE=2 and RANK=1"),
    ],
)
def test_several_processes_without_a_group_are_an_error_that_quotes_the_variables(environment, variables, quoted):
    environment(variables)
    message = f"DataLoader: the environment says {quoted}, but no process group is initialised"
    with pytest.raises(RuntimeError, match=f"^{message}"):
        list(tdi.DataLoader(torch.arange(100), batch_size=5, distributed=True))
    with pytest.raises(RuntimeError, match=f"^MultiWorkerMirroredStrategy: .*{quoted}"):
        tdi.MultiWorkerMirroredStrategy(devices=["cpu"])


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"WORLD_SIZE": "1", "RANK": "0"},
        {"WORLD_SIZE": ""},
        {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"},
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"},
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"},
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967290"},
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_STEP_ID": "0"},
    ],
)
def test_one_process_reads_all_rows(environment, variables):
    environment(variables)
    rows = [row for batch in tdi.DataLoader(torch.arange(10), 5, distributed=True) for row in batch.tolist()]
    assert rows == list(range(10))
