// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/collectives/collectives.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "device/backend_op.h"
#include "device/cuda_library.h"

namespace torch_distinput {
namespace {

using AllReduce = void(at::TensorList, at::TensorList);
using Reduce = void(at::TensorList, std::int64_t, at::Tensor&);
using Gather = void(at::TensorList, std::int64_t, at::TensorList);

std::optional<NumberType> number_type(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kChar:
      return NumberType::kInt8;
    case at::kByte:
      return NumberType::kUint8;
    case at::kInt:
      return NumberType::kInt32;
    case at::kLong:
      return NumberType::kInt64;
    case at::kHalf:
      return NumberType::kHalf;
    case at::kFloat:
      return NumberType::kFloat;
    case at::kDouble:
      return NumberType::kDouble;
    case at::kBFloat16:
      return NumberType::kBFloat16;
    default:
      return std::nullopt;
  }
}

/// Whether NCCL connects the CUDA devices of `values`. If not, warns once that values are combined by copies.
bool cuda_devices_meet(const std::vector<at::Tensor>& values) {
  const CudaLibrary& cuda = cuda_library();
  std::string obstacle = cuda.missing_because;
  if (cuda.functions != nullptr) {
    std::vector<std::int32_t> devices;
    for (const at::Tensor& value : values) devices.push_back(value.device().index());
    const int error = cuda.functions->nccl_init(devices.data(), static_cast<std::int32_t>(devices.size()));
    if (error != 0) obstacle = "NCCL cannot combine them: " + std::string(cuda.functions->error_text(error));
  }
  if (!obstacle.empty()) {
    TORCH_WARN_ONCE("torch_distinput: values of several GPUs are combined by copies, because ", obstacle,
                    ".");
  }
  return obstacle.empty();
}

bool are_apart(const std::vector<at::Tensor>& values) {
  if (values.size() < 2 || values.front().is_cpu()) return false;
  for (auto value = values.begin(); value != values.end(); ++value) {
    const bool is_dense = value->layout() == at::kStrided && !value->is_nested();
    if (!is_dense || value->device().type() != values.front().device().type()) return false;
    if (std::any_of(values.begin(), value, [&](const auto& one) { return one.device() == value->device(); }))
      return false;
  }
  return true;
}

bool wants_gradients(const std::vector<at::Tensor>& values) {
  return at::GradMode::is_enabled() &&
         std::any_of(values.begin(), values.end(), [](const auto& value) { return value.requires_grad(); });
}

bool meet(const std::vector<at::Tensor>& values, const char* op) {
  if (!are_apart(values) || wants_gradients(values)) return false;
  const c10::DeviceType type = values.front().device().type();
  return type == c10::kCUDA ? cuda_devices_meet(values) : has_kernel(backend_op(op), type);
}

std::vector<at::Tensor> contiguous(const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& value : values) all.push_back(value.contiguous());
  return all;
}

/// A part for each of `values`, which are on CUDA devices; the caller sets `to`.
std::vector<DevicePart> parts_of(at::TensorList values, bool as_bytes) {
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  std::vector<DevicePart> parts;
  for (const at::Tensor& value : values) {
    parts.push_back({.device = value.device().index(),
                     .stream = cuda.getStream(value.device()).native_handle(),
                     .from = value.const_data_ptr(),
                     .to = nullptr,
                     .count = as_bytes ? static_cast<std::int64_t>(value.nbytes()) : value.numel()});
  }
  return parts;
}

const CudaFunctions& cuda() {
  const CudaLibrary& library = cuda_library();
  TORCH_CHECK(library.functions != nullptr, "torch_distinput: ", library.missing_because, ".");
  return *library.functions;
}

void check(const char* op, int error) {
  TORCH_CHECK(error == 0, "torch_distinput::", op, ": ", cuda().error_text(error), ".");
}

NumberType type_of(const char* op, at::TensorList values) {
  const auto type = number_type(values.front().scalar_type());
  TORCH_CHECK(type, "torch_distinput::", op, ": NCCL cannot add ", values.front().scalar_type(), ".");
  return *type;
}

std::int32_t length(const std::vector<DevicePart>& parts) { return static_cast<std::int32_t>(parts.size()); }

void all_reduce_with_nccl(at::TensorList values, at::TensorList out) {
  auto parts = parts_of(values, /*as_bytes=*/false);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].to = out[i].mutable_data_ptr();
  check("all_reduce", cuda().nccl_all_reduce(parts.data(), length(parts), type_of("all_reduce", values)));
}

void reduce_with_nccl(at::TensorList values, std::int64_t root, at::Tensor& out) {
  auto parts = parts_of(values, /*as_bytes=*/false);
  parts[static_cast<std::size_t>(root)].to = out.mutable_data_ptr();
  check("reduce", cuda().nccl_reduce(parts.data(), length(parts), type_of("reduce", values),
                                     static_cast<std::int32_t>(root)));
}

void gather_with_nccl(at::TensorList values, std::int64_t root, at::TensorList out) {
  auto parts = parts_of(values, /*as_bytes=*/true);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].to = out[i].mutable_data_ptr();
  check("gather", cuda().nccl_gather(parts.data(), length(parts), static_cast<std::int32_t>(root)));
}

// NOLINTBEGIN: torch's macros
TORCH_LIBRARY_FRAGMENT(torch_distinput, library) {
  library.def("all_reduce(Tensor[] values, Tensor(a!)[] out) -> ()");
  library.def("reduce(Tensor[] values, int root, Tensor(a!) out) -> ()");
  library.def("gather(Tensor[] values, int root, Tensor(a!)[] out) -> ()");
}
TORCH_LIBRARY_IMPL(torch_distinput, CUDA, library) {
  library.impl("all_reduce", all_reduce_with_nccl);
  library.impl("reduce", reduce_with_nccl);
  library.impl("gather", gather_with_nccl);
}
// NOLINTEND

}  // namespace

bool can_gather_on_devices(const std::vector<at::Tensor>& values) { return meet(values, "gather"); }

bool can_reduce_on_devices(const std::vector<at::Tensor>& values) {
  return !values.empty() && number_type(values.front().scalar_type()) && meet(values, "reduce") &&
         meet(values, "all_reduce");
}

std::vector<at::Tensor> all_reduce_on_devices(const std::vector<at::Tensor>& values) {
  static const c10::OperatorHandle op = backend_op("all_reduce");
  std::vector<at::Tensor> sums;
  const auto addends = contiguous(values);
  for (const at::Tensor& addend : addends) sums.push_back(at::empty_like(addend));
  op.typed<AllReduce>().call(addends, sums);
  return sums;
}

at::Tensor reduce_on_devices(const std::vector<at::Tensor>& values, std::size_t root) {
  static const c10::OperatorHandle op = backend_op("reduce");
  const auto addends = contiguous(values);
  at::Tensor sum = at::empty_like(addends[root]);
  op.typed<Reduce>().call(addends, static_cast<std::int64_t>(root), sum);
  return sum;
}

std::vector<at::Tensor> gather_on_devices(const std::vector<at::Tensor>& values, std::size_t root) {
  static const c10::OperatorHandle op = backend_op("gather");
  std::vector<at::Tensor> gathered;
  const auto sent = contiguous(values);
  for (const at::Tensor& value : sent)
    gathered.push_back(at::empty(value.sizes(), value.options().device(values[root].device())));
  op.typed<Gather>().call(sent, static_cast<std::int64_t>(root), gathered);
  return gathered;
}

}  // namespace torch_distinput
