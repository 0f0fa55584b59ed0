// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/batch_schedule.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>

#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

constexpr std::int64_t kMostRows = std::numeric_limits<std::int64_t>::max();

/// The row after `batches` batches of `size` rows from `first_row` on.
std::int64_t row_after(std::int64_t first_row, std::int64_t batches, std::int64_t size) {
  std::int64_t rows = 0;
  const bool too_many =
      __builtin_mul_overflow(batches, size, &rows) || __builtin_add_overflow(first_row, rows, &rows);
  return too_many ? kMostRows : rows;
}

}  // namespace

BatchSchedule::BatchSchedule(std::string_view op, std::int64_t batch_size) : spans_{{0, 0, batch_size}} {
  TORCH_CHECK_VALUE(batch_size >= 1, op, ": `batch_size` must be at least 1, but is ", batch_size, ".");
}

BatchSchedule::BatchSchedule(std::string_view op, const std::vector<BatchSizeFrom>& entries) {
  TORCH_CHECK_VALUE(
      !entries.empty() && entries.front().step == 0, op,
      ": the schedule `batch_size` must begin with the size from step 0 on, but ",
      entries.empty() ? "has no entries" : "begins at step " + std::to_string(entries.front().step), ".");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto [step, size] = entries[i];
    TORCH_CHECK_VALUE(size >= 1, op,
                      ": the sizes of the schedule `batch_size` must be at least 1, but from step ", step,
                      " on the size is ", size, ".");
    TORCH_CHECK_VALUE(i == 0 || entries[i - 1].step < step, op,
                      ": the steps of the schedule `batch_size` must increase, but ", step, " follows ",
                      i == 0 ? 0 : entries[i - 1].step, ".");
    if (i == 0) {
      spans_.push_back({0, 0, size});
    } else if (const Span before = spans_.back(); before.size != size) {
      spans_.push_back({step, row_after(before.first_row, step - before.batch, before.size), size});
    }
  }
}

const BatchSchedule::Span& BatchSchedule::span_of_batch(std::int64_t batch) const {
  if (is_constant()) return spans_.front();
  const auto after = [](std::int64_t number, const Span& span) { return number < span.batch; };
  return *std::prev(std::upper_bound(spans_.begin() + 1, spans_.end(), batch, after));
}

std::int64_t BatchSchedule::first_row(std::int64_t batch) const {
  const Span& span = span_of_batch(batch);
  return row_after(span.first_row, batch - span.batch, span.size);
}

std::int64_t BatchSchedule::batch_of(std::int64_t row) const {
  const auto after = [](std::int64_t number, const Span& span) { return number < span.first_row; };
  const Span& span = *std::prev(std::upper_bound(spans_.begin() + 1, spans_.end(), row, after));
  return span.batch + (row - span.first_row) / span.size;
}

std::int64_t BatchSchedule::count(std::int64_t rows, bool drop_remainder) const {
  const std::int64_t whole = batch_of(rows);
  return whole + (!drop_remainder && first_row(whole) != rows ? 1 : 0);
}

std::int64_t BatchSchedule::smallest() const {
  return std::min_element(spans_.begin(), spans_.end(), has_smaller)->size;
}

std::int64_t BatchSchedule::largest() const {
  return std::max_element(spans_.begin(), spans_.end(), has_smaller)->size;
}

std::string BatchSchedule::describe() const {
  if (is_constant()) return std::to_string(spans_.front().size);
  std::ostringstream text;
  const char* separator = "[(";
  for (const Span& span : spans_) text << std::exchange(separator, "), (") << span.batch << ", " << span.size;
  text << ")]";
  return text.str();
}

}  // namespace torch_distinput
