// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "torch_distinput/interrupt.h"

namespace torch_distinput {

/// How a rank waits for the others.
struct WaitOptions {
  /// What the ranks do; messages begin with it.
  std::string what;
  /// After this time the wait throws a DistributedDatasetError that names the missing ranks.
  std::chrono::duration<double> timeout;
  /// Called about every 50 ms and after news; its exception ends the wait. So does one of
  /// `interrupt_check()`.
  std::function<void()> check = [] {};
  /// After the wait has been urgent for this time without a break, one warning names the missing ranks.
  std::chrono::duration<double> warn_after = std::chrono::seconds{30};
  /// Whether a caller is blocked on the result right now. If not, there is no warning.
  std::function<bool()> urgent = [] { return true; };
};

/// A rank that others wait for.
struct LateRank {
  int rank;
  std::string activity = {};  ///< what it did last, for messages, as the end of `Rank 3 ...`; "": not known
};

/// Waits, as rank `rank`, until `ready()` returns true. `missing()` returns the ranks that it waits for and
/// is called for messages only. Throws DistributedDatasetError after `wait_options.timeout`, and what the
/// functions of `wait_options` and `interrupt_check()` throw.
/// `sleep`: waits for news that could make `ready()` true, for 50 ms at most.
void wait_until(int rank, const std::function<bool()>& ready,
                const std::function<std::vector<LateRank>()>& missing, const WaitOptions& wait_options,
                const std::function<void()>& sleep);

/// For messages that need no answer, such as those of a rank that leaves. While an object lives, its thread
/// waits at most one second for a store that does not answer; then the wait throws std::runtime_error and the
/// message stays queued. Interrupts are not checked meanwhile and stay pending.
class BriefWait {
 public:
  BriefWait();

 private:
  InterruptScope scope_;
};

/// As `name_ranks` of RankRanges, for messages.
std::string name_ranks(const std::vector<int>& ranks);
std::string name_ranks(const std::vector<LateRank>& ranks);

}  // namespace torch_distinput
