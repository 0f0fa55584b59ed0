// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "torch_distinput/dataset_options.h"

namespace torch_distinput {

/// The sizes of consecutive batches, by number: one size, or sizes that change at given numbers. All answers
/// cost O(log entries). Immutable; safe from any thread.
class BatchSchedule {
 public:
  /// Batches of one size. Throws c10::ValueError naming `op` unless `batch_size` >= 1.
  BatchSchedule(std::string_view op, std::int64_t batch_size);
  /// Throws c10::ValueError naming `op` unless the first entry is at step 0, steps increase and sizes are at
  /// least 1.
  BatchSchedule(std::string_view op, const std::vector<BatchSizeFrom>& entries);

  /// Whether all batches have one size.
  bool is_constant() const { return spans_.size() == 1; }
  /// The size of batch `batch`.
  std::int64_t size(std::int64_t batch) const { return span_of_batch(batch).size; }
  /// The rows of all batches before `batch`, at most the largest int64.
  std::int64_t first_row(std::int64_t batch) const;
  /// The batch that has row `row`.
  std::int64_t batch_of(std::int64_t row) const;
  /// The number of batches of `rows` rows. Negative numbers are divided as tf.data does.
  std::int64_t count(std::int64_t rows, bool drop_remainder) const;
  /// The sizes of the smallest and the largest batches.
  std::int64_t smallest() const;
  std::int64_t largest() const;

  /// `4`, or `[(0, 4), (100, 8)]`.
  std::string describe() const;

 private:
  /// Batches of one size.
  struct Span {
    std::int64_t batch;      ///< the first one
    std::int64_t first_row;  ///< its first row
    std::int64_t size;
  };

  static bool has_smaller(const Span& a, const Span& b) { return a.size < b.size; }
  const Span& span_of_batch(std::int64_t batch) const;

  std::vector<Span> spans_;
};
using BatchSchedulePtr = std::shared_ptr<const BatchSchedule>;

}  // namespace torch_distinput
