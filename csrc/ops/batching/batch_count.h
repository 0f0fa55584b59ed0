// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/batch_schedule.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// Returns the number of batches of `n` rows, or `n` if it is kInfiniteCardinality or kUnknownCardinality.
/// Other negative numbers come from the marker of policy HINT.
inline std::int64_t count_batches(std::int64_t n, const BatchSchedule& sizes, bool drop_remainder) {
  return n == kInfiniteCardinality || n == kUnknownCardinality ? n : sizes.count(n, drop_remainder);
}

/// Which rows are in which batch, for a plan of `input_size` rows, which may be `kEndless`. Immutable.
class BatchCount {
 public:
  BatchCount(std::int64_t input_size, BatchSchedule sizes, bool drop_remainder)
      : input_size_(input_size), sizes_(std::move(sizes)) {
    const bool endless = input_size == kEndless;
    batches_ = endless ? kEndless : sizes_.count(input_size, drop_remainder);
    total_rows_ = !endless && drop_remainder ? sizes_.first_row(batches_) : input_size;
  }

  /// The number of batches, or `kEndless`.
  std::int64_t batches() const { return batches_; }
  /// The first row of batch `batch`, and its number of rows.
  std::int64_t first_row(std::int64_t batch) const { return sizes_.first_row(batch); }
  std::int64_t rows(std::int64_t batch) const {
    return std::min(sizes_.size(batch), input_size_ - first_row(batch));
  }
  /// The rows of all batches before `batch`.
  std::int64_t rows_before(std::int64_t batch) const { return std::min(first_row(batch), total_rows_); }

 private:
  std::int64_t input_size_;
  BatchSchedule sizes_;
  std::int64_t batches_;
  std::int64_t total_rows_;
};

/// Returns the next `count` elements of `input`, fewer at its end.
inline std::vector<Element> next_elements(Iterator& input, std::int64_t count) {
  std::vector<Element> elements;
  while (static_cast<std::int64_t>(elements.size()) < count) {
    std::optional<Element> element = input.next();
    if (!element) break;
    elements.push_back(std::move(*element));
  }
  return elements;
}

}  // namespace torch_distinput
