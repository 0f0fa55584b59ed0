// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sources/columns/arrow_owned.h"
#include "torch_distinput/columns.h"
#include "torch_distinput/element.h"

/// \file
/// The values of Arrow arrays as leaves. Functions that take a batch share its memory where its form allows
/// that, and hold it; the others copy. Safe from any thread.

namespace torch_distinput {

inline bool bit_at(const std::uint8_t* bits, std::int64_t index) {
  return ((bits[index / 8] >> (index % 8)) & 1) != 0;
}

/// Items [begin, begin + count) of an array of `stored` at `data`, as `dtype`.
at::Tensor number_column(const void* data, c10::ScalarType stored, std::int64_t begin, std::int64_t count,
                         c10::ScalarType dtype, const ArrowBatch& batch);
/// Bits [begin, begin + count), as `dtype`.
at::Tensor bool_column(const std::uint8_t* bits, std::int64_t begin, std::int64_t count,
                       c10::ScalarType dtype);
/// `size` bytes.
at::Tensor shared_bytes(const void* data, std::int64_t size, const ArrowBatch& batch);
/// `count` + 1 offsets of 32 bits, or 64 where `wide`, as int64.
at::Tensor offsets_column(const void* data, bool wide, std::int64_t begin, std::int64_t count,
                          const ArrowBatch& batch);
/// The first row whose offsets are negative or not in order; -1: none.
std::int64_t find_bad_offset(const at::Tensor& offsets);
/// `offsets` less the first of them.
at::Tensor rebased(const at::Tensor& offsets);
/// Strings of `size` bytes each.
Bytes fixed_bytes_column(const void* data, std::int64_t begin, std::int64_t count, std::int64_t size,
                         const ArrowBatch& batch);
/// Strings in the form of views; those that are not `valid` are empty. REQUIRES: no bad view.
Bytes view_column(const ArrowArray& array, std::int64_t begin, std::int64_t count,
                  const std::optional<std::vector<bool>>& valid, bool utf8);
/// The first valid row whose view points out of its buffer; -1: none.
std::int64_t find_bad_view(const ArrowArray& array, std::int64_t begin, std::int64_t count,
                           const std::optional<std::vector<bool>>& valid);

/// The first valid row whose index is not in [0, size); -1: none.
std::int64_t find_bad_index(const at::Tensor& indices, std::int64_t size,
                            const std::optional<std::vector<bool>>& valid);
/// The rows of `values` at `indices`; rows that are not `valid` are zero or empty.
Leaf take_values(const Leaf& values, const at::Tensor& indices,
                 const std::optional<std::vector<bool>>& valid);

/// `leaf` of `rows` * `size` items as rows of `size` items.
Leaf with_list_dim(Leaf leaf, std::int64_t rows, std::int64_t size);
/// Replaces rows of a leaf that are not `valid` by the value of `rule`; by zeros, empty strings or empty
/// lists where it has none. The leaf is copied. Throws c10::ValueError for a value that the dtype cannot
/// hold.
void fill_rows(Leaf& leaf, const std::vector<bool>& valid, const NullRule& rule);
/// `valid` as a leaf of booleans.
at::Tensor mask_leaf(const std::optional<std::vector<bool>>& valid, std::int64_t rows);

}  // namespace torch_distinput
