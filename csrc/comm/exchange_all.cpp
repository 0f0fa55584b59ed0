// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/exchange_all.h"

#include <exception>
#include <optional>
#include <utility>

namespace torch_distinput {

std::vector<std::string> exchange_all(KeyValueStore& kv_store, const std::string& key,
                                      const std::string& mine, const WaitOptions& wait_options) {
  const auto keys = keys_of_all(key, kv_store.size());
  kv_store.compare_set(keys[static_cast<std::size_t>(kv_store.rank())], mine);
  std::optional<std::vector<std::string>> texts;
  wait_until(
      kv_store.rank(), [&] { return (texts = kv_store.multi_get(keys)).has_value(); },
      [&] { return ranks_without(kv_store, keys); }, wait_options);
  give_up(kv_store, key);
  return std::move(*texts);
}

void give_up(KeyValueStore& kv_store, const std::string& key) {
  leave_texts(kv_store, key + "/readers", keys_of_all(key, kv_store.size()));
}

std::vector<std::string> keys_of_all(const std::string& key, int size) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size; ++rank) keys.push_back(key + "/" + std::to_string(rank));
  return keys;
}

std::vector<int> ranks_without(KeyValueStore& kv_store, const std::vector<std::string>& keys) {
  std::vector<int> ranks;
  for (int rank = 0; rank < kv_store.size(); ++rank)
    if (!kv_store.multi_get({keys[static_cast<std::size_t>(rank)]})) ranks.push_back(rank);
  return ranks;
}

void leave_texts(KeyValueStore& kv_store, const std::string& key,
                 const std::vector<std::string>& keys) noexcept {
  // A repeated `add` would count this rank twice, so no interrupt may end it.
  const BriefWait brief;
  try {
    if (kv_store.add(key, 1) < kv_store.size()) return;
    for (const auto& text : keys) kv_store.remove(text);
    kv_store.remove(key);
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace torch_distinput
