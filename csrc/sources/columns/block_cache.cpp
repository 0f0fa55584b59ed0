// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/block_cache.h"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "core/interrupt_watch.h"
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

BlockCache::~BlockCache() {
  State* const state = state_.load();
  if (!state->fork_guard.inherited()) delete state;
}

BlockPtr BlockCache::get(const Key& key, const std::function<BlockPtr()>& read) {
  BlockPtr block;
  // Null where the thread that was reading it was interrupted: that concerns only its own reader.
  while (block == nullptr) block = look_up(key, read);
  return block;
}

bool BlockCache::has(const Key& key) {
  State& here = state();
  const std::lock_guard lock(here.mutex);
  return here.entries.contains(key);
}

BlockPtr BlockCache::look_up(const Key& key, const std::function<BlockPtr()>& read) {
  State& here = state();
  std::promise<BlockPtr> promise;
  std::shared_future<BlockPtr> known;
  {
    const std::lock_guard lock(here.mutex);
    const auto found = here.entries.find(key);
    if (found != here.entries.end()) {
      known = found->second.block;
      here.uses.splice(here.uses.begin(), here.uses, found->second.use);
    } else {
      here.uses.push_front(key);
      here.entries.emplace(key, Entry{promise.get_future().share(), 0, here.uses.begin()});
    }
  }
  if (known.valid()) return wait_for(known);
  const InterruptWatch watch;
  try {
    BlockPtr block = read();
    promise.set_value(block);
    // Released without the lock: the owner of a block's memory may run any code.
    const auto dropped = trim(here, key, block->value.bytes());
    return block;
  } catch (...) {
    forget(here, key);
    if (watch.interrupt()) {
      promise.set_value(nullptr);
    } else {
      promise.set_exception(std::current_exception());
    }
    throw;
  }
}

void BlockCache::forget(State& state, const Key& key) {
  const std::lock_guard lock(state.mutex);
  const auto failed = state.entries.find(key);
  if (failed == state.entries.end() || failed->second.bytes > 0) return;
  state.uses.erase(failed->second.use);
  state.entries.erase(failed);
}

BlockCache::State& BlockCache::state() {
  State* found = state_.load();
  if (!found->fork_guard.inherited()) return *found;
  auto own = std::make_unique<State>();
  if (state_.compare_exchange_strong(found, own.get())) return *own.release();
  return *found;  // another thread of this process was faster
}

std::vector<std::shared_future<BlockPtr>> BlockCache::trim(State& state, const Key& key,
                                                           std::int64_t bytes) const {
  const std::lock_guard lock(state.mutex);
  std::vector<std::shared_future<BlockPtr>> dropped;
  const auto own = state.entries.find(key);
  if (own == state.entries.end()) return dropped;
  own->second.bytes = bytes + 1;
  state.bytes += own->second.bytes;
  for (auto oldest = state.uses.end(); state.bytes > max_bytes_ && oldest != state.uses.begin();) {
    --oldest;
    const auto entry = state.entries.find(*oldest);
    const bool is_read = entry->second.bytes > 0;
    if (!is_read || *oldest == key) continue;
    state.bytes -= entry->second.bytes;
    dropped.push_back(std::move(entry->second.block));
    state.entries.erase(entry);
    oldest = state.uses.erase(oldest);
  }
  return dropped;
}

}  // namespace torch_distinput
