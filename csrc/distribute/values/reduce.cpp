// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/reduce.h"

#include <algorithm>
#include <string>

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include "device/collectives/collectives.h"
#include "distribute/values/describe_tensor.h"
#include "distribute/values/find_on.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using Axes = std::vector<std::int64_t>;

void check_values(const std::vector<at::Tensor>& values, bool has_axis) {
  if (values.empty()) throw InvalidArgumentError("reduce: there must be at least one value.");
  for (std::size_t replica = 0; replica < values.size(); ++replica) {
    if (values[replica].scalar_type() != c10::ScalarType::Bool) continue;
    const std::string message = "reduce: `value` of replica " + std::to_string(replica) +
                                " is bool, which has no sum; convert it to an integer.";
    if (has_axis) C10_THROW_ERROR(TypeError, message);
    throw InvalidArgumentError(message);
  }
}

/// `axis` as non-negative dimensions of `value`, none twice.
Axes axes_of(const Axes& axis, const at::Tensor& value, std::size_t replica) {
  const std::int64_t rank = value.dim();
  Axes dims;
  for (const std::int64_t one : axis) {
    TORCH_CHECK_VALUE(one >= -rank && one < rank, "reduce: `axis` = ", one,
                      " is out of range for `value` of rank ", rank, " (replica ", replica, ").");
    dims.push_back(one < 0 ? one + rank : one);
    TORCH_CHECK_VALUE(std::count(dims.begin(), dims.end(), dims.back()) == 1,
                      "reduce: `axis` names dimension ", dims.back(), " of `value` twice.");
  }
  return dims;
}

void check_alike(const std::vector<at::Tensor>& values) {
  const at::Tensor& first = values.front();
  for (std::size_t replica = 1; replica < values.size(); ++replica) {
    const at::Tensor& value = values[replica];
    if (value.sizes() == first.sizes() && value.scalar_type() == first.scalar_type()) continue;
    throw InvalidArgumentError("reduce: the values to add must have one shape and dtype, but replica 0 has " +
                               describe_tensor(first) + " and replica " + std::to_string(replica) + " " +
                               describe_tensor(value) +
                               "; sum over rows first, as `axis` of Strategy.reduce does.");
  }
}

at::Tensor add_copies(const std::vector<at::Tensor>& values, c10::Device device) {
  at::Tensor total = values.front().to(device);
  for (std::size_t replica = 1; replica < values.size(); ++replica)
    total = total.add(values[replica].to(device));
  return total;
}

at::Tensor add(const std::vector<at::Tensor>& values, c10::Device device) {
  check_alike(values);
  const auto root = find_on(values, device);
  return root && can_reduce_on_devices(values) ? reduce_on_devices(values, *root)
                                               : add_copies(values, device);
}

/// The sum on each of `devices`. A device that is named again gets a copy of its own.
std::vector<at::Tensor> add_everywhere(const std::vector<at::Tensor>& values,
                                       const std::vector<c10::Device>& devices) {
  check_alike(values);
  const bool are_theirs = std::equal(values.begin(), values.end(), devices.begin(), devices.end(),
                                     [](const auto& value, auto device) { return value.device() == device; });
  if (are_theirs && can_reduce_on_devices(values)) return all_reduce_on_devices(values);
  std::vector<at::Tensor> totals;
  for (const c10::Device device : devices) {
    const auto there = find_on(totals, device);
    totals.push_back(there ? totals[*there].clone() : add_copies(values, device));
  }
  return totals;
}

/// `value` as floating point for a mean: integers of up to 16 bits in single precision, as in tf.distribute.
at::Tensor floating(const at::Tensor& value) {
  if (value.is_floating_point() || value.is_complex()) return value;
  return value.to(c10::elementSize(value.scalar_type()) <= 2 ? c10::ScalarType::Float
                                                             : c10::ScalarType::Double);
}

}  // namespace

at::Tensor reduce(ReduceOp op, const std::vector<at::Tensor>& values, const std::optional<Axes>& axis,
                  std::optional<c10::Device> device) {
  check_values(values, axis.has_value());
  std::vector<at::Tensor> parts = values;
  std::int64_t items = axis ? 0 : std::ssize(values);
  for (std::size_t replica = 0; axis && replica < values.size(); ++replica) {
    const Axes dims = axes_of(*axis, values[replica], replica);
    std::int64_t summed = 1;
    for (const std::int64_t dim : dims) summed *= values[replica].size(dim);
    items += summed;
    if (!dims.empty()) {
      parts[replica] = values[replica].sum(dims, /*keepdim=*/false, values[replica].scalar_type());
    }
  }
  const at::Tensor total = add(parts, device.value_or(values.front().device()));
  return op == ReduceOp::kSum ? total : floating(total).div(items);
}

std::vector<at::Tensor> all_reduce(ReduceOp op, const std::vector<at::Tensor>& values,
                                   const std::vector<c10::Device>& devices) {
  check_values(values, /*has_axis=*/false);
  std::vector<at::Tensor> results = add_everywhere(values, devices);
  if (op == ReduceOp::kSum) return results;
  for (at::Tensor& result : results) result = floating(result).div(std::ssize(values));
  return results;
}

}  // namespace torch_distinput
