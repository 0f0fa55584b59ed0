// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/step_balancer.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

std::vector<std::int64_t> sizes_of(const AssignedStep& step) {
  std::vector<std::int64_t> sizes;
  for (const Part& part : step.parts) sizes.push_back(part.rows);
  return sizes;
}

std::vector<Segment> segments_with_rows(const AssignedStep& step) {
  std::vector<Segment> segments;
  for (const Part& part : step.parts) {
    for (const Segment& segment : part.segments) {
      if (segment.end > segment.begin) segments.push_back(segment);
    }
  }
  return segments;
}

void append_row(Part& part, std::int64_t element, std::int64_t row) {
  if (!part.segments.empty()) {
    Segment& last = part.segments.back();
    if (last.element == element && last.end == row) {
      ++last.end;
      ++part.rows;
      return;
    }
  }
  part.add({element, row, row + 1});
}

}  // namespace

std::vector<double> RowCounts::costs(std::span<const Segment>) {
  TORCH_INTERNAL_ASSERT(false, "costs of rows whose costs were not given");
}

std::vector<std::int32_t> StepBalancer::balance(AssignedStep& step, RowCounts& counts) {
  if (window_ == 1 && step.parts.size() == 1) return {};
  const auto rows = rows_of(step, counts);
  std::vector<double> costs;
  costs.reserve(rows.size());
  for (const CostedRow& row : rows) costs.push_back(row.cost);
  auto parts = deal_(costs, sizes_of(step));
  hand_out(step, rows, parts);
  if (std::is_sorted(parts.begin(), parts.end())) return {};
  return parts;
}

void StepBalancer::exchange(AssignedStep& step, RowCounts& counts) {
  if (window_ == 1) return;
  const auto rows = rows_of(step, counts);
  std::vector<std::int32_t> parts;
  for (const Part& part : step.parts)
    parts.insert(parts.end(), static_cast<std::size_t>(part.rows),
                 static_cast<std::int32_t>(&part - step.parts.data()));
  hand_out(step, rows, parts);
}

/// The rows that the step has after those of windows are exchanged, in the order of the data.
std::vector<StepBalancer::CostedRow> StepBalancer::rows_of(const AssignedStep& step, RowCounts& counts) {
  const auto segments = segments_with_rows(step);
  std::vector<CostedRow> rows;
  rows.reserve(static_cast<std::size_t>(step.rows));
  if (window_ > 1) {
    for (const Segment& segment : segments) {
      const Window& window = window_of(segment.element, counts);
      const auto& all = window.rows[static_cast<std::size_t>(segment.element - window.first)];
      rows.insert(rows.end(), all.begin() + segment.begin, all.begin() + segment.end);
    }
  } else {
    const auto costs = counts.costs(segments);
    for (const Segment& segment : segments) {
      for (std::int64_t row = segment.begin; row < segment.end; ++row)
        rows.push_back({{segment.element, row}, costs[rows.size()]});
    }
  }
  const auto comes_first = [](const CostedRow& a, const CostedRow& b) { return a.place < b.place; };
  if (!std::is_sorted(rows.begin(), rows.end(), comes_first))
    std::sort(rows.begin(), rows.end(), comes_first);
  return rows;
}

const StepBalancer::Window& StepBalancer::window_of(std::int64_t element, RowCounts& counts) {
  const std::int64_t first = first_of_window(element, window_);
  for (const Window& window : windows_) {
    if (window.first == first) return window;
  }
  windows_.push_front(deal_window(first, counts));
  if (windows_.size() > 2) windows_.pop_back();
  return windows_.front();
}

StepBalancer::Window StepBalancer::deal_window(std::int64_t first, RowCounts& counts) const {
  std::vector<Segment> segments;
  std::vector<std::int64_t> sizes;
  for (std::int64_t element = first; element < first + window_; ++element) {
    const auto rows = counts.rows(element);
    if (!rows) break;
    segments.push_back({element, 0, *rows});
    sizes.push_back(*rows);
  }
  const auto costs = counts.costs(segments);
  const auto elements = deal_(costs, sizes);
  Window dealt{first, std::vector<std::vector<CostedRow>>(sizes.size())};
  std::size_t at = 0;
  for (const Segment& segment : segments) {
    for (std::int64_t row = 0; row < segment.end; ++row, ++at)
      dealt.rows[static_cast<std::size_t>(elements[at])].push_back({{segment.element, row}, costs[at]});
  }
  return dealt;
}

/// A part without rows keeps its segment without rows.
void StepBalancer::hand_out(AssignedStep& step, const std::vector<CostedRow>& rows,
                            const std::vector<std::int32_t>& parts) {
  for (Part& part : step.parts) {
    if (part.rows == 0) continue;
    part.segments.clear();
    part.segments.reserve(static_cast<std::size_t>(part.rows));
    part.rows = 0;
    part.pieces = 0;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    append_row(step.parts[static_cast<std::size_t>(parts[i])], rows[i].place.element, rows[i].place.row);
  }
}

}  // namespace torch_distinput
