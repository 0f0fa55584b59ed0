// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/tail.h"

#include <algorithm>
#include <numeric>

#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

std::vector<std::int64_t> rows_of(const std::vector<Part>& parts) {
  std::vector<std::int64_t> rows(parts.size());
  std::transform(parts.begin(), parts.end(), rows.begin(), [](const Part& part) { return part.rows; });
  return rows;
}

/// The last row of `part`, which has rows.
Segment last_row(const Part& part) {
  const auto last = std::find_if(part.segments.rbegin(), part.segments.rend(),
                                 [](const Segment& segment) { return segment.end > segment.begin; });
  return {last->element, last->end - 1, last->end};
}

void pad(AssignedStep& step, const std::vector<std::int64_t>& shares) {
  const auto has_rows = [](const Part& part) { return part.rows > 0; };
  const Segment last = last_row(*std::find_if(step.parts.rbegin(), step.parts.rend(), has_rows));
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    Part& part = step.parts[i];
    if (part.rows >= shares[i]) continue;
    const Segment row = has_rows(part) ? last_row(part) : last;
    while (part.rows < shares[i]) part.add(row);
    part.pieces = 0;
    part.filled = true;
  }
}

/// A run of rows, consumed from the front.
class RowRun {
 public:
  void add(Segment segment) {
    if (segment.end > segment.begin) segments_.push_back(segment);
  }
  /// Moves the first rows, at most `count`, to `part`.
  void move_to(Part& part, std::int64_t count) {
    while (count > 0 && next_ < segments_.size()) {
      Segment& from = segments_[next_];
      const std::int64_t taken = std::min(count, from.end - from.begin);
      part.add({from.element, from.begin, from.begin + taken});
      from.begin += taken;
      count -= taken;
      if (from.begin == from.end) ++next_;
    }
  }

 private:
  std::vector<Segment> segments_;
  std::size_t next_ = 0;
};

/// Appends the first `missing` rows of the epoch, cycling.
void add_first_rows(RowRun& run, std::int64_t missing, RowCounts& counts) {
  bool any = false;
  for (std::int64_t index = 0; missing > 0; ++index) {
    const std::int64_t element = counts.from_start(index);
    const auto rows = counts.rows(element);
    if (!rows) {
      TORCH_CHECK_VALUE(any,
                        "distribute_dataset: `tail` \"repeat\" needs the first rows of the epoch, but the "
                        "dataset has none now.");
      index = -1;
      continue;
    }
    const std::int64_t taken = std::min(missing, *rows);
    run.add({element, 0, taken});
    missing -= taken;
    any = any || taken > 0;
  }
}

void add_parts(RowRun& run, const AssignedStep& step) {
  for (const Part& part : step.parts) {
    for (const Segment& segment : part.segments) run.add(segment);
  }
}

void repeat_first(AssignedStep& step, const std::vector<std::int64_t>& shares, RowCounts& counts) {
  RowRun run;
  add_parts(run, step);
  const std::int64_t full = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  add_first_rows(run, full - step.rows, counts);
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    step.parts[i] = {};
    run.move_to(step.parts[i], shares[i]);
    step.parts[i].filled = true;
  }
  step.rows = full;
}

}  // namespace

bool tail_ends(Tail tail, const AssignedStep& step, bool is_last, std::int64_t full) {
  switch (tail) {
    case Tail::kDrop:
      return is_last && step.rows < full;
    case Tail::kUntilFirst:
      return lacks_rows(step);
    default:
      return false;
  }
}

bool lacks_rows(const AssignedStep& step) {
  return std::any_of(step.parts.begin(), step.parts.end(), [](const Part& part) { return part.rows == 0; });
}

bool deal_to_all(AssignedStep& step, const AssignedStep* next, const Splitter& splitter) {
  const std::int64_t rows = step.rows + (next ? next->rows : 0);
  const std::int64_t count = std::ssize(step.parts);
  if (rows < count) return false;
  RowRun run;
  add_parts(run, step);
  if (next) {
    add_parts(run, *next);
    step.after = next->after;
  }
  const auto shares = splitter.shares_for_all(rows, count);
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    step.parts[i] = {};
    run.move_to(step.parts[i], shares[i]);
  }
  step.rows = rows;
  return true;
}

std::vector<std::int64_t> fill_short_step(Tail tail, AssignedStep& step, bool is_last,
                                          const std::vector<std::int64_t>& shares, RowCounts& counts) {
  const std::int64_t full = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  const bool is_short = step.rows > 0 && step.rows < full;
  if (tail == Tail::kRepeat && is_last && is_short) repeat_first(step, shares, counts);
  auto valid = rows_of(step.parts);
  if (tail == Tail::kPadded && is_short) pad(step, shares);
  return valid;
}

std::string tail_name(Tail tail) {
  switch (tail) {
    case Tail::kZeroRows:
      return "zero_rows";
    case Tail::kPadded:
      return "padded";
    case Tail::kRepeat:
      return "repeat";
    case Tail::kDrop:
      return "drop";
    case Tail::kUntilFirst:
      return "until_first";
    case Tail::kMerge:
      return "merge";
  }
  return {};
}

}  // namespace torch_distinput
