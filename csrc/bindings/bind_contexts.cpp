// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <pybind11/pybind11.h>

#include "bindings/argument.h"
#include "bindings/module.h"
#include "torch_distinput/input_context.h"

namespace torch_distinput {
namespace py = pybind11;
namespace {

using Count = Required<std::int64_t>;

void bind_input_context(py::module_& module) {
  py::class_<InputContext>(
      module, "InputContext",
      "Tells a function that makes a dataset which part of the data to read and how to batch it.")
      .def(py::init([](const Count& pipelines, const Count& id, const Count& replicas) {
             constexpr const char* kBindContextsName = "InputContext";
             return InputContext{pipelines.get(kBindContextsName, "num_input_pipelines"),
                                 id.get(kBindContextsName, "input_pipeline_id"),
                                 replicas.get(kBindContextsName, "num_replicas_in_sync")};
           }),
           py::arg("num_input_pipelines") = 1, py::arg("input_pipeline_id") = 0,
           py::arg("num_replicas_in_sync") = 1)
      .def_readonly("num_input_pipelines", &InputContext::num_input_pipelines,
                    "Calls of the function, over all processes.")
      .def_readonly("input_pipeline_id", &InputContext::input_pipeline_id, "The number of this call.")
      .def_readonly("num_replicas_in_sync", &InputContext::num_replicas_in_sync, "Replicas of all processes.")
      .def(
          "get_per_replica_batch_size",
          [](const InputContext& self, const Count& size) {
            return self.get_per_replica_batch_size(
                size.get("get_per_replica_batch_size", "global_batch_size"));
          },
          py::arg("global_batch_size"),
          "`global_batch_size` divided by the number of replicas; ValueError where that is not a whole "
          "number.")
      .def("__str__", &InputContext::str);
}

void bind_value_context(py::module_& module) {
  py::class_<ValueContext>(module, "ValueContext",
                           "Tells a function that makes one value for each replica which one to make.")
      .def(py::init([](const Count& replica, const Count& replicas) {
             constexpr const char* kBindContextsName = "ValueContext";
             return ValueContext{replica.get(kBindContextsName, "replica_id_in_sync_group"),
                                 replicas.get(kBindContextsName, "num_replicas_in_sync")};
           }),
           py::arg("replica_id_in_sync_group") = 0, py::arg("num_replicas_in_sync") = 1)
      .def_readonly("replica_id_in_sync_group", &ValueContext::replica_id_in_sync_group,
                    "The replica's index, counted over all processes.")
      .def_readonly("num_replicas_in_sync", &ValueContext::num_replicas_in_sync, "Replicas of all processes.")
      .def("__str__", &ValueContext::str);
}

}  // namespace

void bind_contexts(py::module_& module) {
  bind_input_context(module);
  bind_value_context(module);
}

}  // namespace torch_distinput
