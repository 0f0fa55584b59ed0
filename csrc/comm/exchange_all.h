// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/key_value_store.h"
#include "comm/waiting.h"

namespace torch_distinput {

/// Sets `mine` and waits until every rank has set its text under the same `key`. Returns all texts, by rank.
/// After a wait that ended early, either call again, which continues with the text that was set first, or
/// call `give_up`. The texts are removed when all ranks have returned or given up. Throws
/// DistributedDatasetError as `wait_until` and KeyValueStore do.
std::vector<std::string> exchange_all(KeyValueStore& kv_store, const std::string& key,
                                      const std::string& mine, const WaitOptions& wait_options);

/// Tells the store that this rank, which has not returned from `exchange_all`, will not call it again.
void give_up(KeyValueStore& kv_store, const std::string& key);

/// `<key>/0`, `<key>/1`, ..., one for each rank.
std::vector<std::string> keys_of_all(const std::string& key, int size);

/// The ranks without a text under their key. `keys`: of `keys_of_all`. Throws as KeyValueStore does.
std::vector<int> ranks_without(KeyValueStore& kv_store, const std::vector<std::string>& keys);

/// Counts, under `key`, that this rank no longer needs the texts under `keys`; the last rank to do so removes
/// them. `key` is the same on every rank and used for nothing else. Waits about a second at most
/// (`BriefWait`) and throws nothing: a store that is lost needs no cleaning.
void leave_texts(KeyValueStore& kv_store, const std::string& key,
                 const std::vector<std::string>& keys) noexcept;

}  // namespace torch_distinput
