// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/utils/pybind.h>

#include "bindings/gather_bytes.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/py_ref.h"
#include "bindings/module.h"
#include "comm/restarts.h"
#include "comm/tensor_text.h"
#include "torch_distinput/error.h"
#include "torch_distinput/multi_worker.h"

namespace torch_distinput {
namespace py = pybind11;

namespace {

/// `function(name, seconds)` as a function that C++ calls without the GIL, from any thread.
ProcessGroup::MakeGroup group_maker(const py::object& function) {
  if (function.is_none()) return {};
  return [function = share(function)](const std::string& name, std::chrono::duration<double> timeout) {
    const py::gil_scoped_acquire gil;
    try {
      const auto call = py::reinterpret_borrow<py::object>(function.get());
      return call(name, timeout.count()).cast<c10::intrusive_ptr<c10d::ProcessGroup>>();
    } catch (const py::error_already_set& error) {
      // A Python exception must not leave the scope that holds the GIL.
      throw DistributedDatasetError("the group for rounds could not be made: " + std::string(error.what()));
    }
  };
}

py::list all_gather_bytes(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const py::bytes& mine) {
  const auto everyone =
      without_gil([&, view = std::string_view(mine)] { return gather_bytes(*group, view); });
  py::list result;
  for (const std::string& bytes : everyone) result.append(py::bytes(bytes));
  return result;
}

py::bytes encode(const std::vector<at::Tensor>& tensors) {
  return without_gil([&] { return encode_tensors(tensors); });
}

std::vector<at::Tensor> decode(const py::bytes& data, const std::string& whose) {
  return without_gil([&, view = std::string_view(data)] { return decode_tensors(view, whose); });
}

}  // namespace

void bind_multi_worker(py::module_& module) {
  py::class_<MultiWorkerMirroredStrategy, Strategy>(
      module, "MultiWorkerMirroredStrategy",
      "Several processes that share one dataset and reach one store. `name` is the same in all of them and "
      "differs from that of every other group.")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::string name,
                       std::vector<std::string> devices, const py::object& make_group) {
             ProcessGroup::MakeGroup make = group_maker(make_group);
             return without_gil([&] {
               ProcessGroup group(*store, rank, size, std::move(name));
               group.make_group = std::move(make);
               return std::make_unique<MultiWorkerMirroredStrategy>(group, std::move(devices));
             });
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("name"), py::arg("devices"),
           py::arg("make_group") = py::none());
  module.def("starts_share_store", starts_share_store,
             "Whether torchrun gives the processes of all its starts one store.");
  module.def(
      "launched_with", &ProcessGroup::launched_with,
      "The variables in which the launcher of this process says that it started several; \"\" where it "
      "started one or there is none.");
  module.def("all_gather_bytes", all_gather_bytes, py::arg("group"), py::arg("mine"),
             "The bytes of every rank, in the order of the ranks. A collective of `group`.");
  module.def("can_be_encoded", can_be_encoded, py::arg("tensor"),
             "Whether `encode_tensors` takes the tensor.");
  module.def("encode_tensors", encode, py::arg("tensors"),
             "Dense and sparse tensors as bytes for other ranks.");
  module.def(
      "decode_tensors", decode, py::arg("data"), py::arg("whose"),
      "What `encode_tensors` was given, on the CPU. DistributedDatasetError, which begins with `whose`, for "
      "other bytes.");
}

}  // namespace torch_distinput
