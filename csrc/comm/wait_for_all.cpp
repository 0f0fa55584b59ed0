// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/wait_for_all.h"

#include <exception>
#include <optional>
#include <utility>

namespace torch_distinput {

std::vector<std::string> wait_for_all(Communicator& communicator, const std::string& key,
                                      const std::string& mine, const Patience& patience) {
  const auto keys = keys_of_all(key, communicator.size());
  communicator.post_first(keys[static_cast<std::size_t>(communicator.rank())], mine);
  std::optional<std::vector<std::string>> texts;
  wait_until(
      communicator.rank(), [&] { return (texts = communicator.look(keys)).has_value(); },
      [&] { return ranks_without(communicator, keys); }, patience);
  give_up(communicator, key);
  return std::move(*texts);
}

void give_up(Communicator& communicator, const std::string& key) {
  leave_texts(communicator, key + "/readers", keys_of_all(key, communicator.size()));
}

std::vector<std::string> keys_of_all(const std::string& key, int size) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size; ++rank) keys.push_back(key + "/" + std::to_string(rank));
  return keys;
}

std::vector<int> ranks_without(Communicator& communicator, const std::vector<std::string>& keys) {
  std::vector<int> ranks;
  for (int rank = 0; rank < communicator.size(); ++rank)
    if (!communicator.look({keys[static_cast<std::size_t>(rank)]})) ranks.push_back(rank);
  return ranks;
}

void leave_texts(Communicator& communicator, const std::string& key,
                 const std::vector<std::string>& keys) noexcept {
  // Counted once, so no interrupt may break it off.
  const BriefWait brief;
  try {
    if (communicator.add(key, 1) < communicator.size()) return;
    for (const auto& text : keys) communicator.remove(text);
    communicator.remove(key);
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace torch_distinput
