# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the kernel says about NUMA nodes is read, and `doctor` advises where a process runs on several."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from torch_distinput.cli import _doctor as doctor
from torch_distinput.cli._numa import cpus_of_nodes, node_of_device, nodes_with

LISTS = {0: "0-3,8\n", 1: "4-7,9-9\n", 10: "\n"}
CPUS = {0: {0, 1, 2, 3, 8}, 1: {4, 5, 6, 7, 9}, 10: set()}


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    for node, text in LISTS.items():
        (tmp_path / "devices/system/node" / f"node{node}").mkdir(parents=True)
        (tmp_path / "devices/system/node" / f"node{node}" / "cpulist").write_text(text)
    for address, node in {"0000:41:00.0": 1, "0001:c1:00.0": -1}.items():
        (tmp_path / "bus/pci/devices" / address).mkdir(parents=True)
        (tmp_path / "bus/pci/devices" / address / "numa_node").write_text(f"{node}\n")
    return tmp_path


def test_each_cpu_belongs_to_the_node_that_lists_it(sysfs: Path):
    assert cpus_of_nodes(sysfs) == CPUS
    for cpu in range(12):
        assert nodes_with({cpu}, sysfs) == [node for node, own in CPUS.items() if cpu in own]
    assert nodes_with(range(12), sysfs) == [0, 1]


def test_a_device_is_at_the_node_that_the_kernel_names(sysfs: Path):
    addresses = ("0000:41:00.0", "0001:c1:00.0", "0000:99:00.0")
    assert [node_of_device(address, sysfs) for address in addresses] == [1, None, None]


def test_a_machine_without_nodes_has_none(tmp_path: Path):
    assert cpus_of_nodes(tmp_path) == {} and nodes_with({0}, tmp_path) == []


@pytest.mark.parametrize(("cpus", "nodes", "advised"), [({0, 5}, "0, 1", True), ({2, 8}, "0", False)])
def test_doctor_advises_where_a_process_runs_on_several_nodes(sysfs: Path, monkeypatch, cpus, nodes, advised):
    device = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x41, pci_device_id=0)
    monkeypatch.setattr(doctor.torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(doctor.torch.cuda, "get_device_properties", lambda index: device)
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda pid: cpus)
    monkeypatch.setattr(doctor, "cpus_of_nodes", lambda: cpus_of_nodes(sysfs))
    monkeypatch.setattr(doctor, "nodes_with", lambda own: nodes_with(own, sysfs))
    monkeypatch.setattr(doctor, "node_of_device", lambda address: node_of_device(address, sysfs))
    (finding,) = doctor.numa()
    assert finding.seen == f"3 nodes, this process runs on {nodes}, cuda:0 is at node 1"
    assert bool(finding.advice) == advised
