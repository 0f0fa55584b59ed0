// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/wait_for_all.h"
#include "torch_distinput/process_group.h"

namespace torch_distinput {

/// Numbered rounds in which every rank of a group says something and hears all others. One thread at a time.
class Rounds {
 public:
  virtual ~Rounds() = default;
  /// Says `text` in the next round and waits until every rank has: returns all texts by rank. When the wait
  /// was ended early by `patience`, the next call goes on with the same round and must say the same.
  virtual std::vector<std::string> hold(const std::string& text, const Patience& patience) = 0;
};

/// Rounds over the communicator's board, under `key`. Any number of them may be under way.
std::unique_ptr<Rounds> rounds_on_board(CommunicatorPtr communicator, std::string key);

/// Rounds as collectives of a group that `make` makes, now, for these rounds only. The communicator carries
/// the group's name, texts that are long, and who has spoken; `key` keeps those apart. `patience`: for making
/// it. Destroying them never waits: what this rank owes to a round under way is left to a thread that ends
/// with it.
std::unique_ptr<Rounds> rounds_in_group(CommunicatorPtr communicator, const std::string& key,
                                        const ProcessGroup::MakeGroup& make, const Patience& patience);

}  // namespace torch_distinput
