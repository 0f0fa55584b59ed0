# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Which NUMA nodes CPUs and devices belong to, as the kernel tells it below /sys."""

import re
from collections.abc import Collection
from pathlib import Path

SYSFS = Path("/sys")


def cpus_of_nodes(sysfs: Path = SYSFS) -> dict[int, set[int]]:
    """The CPUs of each node; {} where the kernel tells none."""
    lists = (sysfs / "devices/system/node").glob("node[0-9]*/cpulist")
    return {int(path.parent.name.removeprefix("node")): _numbers(path.read_text()) for path in lists}


def nodes_with(cpus: Collection[int], sysfs: Path = SYSFS) -> list[int]:
    """The nodes that one of the CPUs belongs to, in order."""
    return sorted(node for node, own in cpus_of_nodes(sysfs).items() if own & set(cpus))


def node_of_device(pci_address: str, sysfs: Path = SYSFS) -> int | None:
    """The node that a device, such as "0000:41:00.0", is connected to; None where the kernel knows none."""
    try:
        text = (sysfs / "bus/pci/devices" / pci_address / "numa_node").read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None  # -1: unknown


def _numbers(text: str) -> set[int]:
    """{0, 1, 2, 8} for "0-2,8"."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text)
    return {number for first, last in ranges for number in range(int(first), int(last or first) + 1)}
