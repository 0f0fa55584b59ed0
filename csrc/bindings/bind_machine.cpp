// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/cpus.h"
#include "base/numa.h"
#include "bindings/module.h"

namespace torch_distinput {

void bind_machine(py::module_& module) {
  module.def("available_cpus", available_cpus,
             "CPUs that this process can use, at least 1: those of its affinity mask, but no more than its "
             "control groups allow, rounded up.");
  module.def(
      "cpu_quota", [] { return cpu_quota(); },
      "How many CPUs' time the control groups of this process allow, as a container's limit is kept; None "
      "without a limit.");
  module.def("cpus_of_nodes", cpus_of_nodes, py::arg("sysfs") = "/sys",
             "The CPUs of each NUMA node, in ascending order; nothing where the kernel tells none.");
  module.def("node_of_pci_device", node_of_pci_device, py::arg("address"), py::arg("sysfs") = "/sys",
             "The NUMA node that a device such as '0000:41:00.0' is connected to; None where the kernel "
             "knows none.");
  module.def(
      "may_place_memory", [] { return NodeScope(0).placed(); },
      "Whether the system lets this process choose the NUMA node of its memory; containers may forbid it.");
}

}  // namespace torch_distinput
