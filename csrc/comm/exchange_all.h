// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/key_value_store.h"
#include "comm/waiting.h"

namespace torch_distinput {

/// Posts `mine` and waits until every rank has posted under the same `key`; returns all texts by rank. When
/// the wait was ended early, calling again goes on with it, and with what was posted first; or `give_up` ends
/// it. When all ranks have returned or given up, the texts are gone.
std::vector<std::string> exchange_all(KeyValueStore& kv_store, const std::string& key,
                                      const std::string& mine, const WaitOptions& wait_options);

/// This rank has not returned from `exchange_all` and does not call it again.
void give_up(KeyValueStore& kv_store, const std::string& key);

/// `<key>/0`, `<key>/1`, ..., one for each rank.
std::vector<std::string> keys_of_all(const std::string& key, int size);

/// The ranks that have nothing under their key of `keys_of_all`.
std::vector<int> ranks_without(KeyValueStore& kv_store, const std::vector<std::string>& keys);

/// This rank needs the texts under `keys` no more: the last one to say so takes them away. `key` is the same
/// on every rank, and used for nothing else. Waits briefly, and throws nothing: where the store is lost,
/// nothing is left on it.
void leave_texts(KeyValueStore& kv_store, const std::string& key,
                 const std::vector<std::string>& keys) noexcept;

}  // namespace torch_distinput
