# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the kernel says about NUMA nodes is read, and `doctor` advises where a process runs on several."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from torch_distinput import _C
from torch_distinput.cli import _doctor as doctor

LISTS = {0: "0-3,8\n", 1: "4-7,9-9\n", 10: "\n"}
CPUS = {0: [0, 1, 2, 3, 8], 1: [4, 5, 6, 7, 9], 10: []}


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
    assert _C.cpus_of_nodes(str(sysfs)) == CPUS


def test_a_device_is_at_the_node_that_the_kernel_names(sysfs: Path):
    addresses = ("0000:41:00.0", "0001:c1:00.0", "0000:99:00.0")
    assert [_C.node_of_pci_device(address, str(sysfs)) for address in addresses] == [1, None, None]


def test_a_machine_without_nodes_has_none(tmp_path: Path):
    assert _C.cpus_of_nodes(str(tmp_path)) == {}


@pytest.mark.parametrize(("cpus", "nodes", "advised"), [({0, 5}, "0, 1", True), ({2, 8}, "0", False)])
@pytest.mark.parametrize("may_place", [True, False])
def test_doctor_tells_nodes_and_advises_where_a_process_runs_on_several(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch, cpus: set[int], nodes: str, advised: bool, may_place: bool
):
    device = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x41, pci_device_id=0)
    monkeypatch.setattr(doctor.torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(doctor.torch.cuda, "get_device_properties", lambda index: device)
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda pid: cpus)
    machine = SimpleNamespace(
        cpus_of_nodes=lambda: _C.cpus_of_nodes(str(sysfs)),
        node_of_pci_device=lambda address: _C.node_of_pci_device(address, str(sysfs)),
        may_place_memory=lambda: may_place,
    )
    monkeypatch.setattr(doctor, "_C", machine)
    places, memory = doctor.numa()
    assert places.seen == f"3 nodes, this process runs on {nodes}, cuda:0 is at node 1"
    assert bool(places.advice) == advised
    assert ("the node of the device" in memory.seen) == may_place and not memory.advice
