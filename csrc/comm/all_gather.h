// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/exchange_all.h"
#include "comm/key_value_store.h"
#include "torch_distinput/process_group.h"

namespace torch_distinput {

/// Numbered rounds in which every rank of a group says something and hears all others. One thread at a time.
class AllGather {
 public:
  virtual ~AllGather() = default;
  /// Says `text` in the next round and waits until every rank has: returns all texts by rank. When the wait
  /// was ended early by `wait_options`, the next call goes on with the same round and must say the same.
  virtual std::vector<std::string> run(const std::string& text, const WaitOptions& wait_options) = 0;
};

/// AllGather over the store's store, under `key`. Any number of them may be under way.
std::unique_ptr<AllGather> all_gather_over_store(KeyValueStorePtr kv_store, std::string key);

/// AllGather as collectives of a group that `make` makes, now, for these rounds only. The store carries
/// the group's name, texts that are long, and who has spoken; `key` keeps those apart. `wait_options`: for
/// making it. Destroying them never waits: what this rank owes to a round under way is left to a thread that
/// ends with it.
std::unique_ptr<AllGather> all_gather_over_group(KeyValueStorePtr kv_store, const std::string& key,
                                                 const ProcessGroup::MakeGroup& make,
                                                 const WaitOptions& wait_options);

}  // namespace torch_distinput
