// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "torch_distinput/node.h"
#include "torch_distinput/options.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

struct Counters;

/// Counts the rows that one iterator of a fallible op drops where the options say
/// to skip, and raises when they are too many. One thread at a time.
class SkipBudget {
 public:
  /// `op` names the op in messages.
  SkipBudget(const IterContext& context, std::string op);

  /// A row came through.
  void pass() noexcept { ++seen_; }

  /// A row failed; call it where the exception is caught. Returns when the row
  /// is to be skipped. Otherwise rethrows the exception, or throws
  /// c10::ValueError when one row more than the limits allow has failed.
  void fail();

  /// There are no more rows; call it at every `next` after the last one. Throws c10::ValueError where more
  /// than `max_fraction` has failed, however few rows there were: an epoch must not come to nothing unseen.
  void end() const;

  /// Null where nothing is skipped.
  State save() const;
  /// A null state stands for no rows seen.
  void load(const State& state);

 private:
  void check_count() const;
  void check_fraction() const;
  /// ` allows no more. The last error: ...`; after a restart nobody knows it.
  std::string ending() const;

  std::string op_;
  std::optional<Skip> skip_;
  std::shared_ptr<Counters> counters_;
  std::int64_t seen_ = 0;
  std::int64_t skipped_ = 0;
  bool is_part_;  ///< of the data: its end is not theirs
  std::string last_error_;
};

}  // namespace torch_distinput
