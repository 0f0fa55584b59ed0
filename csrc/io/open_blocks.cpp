// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/open_blocks.h"

#include <cstring>

namespace torch_distinput {

/// A digest is as good as random already.
std::size_t OpenBlocks::Hash::operator()(const Name& name) const noexcept {
  std::size_t first;
  std::memcpy(&first, name.first.data(), sizeof(first));
  return first + name.second;
}

CacheBlockPtr OpenBlocks::get(const CacheKey& key, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find({key.digest, number});
  if (found == places_.end()) return nullptr;
  used_.splice(used_.begin(), used_, found->second);
  return found->second->second;
}

void OpenBlocks::put(const CacheKey& key, CacheBlockPtr block) {
  CacheBlockPtr closed;  // declared before the lock: the file is closed after the lock is released
  const Name name(key.digest, block->number());
  const std::lock_guard lock(mutex_);
  if (places_.contains(name)) return;
  used_.emplace_front(name, std::move(block));
  places_.emplace(name, used_.begin());
  if (used_.size() <= most_) return;
  closed = std::move(used_.back().second);
  places_.erase(used_.back().first);
  used_.pop_back();
}

void OpenBlocks::remove(const CacheKey& key, std::uint64_t number) {
  CacheBlockPtr closed;
  const std::lock_guard lock(mutex_);
  const auto found = places_.find({key.digest, number});
  if (found == places_.end()) return;
  closed = std::move(found->second->second);
  used_.erase(found->second);
  places_.erase(found);
}

}  // namespace torch_distinput
