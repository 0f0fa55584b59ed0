// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/exchange_all.h"
#include "comm/key_value_store.h"
#include "comm/peer_text.h"
#include "torch_distinput/process_group.h"

namespace torch_distinput {

/// Numbered rounds in which every rank of a group sends one text and receives the texts of all ranks. One
/// thread at a time.
class AllGather {
 public:
  virtual ~AllGather() = default;
  /// Sends `text` in the next round and waits until every rank has sent one. Returns all texts, by rank. If
  /// `wait_options` or an interrupt ends the wait early, the next call continues the same round and must pass
  /// the same text. Throws DistributedDatasetError when a rank does not send within `wait_options.timeout`,
  /// or when the store or the group is lost.
  virtual std::vector<std::string> run(const std::string& text, const WaitOptions& wait_options) = 0;
};

/// The texts of a round of `all_gather_over_store`, by rank; nullopt for ranks that have not sent one. A text
/// may be there twice: after an interrupt during the append, the rank appends it again. `frames`: those
/// that have arrived. Throws PeerTextError.
std::vector<std::optional<std::string>> read_frames(PeerTextReader frames, int size);

/// Rounds as texts in `kv_store`, under keys that begin with `key`. Several may be in use at once, each with
/// a `key` of its own.
std::unique_ptr<AllGather> all_gather_over_store(KeyValueStorePtr kv_store, std::string key);

/// Rounds as collectives of a process group that `make` makes in this call, for these rounds only. Every rank
/// must call at the same time; `wait_options` limits that wait. The store carries the group's name, texts
/// above 1 KiB, and how many rounds each rank has entered, under keys that begin with `key`. Throws
/// DistributedDatasetError when a rank does not come, and what `make` throws. The destructor never waits: a
/// detached thread holds a round that is still under way until it ends.
std::unique_ptr<AllGather> all_gather_over_group(KeyValueStorePtr kv_store, const std::string& key,
                                                 const ProcessGroup::MakeGroup& make,
                                                 const WaitOptions& wait_options);

}  // namespace torch_distinput
