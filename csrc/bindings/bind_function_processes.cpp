// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/function_server.h"
#include "bindings/module.h"
#include "torch_distinput/random.h"
#include "workers/worker_memory.h"

namespace torch_distinput {

namespace py = pybind11;

namespace {

/// A RowScope from `enter` to `exit`, for Python.
class RowNumbers {
 public:
  RowNumbers(std::uint64_t key, std::vector<std::int64_t> numbers)
      : key_(key), numbers_(std::move(numbers)) {}

  void enter() { scope_.emplace(key_, numbers_); }
  void exit() { scope_.reset(); }

 private:
  std::uint64_t key_;
  std::vector<std::int64_t> numbers_;
  std::optional<RowScope> scope_;
};

}  // namespace

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
  py::class_<RowNumbers>(module, "RowNumbers",
                         "A context in which a function runs for rows with these numbers, for `random()`.")
      .def(py::init<std::uint64_t, std::vector<std::int64_t>>(), py::arg("key"), py::arg("numbers"))
      .def(
          "__enter__",
          [](RowNumbers& self) -> RowNumbers& {
            self.enter();
            return self;
          },
          py::return_value_policy::reference)
      .def(
          "__exit__",
          [](RowNumbers& self, const py::object& /*type*/, const py::object& /*error*/,
             const py::object& /*traceback*/) { self.exit(); },
          py::arg("type"), py::arg("error"), py::arg("traceback"))
      .def(
          "begin", [](RowNumbers&, std::size_t row) { RowScope::enter(row); }, py::arg("row"),
          "The function runs for the row with this index from now on.");
  module.def("serve_function", &serve_function, py::arg("memory"), py::arg("process"), py::arg("function"),
             py::arg("messages"),
             "Runs `function` in this process, number `process` of those that share `memory`, until it is "
             "told to end. `messages`: an object with the functions `pickle_value`, `unpickle_value`, "
             "`pack_error` and `unpack_error`.");
}

}  // namespace torch_distinput
