// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/block_cache.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/hash.h"
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

std::size_t BlockCache::KeyHash::operator()(const Key& key) const noexcept {
  Hash hash;
  hash.add_word(static_cast<std::uint64_t>(key.file));
  hash.add_word(static_cast<std::uint64_t>(key.block));
  return hash.value();
}

BlockCache::BlockCache(std::int64_t max_bytes, std::int64_t max_bytes_of_all)
    : max_bytes_(max_bytes), max_bytes_of_all_(max_bytes_of_all), state_(new_state().release()) {}

BlockCache::~BlockCache() {
  State* const state = state_.load();
  if (state->fork_guard.inherited()) return;
  {
    All& caches = all();
    const std::lock_guard lock(caches.mutex);
    caches.states.erase(state);
    caches.bytes -= state->bytes;
  }
  delete state;
}

BlockCache::All& BlockCache::all() {
  // Never destroyed: datasets may live longer than the statics of this library.
  static auto& caches = *new OfProcess<All>;
  return caches.get();
}

std::unique_ptr<BlockCache::State> BlockCache::new_state() const {
  auto state = std::make_unique<State>(kept_);
  All& caches = all();
  const std::lock_guard lock(caches.mutex);
  caches.states.insert(state.get());
  return state;
}

BlockPtr BlockCache::get(const Key& key, const std::function<BlockPtr()>& read) {
  BlockPtr block;
  // Null where the thread that was reading it was interrupted: that concerns only its own reader.
  while (block == nullptr) block = look_up(key, read);
  return block;
}

void BlockCache::keep(std::int64_t blocks) {
  std::int64_t kept = kept_.load();
  while (kept < blocks && !kept_.compare_exchange_weak(kept, blocks)) {
  }
}

BlockPtr BlockCache::kept(const Key& key) {
  State& here = state();
  const std::uint64_t time = ++all().time;
  const std::lock_guard lock(here.mutex);
  const auto found = here.entries.find(key);
  if (found == here.entries.end()) return nullptr;
  found->second.time = time;
  return found->second.block;
}

bool BlockCache::has(const Key& key) {
  State& here = state();
  const std::lock_guard lock(here.mutex);
  return here.entries.contains(key);
}

BlockPtr BlockCache::look_up(const Key& key, const std::function<BlockPtr()>& read) {
  State& here = state();
  const std::uint64_t time = ++all().time;
  std::optional<std::promise<BlockPtr>> promise;
  std::shared_future<BlockPtr> coming;
  {
    const std::lock_guard lock(here.mutex);
    const auto found = here.entries.find(key);
    if (found != here.entries.end()) {
      Entry& entry = found->second;
      entry.time = time;
      if (entry.block != nullptr) return entry.block;
      coming = entry.coming;
    } else {
      promise.emplace();
      here.entries.emplace(key, Entry{promise->get_future().share(), nullptr, 0, time});
    }
  }
  if (!promise) return wait_for(coming);
  const InterruptWatch watch;
  try {
    BlockPtr block = read();
    promise->set_value(block);
    // Released without the lock: the owner of a block's memory may run any code.
    Dropped dropped = trim(here, key, block);
    trim_all(here, key, dropped);
    return block;
  } catch (...) {
    forget(here, key);
    if (watch.interrupt()) {
      promise->set_value(nullptr);
    } else {
      promise->set_exception(std::current_exception());
    }
    throw;
  }
}

void BlockCache::forget(State& state, const Key& key) {
  const std::lock_guard lock(state.mutex);
  const auto failed = state.entries.find(key);
  if (failed != state.entries.end() && failed->second.block == nullptr) state.entries.erase(failed);
}

BlockCache::State& BlockCache::state() {
  State* found = state_.load();
  if (!found->fork_guard.inherited()) return *found;
  auto own = new_state();
  if (state_.compare_exchange_strong(found, own.get())) return *own.release();
  // Another thread of this process was faster.
  All& caches = all();
  const std::lock_guard lock(caches.mutex);
  caches.states.erase(own.get());
  return *found;
}

BlockCache::Dropped BlockCache::trim(State& state, const Key& key, const BlockPtr& block) const {
  const std::lock_guard lock(state.mutex);
  Dropped dropped;
  const auto own = state.entries.find(key);
  if (own == state.entries.end()) return dropped;
  own->second.block = block;
  own->second.bytes = block->value.bytes() + 1;
  state.bytes += own->second.bytes;
  all().bytes += own->second.bytes;
  while (state.bytes > max_bytes_) {
    const auto oldest = oldest_of(state, &key);
    if (oldest == state.entries.end()) break;
    drop(state, oldest, dropped);
  }
  return dropped;
}

void BlockCache::trim_all(const State& state, const Key& key, Dropped& dropped) const {
  All& caches = all();
  while (caches.bytes > max_bytes_of_all_) {
    const std::lock_guard lock(caches.mutex);
    State* oldest = nullptr;
    std::uint64_t time = 0;
    const auto but = [&](const State* one) { return one == &state ? &key : nullptr; };
    for (State* const one : caches.states) {
      const std::lock_guard here(one->mutex);
      const auto entry = oldest_of(*one, but(one));
      if (entry == one->entries.end() || (oldest != nullptr && entry->second.time > time)) continue;
      oldest = one;
      time = entry->second.time;
    }
    if (oldest == nullptr) return;
    const std::lock_guard here(oldest->mutex);
    // It may have been used, or dropped, since.
    const auto entry = oldest_of(*oldest, but(oldest));
    if (entry != oldest->entries.end()) drop(*oldest, entry, dropped);
  }
}

BlockCache::Entries::iterator BlockCache::oldest_of(State& state, const Key* but) {
  auto oldest = state.entries.end();
  if (std::ssize(state.entries) <= state.kept.load()) return oldest;
  for (auto entry = state.entries.begin(); entry != state.entries.end(); ++entry) {
    const bool may_go = entry->second.block != nullptr && (but == nullptr || entry->first != *but);
    if (may_go && (oldest == state.entries.end() || entry->second.time < oldest->second.time)) oldest = entry;
  }
  return oldest;
}

void BlockCache::drop(State& state, Entries::iterator entry, Dropped& dropped) {
  state.bytes -= entry->second.bytes;
  all().bytes -= entry->second.bytes;
  dropped.push_back(std::move(entry->second.block));
  state.entries.erase(entry);
}

}  // namespace torch_distinput
