// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace torch_distinput {

/// How a rank waits for the others.
struct Patience {
  std::string what;  ///< for messages: what the ranks do
  std::chrono::duration<double>
      timeout;  ///< after which DistributedDatasetError names the ranks that are missing
  /// Called at every look at the board; what it throws ends the wait. So does `interrupt_check()`, which is
  /// called about every 50 ms.
  std::function<void()> check = [] {};
  /// What `rank` did last, for the warning.
  std::function<std::string(int rank)> activity = {};
  /// Whether somebody waits for the end of the wait right now. Else looks become rarer the longer it lasts,
  /// so that waiting costs next to nothing.
  std::function<bool()> urgent = [] { return true; };
};

/// Posts `mine` and waits until every rank has posted under the same `key`; returns all texts by rank. After
/// 30 s a warning names the ranks that are missing. When the wait was ended early, calling again goes on with
/// it. When all ranks have returned, the texts are gone.
std::vector<std::string> wait_for_all(Communicator& communicator, const std::string& key,
                                      const std::string& mine, const Patience& patience);

/// `rank 3`, or `ranks 0, 2 and 5`.
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace torch_distinput
