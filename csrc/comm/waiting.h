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
  std::string what;  ///< for messages: what the ranks do
  std::chrono::duration<double>
      timeout;  ///< after which DistributedDatasetError names the ranks that are missing
  /// Called at every look at the store; what it throws ends the wait. So does `interrupt_check()`, which is
  /// called about every 50 ms.
  std::function<void()> check = [] {};
  std::chrono::duration<double> warn_after = std::chrono::seconds{
      30};  ///< that the wait was urgent; then a warning names the ranks that are missing
  /// What `rank` did last, for the warning.
  std::function<std::string(int rank)> activity = {};
  /// Whether somebody waits for the end of the wait right now. Else looks become rarer the longer it lasts,
  /// so that waiting costs next to nothing.
  std::function<bool()> urgent = [] { return true; };
};

/// Waits in rank `rank` until `ready`, which looks at the store. `missing`: the ranks that it waits for.
void wait_until(int rank, const std::function<bool()>& ready,
                const std::function<std::vector<int>()>& missing, const WaitOptions& wait_options);

/// For words that this rank needs no answer to, such as those of farewell. While it lives, this thread waits
/// at most a second for a store that does not answer, and hears no interrupts, which stay pending: the wait
/// then ends with a std::runtime_error, and the words are on their way.
class BriefWait {
 public:
  BriefWait();

 private:
  InterruptScope scope_;
};

/// `rank 3`, or `ranks 0, 2 and 5`.
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace torch_distinput
