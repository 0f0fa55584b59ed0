// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/npy.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sources/arrays/array_file.h"

namespace torch_distinput {
namespace {

/// Rows lie one after the other only in row-major order.
StoredArray rows_of(NpyHead head, const Stretch& bytes) {
  if (head.shape.empty()) bytes.damaged(0, "it is a scalar, but must have rows");
  if (head.fortran_order && head.shape.size() > 1)
    bytes.damaged(0, "it is in column-major order; save it with numpy.ascontiguousarray");
  return {.name = {}, .dtype = head.dtype, .shape = std::move(head.shape), .offset = head.size};
}

}  // namespace

StoredArray read_npy(const Stretch& bytes) {
  try {
    const std::string prefix = bytes.read(0, std::min(kNpyPrefixBytes, bytes.size()));
    const std::string head = bytes.read(0, npy_head_size(prefix));
    return rows_of(read_npy_head(head, bytes.size()), bytes);
  } catch (const NpyError& error) {
    bytes.damaged(error.offset(), error.what());
  }
}

}  // namespace torch_distinput
