// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/block_cache.h"

#include <chrono>
#include <utility>
#include <vector>

#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

constexpr std::chrono::milliseconds kInterruptInterval{50};

BlockPtr wait_for(const std::shared_future<BlockPtr>& block) {
  while (block.wait_for(kInterruptInterval) != std::future_status::ready) {
    if (const auto& check = interrupt_check()) check();
  }
  return block.get();
}

}  // namespace

BlockPtr BlockCache::get(const Key& key, const std::function<BlockPtr()>& read) {
  std::promise<BlockPtr> promise;
  std::shared_future<BlockPtr> known;
  {
    const std::lock_guard lock(mutex_);
    begin_process();
    const auto found = entries_.find(key);
    if (found != entries_.end()) {
      known = found->second.block;
      uses_.splice(uses_.begin(), uses_, found->second.use);
    } else {
      uses_.push_front(key);
      entries_.emplace(key, Entry{promise.get_future().share(), 0, uses_.begin()});
    }
  }
  if (known.valid()) return wait_for(known);
  try {
    BlockPtr block = read();
    promise.set_value(block);
    // Released without the lock: the owner of a block's memory may run any code.
    const auto dropped = trim(key, block->value.bytes());
    return block;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    const auto failed = entries_.find(key);
    if (failed != entries_.end() && failed->second.bytes == 0) {
      uses_.erase(failed->second.use);
      entries_.erase(failed);
    }
    throw;
  }
}

void BlockCache::begin_process() {
  if (process_ == ::getpid()) return;
  // What the parent's threads were reading will never be there.
  entries_.clear();
  uses_.clear();
  bytes_ = 0;
  process_ = ::getpid();
}

std::vector<std::shared_future<BlockPtr>> BlockCache::trim(const Key& key, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_future<BlockPtr>> dropped;
  const auto own = entries_.find(key);
  if (own == entries_.end()) return dropped;
  own->second.bytes = bytes + 1;
  bytes_ += own->second.bytes;
  for (auto oldest = uses_.end(); bytes_ > max_bytes_ && oldest != uses_.begin();) {
    --oldest;
    const auto entry = entries_.find(*oldest);
    const bool is_read = entry->second.bytes > 0;
    if (!is_read || *oldest == key) continue;
    bytes_ -= entry->second.bytes;
    dropped.push_back(std::move(entry->second.block));
    entries_.erase(entry);
    oldest = uses_.erase(oldest);
  }
  return dropped;
}

}  // namespace torch_distinput
