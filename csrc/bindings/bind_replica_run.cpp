// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "api/replica_run.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/python_error.h"
#include "bindings/module.h"

namespace torch_distinput {
namespace py = pybind11;
namespace {

py::object call_as_replica(ReplicaRun& self, std::size_t replica, const py::function& function) {
  py::object result;
  self.call(replica, [&] { result = function(); });
  return result;
}

void meet(ReplicaRun& self, std::size_t replica, const py::function& join) {
  const GilRelease others_run;
  self.meet(replica, [&] {
    const GilScope gil;
    const auto none = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(join.ptr()));
    if (!none) throw_python();
  });
}

PyObject* exchange_broken = nullptr;  // borrowed from the module, which is never unloaded

void translate(std::exception_ptr raised) {
  try {
    if (raised) std::rethrow_exception(raised);
  } catch (const ExchangeBroken& error) {
    set_error(exchange_broken, error.what_without_backtrace());
  }
}

}  // namespace

void bind_replica_run(py::module_& module) {
  const py::exception<ExchangeBroken> error(module, "ExchangeBroken", PyExc_RuntimeError);
  error.attr("__doc__") = "A replica waits for another one that has raised or returned.";
  exchange_broken = error.ptr();
  py::register_local_exception_translator(translate);
  py::class_<ReplicaRun>(module, "ReplicaRun",
                         "One `run` of a strategy: what its replicas inherit from the caller, and where they "
                         "meet. `devices`: the replicas'. `accelerator`: those on a CPU inherit its stream.")
      .def(py::init(
               [](const std::vector<std::string>& devices, const std::optional<std::string>& accelerator) {
                 return std::make_unique<ReplicaRun>(
                     std::vector<c10::Device>(devices.begin(), devices.end()),
                     accelerator ? std::optional(c10::Device(*accelerator)) : std::nullopt);
               }),
           py::arg("devices"), py::arg("accelerator") = py::none())
      .def_property_readonly("num_replicas", &ReplicaRun::size, "Replicas of this process.")
      .def("call", call_as_replica, py::arg("replica"), py::arg("function"),
           "The result of `function()`, called on this thread as `replica`, which has left afterwards.")
      .def("meet", meet, py::arg("replica"), py::arg("join"),
           "Waits until every replica has called; the last one runs its `join` for all of them.")
      .def("records", &ReplicaRun::records, py::arg("replica"),
           "Whether the thread of `replica` records gradients. Only for a `join`.")
      .def("leave", &ReplicaRun::leave, py::arg("replica"),
           "Wakes the replicas that wait for `replica`, which will not come.");
}

}  // namespace torch_distinput
