// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "torch_distinput/api.h"

/// \file
/// One value from the replicas' values, as `reduce` and `gather` of tf.distribute.Strategy. Values may lie on
/// different devices; results lie on `device`, else on the first value's. The autograd graph is kept. Values
/// on different CUDA devices that need no gradient are combined by NCCL where it is available, on the calling
/// thread's current streams. The functions communicate with no other process and are safe from any thread.

namespace torch_distinput {

/// How values are combined.
enum class ReduceOp { kSum, kMean };

/// Combines one value for each replica.
///
/// Without `axis`, values are combined item by item and shapes must agree. With `axis`, a list of dimensions
/// (negative ones count from the end), each value is summed over them first, so that short and empty values
/// count by their items; kMean divides by the number of items summed, and 0 / 0 is NaN. Integers are averaged
/// in floating point.
///
/// Throws InvalidArgumentError for no values, for bool without `axis`, and for shapes or dtypes that differ;
/// c10::TypeError for bool with `axis`; c10::ValueError for an axis out of range or named twice.
TDI_API at::Tensor reduce(ReduceOp op, const std::vector<at::Tensor>& values,
                          const std::optional<std::vector<std::int64_t>>& axis = {},
                          std::optional<c10::Device> device = {});

/// As `reduce` without `axis`, with one result on each of `devices`; results never share memory. Throws as
/// `reduce`.
TDI_API std::vector<at::Tensor> all_reduce(ReduceOp op, const std::vector<at::Tensor>& values,
                                           const std::vector<c10::Device>& devices);

/// The replicas' values, one after the other along dimension `axis` (a negative one counts from the end). A
/// single value is returned as it is.
///
/// Throws InvalidArgumentError for no values and for values that differ in another dimension or in their
/// dtype, c10::ValueError for an axis that a value does not have, c10::NotImplementedError for nested
/// tensors.
TDI_API at::Tensor gather(const std::vector<at::Tensor>& values, std::int64_t axis,
                          std::optional<c10::Device> device = {});

}  // namespace torch_distinput
