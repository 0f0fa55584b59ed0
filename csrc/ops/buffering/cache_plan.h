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

/// Which rows of a cache are kept. A row is filled by the thread that claims it first; other threads read the
/// input instead of waiting. Lock-free, safe from any thread.
class RowClaims {
 public:
  /// No row of [0, `rows`) is kept yet.
  explicit RowClaims(std::int64_t rows) : marks_(static_cast<std::size_t>(rows)) {}

  /// The rows of a request, as indices into it.
  struct Split {
    std::vector<std::size_t> kept;    ///< may be read from the cache
    std::vector<std::size_t> mine;    ///< claimed by this call: `keep` or `give_up` must follow
    std::vector<std::size_t> others;  ///< being filled by other threads, or requested twice
  };
  /// Claims those of `rows` that are not claimed or kept yet, and splits the request.
  Split claim(std::span<const std::int64_t> rows);
  /// Returns whether `row` is kept.
  bool kept(std::int64_t row) const;
  /// Returns whether all of `rows` are kept.
  bool all_kept(std::span<const std::int64_t> rows) const;
  /// Publishes a claimed row after its data was written.
  void keep(std::int64_t row) { mark(row).store(kKept, std::memory_order_release); }
  /// Returns a claimed row to the state before the claim.
  void give_up(std::int64_t row) { mark(row).store(kMissing, std::memory_order_relaxed); }

 private:
  static constexpr std::uint8_t kMissing = 0;
  static constexpr std::uint8_t kClaimed = 1;
  static constexpr std::uint8_t kKept = 2;

  std::atomic<std::uint8_t>& mark(std::int64_t row) { return marks_[static_cast<std::size_t>(row)]; }

  std::vector<std::atomic<std::uint8_t>> marks_;
};

/// The rows that all iterators of one cached plan share. `claims` says which thread may write a row, and
/// which rows may be read.
struct RowMemory {
  /// Memory for the rows of `plan`, whose size must be finite.
  explicit RowMemory(const Plan& plan);

  RowClaims claims;                              ///< the state of each row
  std::vector<Element> elements;                 ///< the rows of a plan without a layout
  std::vector<std::unique_ptr<char[]>> columns;  ///< for a plan with a layout, all rows of each leaf
};

/// Returns `input` with each row kept in `memory` from its first read on. REQUIRES: the size of `input` is
/// finite, and `memory` was made for an equal plan.
PlanPtr cache_plan(PlanPtr input, std::shared_ptr<RowMemory> memory,
                   std::shared_ptr<ExecutionContext> execution);

}  // namespace torch_distinput
