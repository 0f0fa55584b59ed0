// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/gil.h"
#include "python/module.h"
#include "torch_distinput/multi_worker.h"

namespace torch_distinput {
namespace py = pybind11;

void bind_multi_worker(py::module_& module) {
  py::class_<MultiWorkerMirroredStrategy, Strategy>(
      module, "MultiWorkerMirroredStrategy",
      "Several processes that share one dataset and reach one store; `name` is the group's own.")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::string name,
                       std::vector<std::string> devices) {
             return without_gil([&] {
               const ProcessGroup group(*store, rank, size, std::move(name));
               return std::make_unique<MultiWorkerMirroredStrategy>(group, std::move(devices));
             });
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("name"), py::arg("devices"));
}

}  // namespace torch_distinput
