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

/// \file
/// Batches in pooled memory, and operations on the rows of all leaves of an element. All functions are safe
/// from any thread.

/// A batch under construction.
struct BatchBuffer {
  Element element;             ///< leaves of shape [rows, row dims...], uninitialised
  std::vector<RowSink> sinks;  ///< where the rows of each leaf go; valid as long as `element`
};
/// Returns a buffer for `rows` rows. Each leaf has its own block of `pool`, so that keeping one leaf does not
/// keep the others; if the pool packs, leaves up to kPackedBytes share one block.
BatchBuffer make_batch(const RowLayout& layout, std::int64_t rows, BufferPool& pool);

/// Returns an uninitialised contiguous CPU tensor in a block of `pool`; the block returns to the pool when
/// the last tensor on that storage is destroyed.
at::Tensor pooled_tensor(std::span<const std::int64_t> shape, c10::ScalarType dtype, BufferPool& pool);

/// Copies row `positions[i]` of `source` to row `slots[i]` of `sink`, or to row i if `slots` is empty. Rows
/// of `source` are `sink.row_bytes` bytes long and begin every `row_stride` bytes.
void gather_rows(const char* source, std::int64_t row_stride, std::span<const std::int64_t> positions,
                 std::span<const std::int64_t> slots, RowSink sink);

/// Stacks elements as rows of one element in memory of `pool`. Throws c10::ValueError naming `op`, the leaf,
/// both values and what to do if structures, kinds, dtypes or shapes differ. REQUIRES: at least one element.
Element stack_rows(std::span<const Element> elements, BufferPool& pool, std::string_view op);
/// As `stack_rows`, but where `ragged[i]` is set, the rows of leaf i must be dense, may differ in dim 0 and
/// become a ragged leaf. `ragged` has one entry for each leaf.
Element stack_ragged_rows(std::span<const Element> elements, const std::vector<bool>& ragged,
                          BufferPool& pool, std::string_view op);
/// Returns the element with its leaves copied into memory of `pool`; opaque objects, datasets and tensors on
/// devices are shared.
Element copy_element(const Element& element, BufferPool& pool);
/// Returns rows [begin, end) along dim 0 of every leaf, sharing memory (sparse leaves are copied). Throws
/// naming `op`: c10::ValueError for a scalar leaf, c10::TypeError for a dataset leaf or a tensor on a device.
Element slice_rows(const Element& element, std::int64_t begin, std::int64_t end, std::string_view op);
/// Returns row `row` of every leaf without dim 0; otherwise as `slice_rows`. Rows of ragged leaves are dense.
Element take_row(const Element& element, std::int64_t row, std::string_view op);
/// Returns the elements concatenated along dim 0; a single element is returned as it is. Throws
/// FailedPreconditionError if shapes beyond dim 0 differ, as recorded from tf.data's rebatch, and
/// c10::ValueError if structures, kinds or dtypes differ. REQUIRES: at least one element.
Element concat_rows(std::span<const Element> elements, std::string_view op);

}  // namespace torch_distinput
