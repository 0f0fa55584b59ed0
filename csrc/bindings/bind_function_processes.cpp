// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <pybind11/pybind11.h>

#include "bindings/function_server.h"
#include "bindings/module.h"
#include "workers/worker_memory.h"

namespace torch_distinput {

namespace py = pybind11;

void bind_function_processes(py::module_& module) {
  py::class_<WorkerMemory, std::shared_ptr<WorkerMemory>>(
      module, "FunctionMemory", "Memory that a process shares with those that run a function for it.")
      .def(py::init(&WorkerMemory::attach), py::arg("fd"),
           "Attaches a process that was not forked from the one that made it; owns the descriptor `fd`.")
      .def_property_readonly(
          "fd", [](WorkerMemory& self) { return self.segment().fd(); },
          "Descriptor of the memory; -1 once it is closed.")
      .def(
          "close_fd", [](WorkerMemory& self) { self.segment().close_fd(); },
          "Closes the descriptor; to be called once all processes run.")
      .def("stop", &WorkerMemory::stop, "Tells the processes to end.");
  module.def("serve_function", &serve_function, py::arg("memory"), py::arg("process"), py::arg("function"),
             py::arg("messages"),
             "Runs `function` in this process, number `process` of those that share `memory`, until it is "
             "told to end. `messages`: an object with the functions `pickle_value`, `unpickle_value`, "
             "`pack_error` and `unpack_error`.");
}

}  // namespace torch_distinput
