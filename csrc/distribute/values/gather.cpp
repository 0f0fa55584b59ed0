// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <string>

#include <ATen/ops/cat.h>
#include <c10/util/Exception.h>

#include "device/collectives/collectives.h"
#include "distribute/values/describe_tensor.h"
#include "distribute/values/find_on.h"
#include "torch_distinput/error.h"
#include "torch_distinput/reduce.h"

namespace torch_distinput {
namespace {

/// Throws for a value without dimension `axis`, which counts from the last dimension if it is negative.
void check_axis(const at::Tensor& value, std::size_t replica, std::int64_t axis) {
  if (value.is_nested()) {
    C10_THROW_ERROR(NotImplementedError, "gather: nested tensors are not supported, but replica " +
                                             std::to_string(replica) + " has one.");
  }
  TORCH_CHECK_VALUE(axis >= -value.dim() && axis < value.dim(),
                    "gather: `axis` must be a dimension of the values, but it is ", axis, " and replica ",
                    replica, " has a tensor of ", value.dim(), " dimension(s).");
}

bool alike(const at::Tensor& a, const at::Tensor& b, std::int64_t axis) {
  if (a.dim() != b.dim() || a.scalar_type() != b.scalar_type()) return false;
  for (std::int64_t dim = 0; dim < a.dim(); ++dim) {
    if (dim != axis && a.size(dim) != b.size(dim)) return false;
  }
  return true;
}

std::vector<at::Tensor> move(const std::vector<at::Tensor>& values, c10::Device target) {
  const auto root = find_on(values, target);
  if (root && can_gather_on_devices(values)) return gather_on_devices(values, *root);
  std::vector<at::Tensor> moved;
  for (const at::Tensor& value : values) moved.push_back(value.to(target));
  return moved;
}

}  // namespace

at::Tensor gather(const std::vector<at::Tensor>& values, std::int64_t axis,
                  std::optional<c10::Device> device) {
  if (values.empty()) throw InvalidArgumentError("gather: there must be at least one value.");
  const at::Tensor& first = values.front();
  if (values.size() == 1) return first;
  const c10::Device target = device.value_or(first.device());
  for (std::size_t replica = 0; replica < values.size(); ++replica) {
    check_axis(values[replica], replica, axis);
    if (!alike(first, values[replica], axis < 0 ? axis + first.dim() : axis)) {
      throw InvalidArgumentError("gather: the values may differ in dimension " + std::to_string(axis) +
                                 " alone, but replica 0 has a " + describe_tensor(first) + " and replica " +
                                 std::to_string(replica) + " a " + describe_tensor(values[replica]) + ".");
    }
  }
  return at::cat(move(values, target), axis);
}

}  // namespace torch_distinput
