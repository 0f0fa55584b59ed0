// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "execution/execution_context.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// Which rows of a cache are kept: every row is filled once, by whoever claims it.
/// Nobody ever waits. Any thread may call.
class RowClaims {
 public:
  explicit RowClaims(std::int64_t rows) : marks_(static_cast<std::size_t>(rows)) {}

  /// Indices into a request.
  struct Split {
    std::vector<std::size_t> kept;
    std::vector<std::size_t> mine;    ///< claimed: `keep` or `give_up` must follow
    std::vector<std::size_t> others;  ///< being filled by others (or wanted twice)
  };
  Split claim(std::span<const std::int64_t> rows);
  bool all_kept(std::span<const std::int64_t> rows) const;
  void keep(std::int64_t row) { mark(row).store(kKept, std::memory_order_release); }
  void give_up(std::int64_t row) { mark(row).store(kMissing, std::memory_order_relaxed); }

 private:
  static constexpr std::uint8_t kMissing = 0;
  static constexpr std::uint8_t kClaimed = 1;
  static constexpr std::uint8_t kKept = 2;

  std::atomic<std::uint8_t>& mark(std::int64_t row) { return marks_[static_cast<std::size_t>(row)]; }

  std::vector<std::atomic<std::uint8_t>> marks_;
};

/// Rows that iterators of one cached plan share. Any thread may use it.
struct RowMemory {
  explicit RowMemory(const Plan& plan);

  RowClaims claims;
  std::vector<Element> elements;                 ///< of a plan without a layout
  std::vector<std::unique_ptr<char[]>> columns;  ///< else all rows of each leaf
};

/// `input` with its rows kept in `memory` from the first time that they are asked for.
/// REQUIRES: the size of `input` is finite, `memory` was made for an equal plan.
PlanPtr cache_plan(PlanPtr input, std::shared_ptr<RowMemory> memory,
                   std::shared_ptr<ExecutionContext> execution);

}  // namespace torch_distinput
