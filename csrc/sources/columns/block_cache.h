// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fork_guard.h"
#include "base/of_process.h"
#include "sources/columns/block_run.h"
#include "torch_distinput/columns.h"

namespace torch_distinput {

/// Keeps the blocks used last, up to a number of bytes or, where that is more, a number of blocks; all caches
/// of a process together keep up to another number of bytes, those used last whichever cache they are in. A
/// block that several threads want is read by one of them, without a lock held. A forked child begins with no
/// blocks. Safe from any thread.
class BlockCache {
 public:
  struct Key {
    std::int64_t file;   ///< its number
    std::int64_t block;  ///< in it
    bool operator==(const Key&) const = default;
  };

  explicit BlockCache(std::int64_t max_bytes, std::int64_t max_bytes_of_all = kProcessBlockBytes);
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// The block of `key`, which `read` makes where it is not there, and never null. Throws what `read` throws,
  /// in the threads that wait for it, too; an interrupt only in the thread that it struck. A later call then
  /// tries again.
  BlockPtr get(const Key& key, const std::function<BlockPtr()>& read);
  /// From now on, keeps the last `blocks` blocks, whatever their bytes; never fewer than an earlier call
  /// asked for.
  void keep(std::int64_t blocks);
  /// The block of `key` where it is kept, else null.
  BlockPtr kept(const Key& key);
  /// Whether the block of `key` is kept, or being read.
  bool has(const Key& key);

 private:
  struct Entry {
    std::shared_future<BlockPtr> coming;
    BlockPtr block;          ///< null until it has been read
    std::int64_t bytes = 0;  ///< what it counts for
    std::uint64_t time = 0;  ///< of its last use, counted over all caches
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  using Entries = std::unordered_map<Key, Entry, KeyHash>;
  using Dropped = std::vector<BlockPtr>;
  /// What the threads of one process share.
  struct State {
    explicit State(const std::atomic<std::int64_t>& kept) : kept(kept) {}

    ForkGuard fork_guard;
    const std::atomic<std::int64_t>& kept;  ///< blocks, whatever their bytes
    std::mutex mutex;
    Entries entries;
    std::int64_t bytes = 0;
  };
  /// The caches of a process. Its lock is taken before those of states.
  struct All {
    std::mutex mutex;
    std::set<State*> states;
    std::atomic<std::int64_t> bytes{0};
    std::atomic<std::uint64_t> time{0};
  };

  /// Those of this process.
  static All& all();
  /// A state of this process, known to `all`.
  std::unique_ptr<State> new_state() const;

  /// The state of this process. That of a parent is left alone: its lock may stay locked, and what its
  /// threads were reading will never be there.
  State& state();
  /// As `get`, but null where another thread was reading the block and was interrupted.
  BlockPtr look_up(const Key& key, const std::function<BlockPtr()>& read);
  /// Drops the entry of a block that could not be read.
  static void forget(State& state, const Key& key);
  /// Counts the bytes of a block that has been read, and returns those to drop, the oldest first.
  Dropped trim(State& state, const Key& key, const BlockPtr& block) const;
  /// Moves the oldest blocks of all caches to `dropped` until these keep no more than they may together; not
  /// block `key` of `state`.
  void trim_all(const State& state, const Key& key, Dropped& dropped) const;
  /// The block that was used least recently of those that may go, `but` excepted; the end where none may.
  /// Looks at all: that takes far less time than to read the block for which another one goes, while an order
  /// of uses would cost each use. REQUIRES: the lock of `state` is held, here and in `drop`.
  static Entries::iterator oldest_of(State& state, const Key* but);
  static void drop(State& state, Entries::iterator entry, Dropped& dropped);

  std::int64_t max_bytes_, max_bytes_of_all_;
  std::atomic<std::int64_t> kept_{0};  ///< blocks
  std::atomic<State*> state_;
};

}  // namespace torch_distinput
