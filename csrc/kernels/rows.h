// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "torch_distinput/element.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

class BufferPool;

/// A batch under construction: one tensor a leaf, each in a block of its own
/// from `pool` (so that keeping one leaf does not keep the others), or the small
/// ones in one block, where the pool packs.
struct BatchBuffer {
  Element element;             ///< leaves of shape [rows, row dims...], uninitialised
  std::vector<RowSink> sinks;  ///< one a leaf
};
BatchBuffer make_batch(const RowLayout& layout, std::int64_t rows, BufferPool& pool);

/// An uninitialised contiguous CPU tensor in a block of `pool`; the block goes
/// back when the last tensor on that storage dies.
at::Tensor pooled_tensor(std::span<const std::int64_t> shape, c10::ScalarType dtype, BufferPool& pool);

/// Copies row `positions[i]` of `source` (rows of `row_bytes` every
/// `row_stride` bytes) to row `slots[i]` of the sink, or row i without slots.
void gather_rows(const char* source, std::int64_t row_stride, std::span<const std::int64_t> positions,
                 std::span<const std::int64_t> slots, RowSink sink);

/// Elements as rows of one element, copied into pooled memory. All must have one
/// structure, kinds, dtypes and shapes; else c10::ValueError naming `op`, the
/// leaf, both shapes and what to do. REQUIRES: at least one element.
Element stack_rows(std::span<const Element> elements, BufferPool& pool, std::string_view op);
/// As `stack_rows`, but the rows of dense leaf i may differ in dim 0 where `ragged[i]`, and become a ragged
/// leaf.
Element stack_ragged_rows(std::span<const Element> elements, const std::vector<bool>& ragged,
                          BufferPool& pool, std::string_view op);
/// The element with its leaves copied into pooled memory; objects are shared.
Element copy_element(const Element& element, BufferPool& pool);
/// Rows [begin, end) along dim 0 of every leaf, sharing memory except for sparse leaves.
/// Throws c10::ValueError naming `op` for a scalar leaf.
Element slice_rows(const Element& element, std::int64_t begin, std::int64_t end, std::string_view op);
/// Row `row` of every leaf, without dim 0, otherwise as `slice_rows`; rows of ragged leaves are dense. Errors
/// as `slice_rows`.
Element take_row(const Element& element, std::int64_t row, std::string_view op);
/// Elements joined along dim 0. One element is returned as it is. Throws FailedPreconditionError (as recorded
/// from the original) where shapes beyond dim 0 differ.
Element concat_rows(std::span<const Element> elements, std::string_view op);

}  // namespace torch_distinput
