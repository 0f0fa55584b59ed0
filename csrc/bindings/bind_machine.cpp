// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/cpus.h"
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
}

}  // namespace torch_distinput
