// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Returns the number of batches of `n` rows, or `n` if it is kInfiniteCardinality or kUnknownCardinality.
/// Other negative numbers come from the marker of policy HINT and are divided as tf.data does.
inline std::int64_t count_batches(std::int64_t n, std::int64_t batch_size, bool drop_remainder) {
  if (n == kInfiniteCardinality || n == kUnknownCardinality) return n;
  return n / batch_size + (!drop_remainder && n % batch_size != 0 ? 1 : 0);
}

/// Which rows are in which batch, for a plan of `input_size` rows, which may be `kEndless`. Immutable.
class BatchCount {
 public:
  BatchCount(std::int64_t input_size, std::int64_t batch_size, bool drop_remainder)
      : input_size_(input_size), batch_size_(batch_size) {
    const bool endless = input_size == kEndless;
    batches_ = endless ? kEndless : count_batches(input_size, batch_size, drop_remainder);
    total_rows_ = !endless && drop_remainder ? batches_ * batch_size : input_size;
  }

  /// The number of batches, or `kEndless`.
  std::int64_t batches() const { return batches_; }
  /// The rows of batch `batch`, and the rows of all batches before it.
  std::int64_t rows(std::int64_t batch) const {
    return std::min(batch_size_, input_size_ - batch * batch_size_);
  }
  std::int64_t rows_before(std::int64_t batch) const { return std::min(batch * batch_size_, total_rows_); }

 private:
  std::int64_t input_size_;
  std::int64_t batch_size_;
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
