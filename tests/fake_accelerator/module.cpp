// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/utils/pybind.h>

#include "fake_accelerator.h"

namespace torch_distinput::fake {
namespace {

py::dict counts_dict() {
  const Counts now = counts();
  py::dict result;
  result["copies"] = now.copies;
  result["copied_bytes"] = now.copied_bytes;
  result["host_waits"] = now.host_waits;
  result["device_allocations"] = now.device_allocations;
  result["host_allocations"] = now.host_allocations;
  result["events"] = now.events;
  result["collectives"] = now.collectives;
  result["wrong_device"] = now.wrong_device;
  result["captured"] = now.captured;
  result["unguarded"] = now.unguarded;
  result["driver_calls"] = now.driver_calls;
  result["registered"] = now.registered;
  result["registrations"] = now.registrations;
  return result;
}

struct Snapshot {
  std::shared_ptr<const std::string> bytes;
};

}  // namespace

PYBIND11_MODULE(_fake_accelerator, module) {
  install();
  py::class_<Snapshot>(module, "Snapshot").def("bytes", [](const Snapshot& self) {
    return py::bytes(*self.bytes);
  });
  module.def("counts", counts_dict);
  module.def("reset", &reset);
  module.def("set_delay", py::overload_cast<std::int64_t>(&set_delay));
  module.def("set_delay", py::overload_cast<std::int64_t, std::int64_t>(&set_delay));
  module.def("set_capturing", py::overload_cast<bool>(&set_capturing));
  module.def("set_most_registered", &set_most_registered);
  // What torch shows of CUDA's run time, with its names and its results: 0, or an error.
  module.def("cudaHostRegister", [](std::uintptr_t data, std::size_t bytes, unsigned) {
    return register_host(reinterpret_cast<void*>(data), bytes) ? 0 : 1;
  });
  module.def("cudaHostUnregister",
             [](std::uintptr_t data) { return unregister_host(reinterpret_cast<void*>(data)) ? 0 : 1; });
  module.def("drain", &drain, py::call_guard<py::gil_scoped_release>());
  module.def("snapshot", [](const at::Tensor& tensor) { return Snapshot{snapshot(tensor)}; });
}

}  // namespace torch_distinput::fake
