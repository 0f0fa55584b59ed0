// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

namespace torch_distinput {

/// The memory of one row: of a tensor, a numpy array or a numpy scalar. Strides are in bytes.
struct RowView {
  const char* data = nullptr;
  at::ScalarType dtype = at::kByte;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  bool dense = false;
  /// Holds the memory if the row itself does not.
  pybind11::object owner;

  bool like(const RowView& other) const { return dtype == other.dtype && sizes == other.sizes; }
};

/// Whether `value` is an instance of exactly numpy.ndarray or numpy.memmap.
bool is_plain_array(PyObject* value);
/// Whether `value` is a number of one of numpy's types.
bool is_numpy_number(PyObject* value);

/// Nothing for a tensor that is not dense host memory without a gradient. REQUIRES: `is_plain_tensor`.
std::optional<RowView> row_of_tensor(PyObject* value);
/// Nothing where torch has no dtype for `value`, or refuses its strides. REQUIRES: one of the two above.
std::optional<RowView> row_of_array(PyObject* value);

}  // namespace torch_distinput
