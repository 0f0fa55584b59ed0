// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/fork_guard.h"
#include "sources/columns/block_rows.h"

namespace torch_distinput {

/// Keeps the blocks used last, up to a number of bytes. A block that several threads want is read by one of
/// them, without a lock held. A forked child begins with no blocks. Safe from any thread.
class BlockCache {
 public:
  using Key = std::pair<std::string, std::int64_t>;  ///< file, and block in it

  explicit BlockCache(std::int64_t max_bytes) : max_bytes_(max_bytes), state_(new State) {}
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// The block of `key`, which `read` makes where it is not there, and never null. Throws what `read` throws,
  /// in the threads that wait for it, too; an interrupt only in the thread that it struck. A later call then
  /// tries again.
  BlockPtr get(const Key& key, const std::function<BlockPtr()>& read);
  /// Whether the block of `key` is kept, or being read.
  bool has(const Key& key);

 private:
  struct Entry {
    std::shared_future<BlockPtr> block;
    std::int64_t bytes = 0;  ///< 0 until the block has been read
    std::list<Key>::iterator use;
  };
  /// What the threads of one process share.
  struct State {
    ForkGuard fork_guard;
    std::mutex mutex;
    std::map<Key, Entry> entries;
    std::list<Key> uses;  ///< the latest first
    std::int64_t bytes = 0;
  };

  /// The state of this process. That of a parent is left alone: its lock may stay locked, and what its
  /// threads were reading will never be there.
  State& state();
  /// As `get`, but null where another thread was reading the block and was interrupted.
  BlockPtr look_up(const Key& key, const std::function<BlockPtr()>& read);
  /// Drops the entry of a block that could not be read.
  static void forget(State& state, const Key& key);
  /// Counts the bytes of a block that has been read, and returns those to drop, the oldest first.
  std::vector<std::shared_future<BlockPtr>> trim(State& state, const Key& key, std::int64_t bytes) const;

  std::int64_t max_bytes_;
  std::atomic<State*> state_;
};

}  // namespace torch_distinput
