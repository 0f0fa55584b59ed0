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

/// Counts the rows that one iterator of a fallible op skips where the options say so, and throws where they
/// are too many. One thread at a time.
class SkipBudget {
 public:
  /// `op` names the op in messages.
  SkipBudget(const IterContext& context, std::string op);

  /// Counts a row that did not fail.
  void pass() noexcept { ++seen_; }

  /// Counts `rows` rows that failed together. REQUIRES: called in the handler of their exception. Returns
  /// where they are to be skipped. Otherwise rethrows the exception, or throws c10::ValueError where more
  /// rows have failed than the limits allow.
  void fail(std::int64_t rows = 1);

  /// The rows have ended; call it at every `next` after the last row. Throws c10::ValueError where more than
  /// `max_fraction` of the rows failed, however few they are: an epoch must not lose most of its rows
  /// unnoticed.
  void end() const;

  /// The counts; null where the options do not say to skip.
  State save() const;
  /// A null state means no rows seen. Throws c10::ValueError for a damaged one.
  void load(const State& state);

 private:
  void check_count() const;
  void check_fraction() const;
  /// ` allows no more. The last error: ...`. The last error is not saved, so it is missing after a restore.
  std::string ending() const;

  std::string op_;
  std::optional<Skip> skip_;
  std::shared_ptr<Counters> counters_;
  std::int64_t seen_ = 0;
  std::int64_t skipped_ = 0;
  bool is_part_;  ///< as in `IterContext`
  std::string last_error_;
};

}  // namespace torch_distinput
