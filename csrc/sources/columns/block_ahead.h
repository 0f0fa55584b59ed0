// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/of_process.h"
#include "remote/ahead_claim.h"

namespace torch_distinput {

/// Has blocks asked for over a network before they are read, in the order in which they were announced: so
/// many that about `kBytes` are on their way or wait to be read, however many are announced. What was asked
/// for and not read goes with it. Safe from any thread; a forked child begins with nothing announced.
class BlockAhead {
 public:
  static constexpr std::int64_t kBytes = std::int64_t{64} << 20;
  /// One is read while the next one comes, however large they are.
  static constexpr std::size_t kLeastBlocks = 2;

  /// Asks for the first of `blocks`, as many as have at most `bytes` bytes, but one at least, and returns the
  /// bytes of each. Does not wait.
  using Ask =
      std::function<std::vector<std::int64_t>(std::span<const std::size_t> blocks, std::int64_t bytes)>;

  explicit BlockAhead(Ask ask) : ask_(std::move(ask)) {}

  /// Whether a block needs no read; called with a lock held.
  using IsKept = std::function<bool(std::size_t block)>;

  /// These blocks, but for those that are being read or kept, will be read, in this order. Drops a
  /// std::exception of `ask`, because the reads of these blocks tell what is wrong; others, which interrupt,
  /// are thrown here and by `read`.
  void announce(std::span<const std::size_t> blocks, const IsKept& is_kept);
  /// Returns what `read` returns, which reads the block `block`. Waits while another thread is asking for it.
  template <class Read>
  auto read(std::size_t block, Read read) {
    auto result = [&] {
      const Reading reading(*this, block);
      return read();
    }();
    ask_for_more();
    return result;
  }

 private:
  enum class Phase { kWaiting, kAsking, kAsked };
  /// What is known of an announced block that was not read yet.
  struct Announced {
    Phase phase = Phase::kWaiting;
    std::int64_t bytes = 0;  ///< where it is asked for
  };
  struct State {
    std::mutex mutex;
    std::condition_variable noted;
    std::unordered_map<std::size_t, Announced> announced;
    std::unordered_map<std::size_t, int> readers;  ///< of the blocks that are being read
    std::deque<std::size_t> waiting;  ///< to be asked for; those that are announced no longer were read
    std::int64_t bytes = 0;           ///< of blocks that were asked for and not read yet
    std::size_t asked = 0;            ///< their number
    bool is_asking = false;           ///< a thread is asking; it goes on as long as there is room
  };
  class Reading {
   public:
    Reading(BlockAhead& ahead, std::size_t block) : ahead_(ahead), block_(block) { ahead_.begin(block_); }
    ~Reading() { ahead_.end(block_); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    BlockAhead& ahead_;
    std::size_t block_;
  };

  void begin(std::size_t block);
  void end(std::size_t block) noexcept;
  void ask_for_more();
  static std::vector<std::size_t> next_of(State& state);
  static void note(State& state, std::span<const std::size_t> blocks, std::span<const std::int64_t> sizes);

  Ask ask_;
  AheadClaim claim_;
  OfProcess<State> state_;
};

}  // namespace torch_distinput
