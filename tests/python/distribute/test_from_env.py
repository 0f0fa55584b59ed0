# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the variables of launchers mean, against a reference in plain Python, and the groups that are made from them."""

import contextlib
import dataclasses
import datetime
import logging
import os
import signal
import socket
from unittest import mock

import launches
import pytest
import torch.distributed as dist
from forked_programs import ForkedProgram
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput import _C

texts = st.sampled_from(["0", "1", "2", "4", "", "-1", "x", "4294967290", "4.0", " 1", "99999999999", "n[1-2]", "a]"])
one_host = st.from_regex(r"[a-z]{1,3}(\[(0[1-3]-0[4-7]|[1-4])(,1[0-9])?\][a-z]?){0,2}", fullmatch=True)
hosts = st.lists(one_host, min_size=1, max_size=3).map(",".join)
steps = st.sampled_from(["0", "3", "4294967279", "4294967280", "4294967291"])


@st.composite
def launched(draw):
    """The variables of one launcher, or some of them."""
    size = draw(st.sampled_from([1, 2, 3, 4, 4]))
    rank = draw(st.integers(0, size - 1))
    local = draw(st.integers(0, 3))
    both = [str(rank), str(size), str(local)]
    kind = draw(st.sampled_from(["torchrun", "rank", "open mpi", "pmi", "slurm", "slurm"]))
    if kind == "torchrun":
        return dict(zip(launches.TORCHRUN, ["none", *both, "head", "29400"]))
    if kind == "slurm":
        step = {"SLURM_JOB_ID": draw(st.integers(0, 2**32).map(str)), "SLURM_STEP_ID": draw(steps)}
        named = {"SLURM_JOB_NODELIST": draw(hosts), "SLURM_NODEID": draw(st.sampled_from(["0", "0", "1"]))}
        return dict(zip(("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"), both)) | step | named
    names = {"open mpi": launches.OPEN_MPI, "pmi": launches.PMI}.get(kind, launches.BY_HAND)
    where = draw(st.sampled_from([{}, {"MASTER_ADDR": "head"}, {names[3]: str(size)}]))
    return dict(zip(names, both)) | where


others = st.fixed_dictionaries(
    {},
    optional={
        "MASTER_ADDR": st.sampled_from(["head", ""]),
        "MASTER_PORT": st.sampled_from(["7", "65536"]),
        "SLURMD_NODENAME": st.sampled_from(["node7", ""]),
        "SLURM_STEP_NODELIST": hosts,
        "SLURM_STEP_NUM_TASKS": st.sampled_from(["3", "4"]),
        "PET_NNODES": st.sampled_from(["1", "2"]),
    },
)
damages = st.dictionaries(st.sampled_from(launches.NAMES), texts, max_size=2)
nothing = st.just({})
environments = st.tuples(
    st.one_of(launched(), launched(), launched(), nothing),
    st.one_of(nothing, launched()),
    st.one_of(nothing, others),
    st.one_of(nothing, nothing, damages),
).map(lambda drawn: {name: value for variables in drawn for name, value in variables.items()})


@contextlib.contextmanager
def environment(variables):
    """Variables of launchers are these alone."""
    others = {name: value for name, value in os.environ.items() if name not in launches.NAMES}
    with mock.patch.dict(os.environ, others | variables, clear=True):
        yield


@settings(max_examples=200)
@given(environments)
def test_variables_mean_what_the_reference_says(variables):
    with environment(variables):
        try:
            expected = launches.launch_in(variables)
        except launches.Refused as refused:
            with pytest.raises(ValueError, match=r"^op: ") as raised:
                _C.launch("op")
            assert str(refused) in str(raised.value)
            return
        found = _C.launch("op")
    fields = [field.name for field in dataclasses.fields(launches.Launch)]
    assert (found is None) == (expected is None)
    assert found is None or {name: getattr(found, name) for name in fields} == dataclasses.asdict(expected)


@given(environments)
def test_a_launch_of_several_processes_is_quoted_where_no_group_is_made(variables):
    with environment(variables):
        quoted = _C.launched_with()
        try:
            launch = launches.launch_in(variables)
        except launches.Refused:
            return
    assert bool(quoted) == (launch is not None and launch.size > 1)
    said = dict(one.split("=") for one in quoted.split(" and ") if one)
    assert said.items() <= variables.items()


def test_without_a_launcher_the_error_says_what_was_looked_for():
    for variables in ({}, {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}):
        with (
            environment(variables),
            pytest.raises(RuntimeError, match="^process_group_from_env: no launch") as raised,
        ):
            tdi.process_group_from_env()
        for name in ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "torchrun"):
            assert name in str(raised.value)


def test_wrong_variables_are_refused_before_anything_is_made():
    with environment({"RANK": "3", "SLURM_PROCID": "1", "SLURM_NTASKS": "4"}):
        with pytest.raises(ValueError, match="^process_group_from_env: .* RANK=3 and SLURM_PROCID=1 contradict"):
            tdi.process_group_from_env()
    assert not dist.is_initialized()


def test_one_process_is_a_group_that_needs_no_address(caplog):
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    with environment(step | {"SLURM_LOCALID": "0", "SLURMD_NODENAME": "node7"}), caplog.at_level(logging.INFO):
        try:
            group = tdi.process_group_from_env(timeout=datetime.timedelta(seconds=7))
            assert group is dist.group.WORLD and tdi.process_group_from_env() is group
            assert (group.rank(), group.size()) == (0, 1)
            assert dist.get_node_local_rank() == 0
            assert tdi.MultiWorkerMirroredStrategy().num_replicas_in_sync == 1
        finally:
            dist.destroy_process_group()
    assert "rank 0 of 1, told by Slurm, is on host node7 with local rank 0" in caplog.text


PROGRAM = """
import signal, torch.distributed as dist, torch_distinput as tdi
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
group = tdi.process_group_from_env()
print("joined", flush=True)
if group.rank() > 0:
    signal.sigwait({signal.SIGUSR1})
    dist.distributed_c10d._get_default_store().add("count", 1)
"""


def test_rank_0_hosts_the_store_until_the_others_have_ended():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    step = {"PMI_SIZE": "3", "MPI_LOCALNRANKS": "3", "MASTER_PORT": port}
    with environment(step):
        ranks = [ForkedProgram(PROGRAM, PMI_RANK=str(rank)) for rank in range(3)]
    try:
        assert [rank.stdout.readline() for rank in ranks] == [b"joined\n"] * 3
        assert ranks[0].wait(1.5) is None  # alone it takes half a second to end
        for rank in ranks[1:]:
            rank.send_signal(signal.SIGUSR1)
        assert [rank.communicate(60) for rank in ranks[1:] + ranks[:1]] == [("", "")] * 3
        assert [rank.returncode for rank in ranks] == [0, 0, 0]
    finally:
        for rank in ranks:
            rank.close()
