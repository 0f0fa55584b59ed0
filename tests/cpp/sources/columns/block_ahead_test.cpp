// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/block_ahead.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/forked_child.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using Blocks = std::vector<std::size_t>;
constexpr std::int64_t kMebi = 1 << 20;

Blocks first_blocks(std::size_t count) {
  Blocks blocks(count);
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

/// A store with blocks of one size, and what it was asked for.
class Store {
 public:
  explicit Store(std::int64_t bytes) : bytes_(bytes) {}

  std::vector<std::int64_t> ask(std::span<const std::size_t> blocks, std::int64_t room) {
    const auto fits = static_cast<std::size_t>(std::max<std::int64_t>(1, room / bytes_));
    const std::size_t count = std::min(blocks.size(), fits);
    const std::lock_guard lock(mutex_);
    ++calls;
    asked.insert(asked.end(), blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(count));
    return std::vector<std::int64_t>(count, bytes_);
  }
  BlockAhead::Ask asks() {
    return [this](std::span<const std::size_t> blocks, std::int64_t room) { return ask(blocks, room); };
  }

  Blocks asked;
  int calls = 0;

 private:
  std::int64_t bytes_;
  std::mutex mutex_;
};

void read(BlockAhead& ahead, std::size_t block) {
  ahead.read(block, [] { return 0; });
}

void announce(BlockAhead& ahead, const Blocks& blocks) {
  ahead.announce(blocks, [](std::size_t) { return false; });
}

TEST(BlockAhead, AsksForAsManyAsFitAndForMoreWhenHalfWasRead) {
  Store store(4 * kMebi);
  BlockAhead ahead(store.asks());
  announce(ahead, first_blocks(100));
  EXPECT_EQ(store.asked, first_blocks(16));
  for (std::size_t block = 0; block < 7; ++block) read(ahead, block);
  EXPECT_EQ(store.asked, first_blocks(16));
  read(ahead, 7);
  EXPECT_EQ(store.asked, first_blocks(24));
  EXPECT_EQ(store.calls, 2);
  for (std::size_t block = 8; block < 100; ++block) read(ahead, block);
  EXPECT_EQ(store.asked, first_blocks(100));
}

TEST(BlockAhead, HasTwoBlocksAheadHoweverLargeTheyAre) {
  Store store(1000 * kMebi);
  BlockAhead ahead(store.asks());
  announce(ahead, first_blocks(10));
  EXPECT_EQ(store.asked, first_blocks(2));
  read(ahead, 0);
  EXPECT_EQ(store.asked, first_blocks(3));
}

TEST(BlockAhead, AsksOnceForWhatIsAnnouncedAgain) {
  Store store(kMebi);
  BlockAhead ahead(store.asks());
  announce(ahead, first_blocks(4));
  announce(ahead, Blocks{2, 3, 4});
  EXPECT_EQ(store.asked, first_blocks(5));
  read(ahead, 2);
  announce(ahead, Blocks{2});
  EXPECT_EQ(store.asked, (Blocks{0, 1, 2, 3, 4, 2}));
}

TEST(BlockAhead, DoesNotAskForWhatIsReadWithoutIt) {
  Store store(64 * kMebi);
  BlockAhead ahead(store.asks());
  announce(ahead, first_blocks(6));
  EXPECT_EQ(store.asked, first_blocks(2));
  ahead.read(2, [&] {
    read(ahead, 0);
    return 0;
  });
  read(ahead, 1);
  EXPECT_EQ(store.asked, (Blocks{0, 1, 3, 4}));
}

TEST(BlockAhead, DropsWhatCannotBeAskedFor) {
  bool fails = true;
  Store store(kMebi);
  BlockAhead ahead([&](std::span<const std::size_t> blocks, std::int64_t room) {
    if (fails) throw std::runtime_error("refused");
    return store.ask(blocks, room);
  });
  announce(ahead, first_blocks(3));
  EXPECT_EQ(ahead.read(0, [] { return 7; }), 7);
  fails = false;
  announce(ahead, Blocks{5, 1});
  EXPECT_EQ(store.asked, (Blocks{5, 1}));
}

TEST(BlockAhead, AFailureToAskIsNoneOfARead) {
  int calls = 0;
  BlockAhead ahead([&](std::span<const std::size_t>, std::int64_t) {
    if (++calls == 3) throw std::runtime_error("refused");
    return std::vector<std::int64_t>{64 * kMebi};
  });
  announce(ahead, first_blocks(5));
  EXPECT_EQ(ahead.read(0, [] { return 7; }), 7);
  EXPECT_EQ(calls, 3);
}

TEST(BlockAhead, EndsTheBlockOfAReadThatFails) {
  Store store(64 * kMebi);
  BlockAhead ahead(store.asks());
  announce(ahead, first_blocks(3));
  EXPECT_THROW(ahead.read(0, []() -> int { throw std::runtime_error("damaged"); }), std::runtime_error);
  announce(ahead, Blocks{});
  EXPECT_EQ(store.asked, first_blocks(3));
}

TEST(BlockAhead, AnInterruptOfAskingEndsTheCallAndLosesNothing) {
  struct Interrupt {};
  bool interrupts = false;
  Store store(64 * kMebi);
  BlockAhead ahead([&](std::span<const std::size_t> blocks, std::int64_t room) {
    if (interrupts) throw Interrupt();
    return store.ask(blocks, room);
  });
  announce(ahead, first_blocks(4));
  interrupts = true;
  EXPECT_THROW(read(ahead, 0), Interrupt);
  interrupts = false;
  read(ahead, 1);
  EXPECT_EQ(ahead.read(2, [] { return 7; }), 7);
}

TEST(BlockAhead, ThreadsAskForEachBlockOnce) {
  Store store(kMebi);
  BlockAhead ahead(store.asks());
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t block = thread; block < 400; block += 4) {
        announce(ahead, Blocks{block});
        read(ahead, block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<std::size_t, int> counts;
  for (const std::size_t block : store.asked) ++counts[block];
  EXPECT_TRUE(std::all_of(counts.begin(), counts.end(), [](const auto& count) { return count.second == 1; }));
}

TEST(BlockAhead, DoesNotAskForWhatIsKeptOrBeingRead) {
  Store store(kMebi);
  BlockAhead ahead(store.asks());
  ahead.announce(first_blocks(4), [](std::size_t block) { return block == 2; });
  EXPECT_EQ(store.asked, (Blocks{0, 1, 3}));
  ahead.read(5, [&] {
    announce(ahead, Blocks{5, 6});
    return 0;
  });
  EXPECT_EQ(store.asked, (Blocks{0, 1, 3, 6}));
}

TEST(BlockAhead, AReaderWaitsForTheThreadThatAsksForItsBlock) {
  Store store(kMebi);
  std::promise<void> asks;
  std::promise<void> may_ask;
  BlockAhead ahead([&](std::span<const std::size_t> blocks, std::int64_t room) {
    asks.set_value();
    may_ask.get_future().wait();
    return store.ask(blocks, room);
  });
  std::thread asker([&] { announce(ahead, first_blocks(3)); });
  asks.get_future().wait();
  std::promise<void> polled;
  std::thread reader([&] {
    const InterruptScope polls([&, first = true]() mutable {
      if (std::exchange(first, false)) polled.set_value();
    });
    EXPECT_EQ(ahead.read(1, [&] { return store.asked.size(); }), 3);
  });
  polled.get_future().wait();
  may_ask.set_value();
  asker.join();
  reader.join();
}

TEST(BlockAhead, AForkedChildBeginsAnew) {
  Store store(64 * kMebi);
  BlockAhead ahead(store.asks());
  announce(ahead, first_blocks(4));
  EXPECT_TRUE(true_in_forked_child([&] {
    store.asked.clear();
    announce(ahead, Blocks{3, 0});
    return store.asked == Blocks{3, 0};
  }));
}

}  // namespace
}  // namespace torch_distinput
