// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/rows.h"
#include "torch_distinput/element.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// Stacks rows as they are made, so that they need not all be held. The first row tells which leaves are
/// dense, their dtypes and shapes; such leaves, of it and of rows like it, are copied into the batch at once
/// and let go. One thread at a time.
class RowStack {
 public:
  /// A stack of `rows` rows, at least 1, in memory of `pool`, which must outlive it; `op` is for messages.
  RowStack(std::int64_t rows, BufferPool& pool, std::string_view op) : rows_(rows), pool_(pool), op_(op) {}

  /// Adds the next row. One that does not fit those before it is refused by `finish`.
  void add(Element row);
  /// The batch; result and errors as of `stack_rows`. REQUIRES: `rows` rows were added.
  Element finish();

 private:
  void begin(const Element& first);
  bool is_like_first(const Element& row) const;
  void copy(Element row);
  Element row_again(std::int64_t row);

  std::int64_t rows_;
  BufferPool& pool_;
  std::string_view op_;
  StructurePtr structure_;            ///< of the first row; null before it
  std::vector<std::size_t> dense_;    ///< the leaves that are copied
  RowLayout layout_;                  ///< of these alone
  std::optional<BatchBuffer> batch_;  ///< likewise
  std::int64_t copied_ = 0;           ///< rows that are in `batch_`
  std::vector<Element> rest_;         ///< their other leaves, if there are such
  std::vector<Element> held_;         ///< all rows, from the first on that could not be copied
};

}  // namespace torch_distinput
