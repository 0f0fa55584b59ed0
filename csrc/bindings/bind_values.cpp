// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/argument.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/torch_tensor.h"
#include "bindings/module.h"
#include "torch_distinput/reduce.h"
#include "torch_distinput/step_info.h"

namespace torch_distinput {
namespace {

at::Tensor tensor_of(py::handle value, const char* call, const char* parameter) {
  TORCH_CHECK_TYPE(is_tensor(value.ptr()), call, ": `", parameter, "` must be a tensor, but is a ",
                   Py_TYPE(value.ptr())->tp_name, ".");
  return unwrap_tensor(value.ptr());
}

std::vector<at::Tensor> tensors_of(const py::list& values, const char* call) {
  std::vector<at::Tensor> tensors;
  for (const auto value : values) tensors.push_back(tensor_of(value, call, "value"));
  return tensors;
}

std::optional<c10::Device> device_of(const std::optional<std::string>& name) {
  return name ? std::optional(c10::Device(*name)) : std::nullopt;
}

py::object reduce_values(bool mean, const py::list& values, const Argument<std::vector<std::int64_t>>& axis) {
  const auto tensors = tensors_of(values, "reduce");
  const ReduceOp op = mean ? ReduceOp::kMean : ReduceOp::kSum;
  const auto axes = axis.get("reduce", "axis");
  return wrap_tensor(without_gil([&] { return reduce(op, tensors, axes); }));
}

py::list all_reduce_values(bool mean, const py::list& values, const std::vector<std::string>& devices) {
  const auto tensors = tensors_of(values, "all_reduce");
  const std::vector<c10::Device> targets(devices.begin(), devices.end());
  const ReduceOp op = mean ? ReduceOp::kMean : ReduceOp::kSum;
  py::list results;
  for (auto& result : without_gil([&] { return all_reduce(op, tensors, targets); }))
    results.append(wrap_tensor(std::move(result)));
  return results;
}

py::object gather_values(const py::list& values, const Required<std::int64_t>& given,
                         const std::optional<std::string>& device) {
  const auto tensors = tensors_of(values, "gather");
  const std::int64_t axis = given.get("gather", "axis");
  return wrap_tensor(without_gil([&] { return gather(tensors, axis, device_of(device)); }));
}

}  // namespace

void bind_values(py::module_& module) {
  module.def("reduce", reduce_values, py::arg("mean"), py::arg("values"), py::arg("axis"),
             "The replicas' values summed, or averaged, over `axis` and over the replicas.");
  module.def("all_reduce", all_reduce_values, py::arg("mean"), py::arg("values"), py::arg("devices"),
             "The replicas' values summed, or averaged, once for each of `devices`.");
  module.def("gather", gather_values, py::arg("values"), py::arg("axis"), py::arg("device"),
             "The replicas' values one after the other along `axis`.");
  module.def(
      "scaled_mean",
      [](const py::object& loss, const StepInfo& info, const py::object& anchor, std::int64_t replica) {
        return wrap_tensor(scaled_mean(tensor_of(loss, "scaled_mean", "loss"), info,
                                       tensor_of(anchor, "scaled_mean", "anchor"), replica));
      },
      py::arg("loss"), py::arg("info"), py::arg("anchor"), py::arg("replica"),
      "The replica's mean loss, scaled so that the average over the replicas is the global mean.");
  module.def(
      "distributed_mean",
      [](const py::object& loss_sum, const StepInfo& info) {
        return wrap_tensor(distributed_mean(tensor_of(loss_sum, "distributed_mean", "loss_sum"), info));
      },
      py::arg("loss_sum"), py::arg("info"),
      "The replica's summed loss, scaled so that the average over the replicas is the global mean.");
  module.def(
      "restore_order",
      [](const py::object& rows, const StepInfo& info) {
        return wrap_tensor(restore_order(tensor_of(rows, "restore_order", "rows"), info));
      },
      py::arg("rows"), py::arg("info"), "A step's gathered rows in pipeline order, without padding.");
}

}  // namespace torch_distinput
