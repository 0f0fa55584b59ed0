// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/block_cache.h"

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "runtime/forked_child.h"
#include "support/interrupts.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kBlockBytes = 80;

/// Makes blocks of `kBlockBytes` bytes and counts them.
class Reads {
 public:
  BlockPtr operator()() {
    ++count_;
    return std::make_shared<const RowBlock>(RowBlock{Element(at::zeros({10}, at::kLong)), 10});
  }
  int count() const { return count_; }

 private:
  std::atomic<int> count_ = 0;
};

TEST(BlockCache, KeepsTheBlocksUsedLast) {
  Reads reads;
  BlockCache cache(3 * (kBlockBytes + 1));
  const auto get = [&](std::int64_t block) { return cache.get({0, block}, std::ref(reads)); };
  for (const std::int64_t block : {0, 1, 2, 0, 1, 2}) get(block);
  EXPECT_EQ(reads.count(), 3);
  get(0);
  get(3);  // in the place of block 1
  get(0);
  get(2);
  EXPECT_EQ(reads.count(), 4);
  get(1);
  EXPECT_EQ(reads.count(), 5);
}

TEST(BlockCache, ReadsABlockThatIsLargerThanTheLimit) {
  Reads reads;
  BlockCache cache(kBlockBytes / 2);
  EXPECT_EQ(cache.get({0, 0}, std::ref(reads))->rows, 10);
  cache.get({0, 0}, std::ref(reads));
  EXPECT_EQ(reads.count(), 1);
  cache.get({0, 1}, std::ref(reads));
  cache.get({0, 0}, std::ref(reads));
  EXPECT_EQ(reads.count(), 3);
}

TEST(BlockCache, AllCachesOfAProcessKeepTheBlocksUsedLast) {
  constexpr std::int64_t kAll = 4 * (kBlockBytes + 1);
  Reads reads;
  BlockCache first(1 << 20, kAll);
  BlockCache other(1 << 20, kAll);
  const auto get = [&](BlockCache& cache, std::int64_t block) { cache.get({0, block}, std::ref(reads)); };
  for (const std::int64_t block : {0, 1}) get(first, block);
  for (const std::int64_t block : {0, 1}) get(other, block);
  get(first, 0);
  get(other, 2);  // in the place of block 1 of the first cache
  EXPECT_EQ(reads.count(), 5);
  for (const std::int64_t block : {0, 1, 2}) get(other, block);
  get(first, 0);
  EXPECT_EQ(reads.count(), 5);
  get(first, 1);
  EXPECT_EQ(reads.count(), 6);
}

TEST(BlockCache, BlocksThatMustBeKeptStayWhateverOthersRead) {
  Reads reads;
  BlockCache first(1 << 20, kBlockBytes);
  first.keep(2);
  BlockCache other(1 << 20, kBlockBytes);
  for (const std::int64_t block : {0, 1}) first.get({0, block}, std::ref(reads));
  for (const std::int64_t block : {0, 1, 0}) other.get({0, block}, std::ref(reads));
  EXPECT_EQ(reads.count(), 5);
  for (const std::int64_t block : {0, 1}) first.get({0, block}, std::ref(reads));
  EXPECT_EQ(reads.count(), 5);
}

TEST(BlockCache, ACacheThatIsGoneLeavesItsRoomToOthers) {
  constexpr std::int64_t kAll = 2 * (kBlockBytes + 1);
  Reads reads;
  {
    BlockCache gone(1 << 20, kAll);
    for (const std::int64_t block : {0, 1}) gone.get({0, block}, std::ref(reads));
  }
  BlockCache cache(1 << 20, kAll);
  for (const std::int64_t block : {0, 1, 0, 1}) cache.get({0, block}, std::ref(reads));
  EXPECT_EQ(reads.count(), 4);
}

TEST(BlockCache, CachesOfSeveralThreadsKeepNoMoreThanTheyMay) {
  std::vector<std::future<void>> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.push_back(std::async(std::launch::async, [] {
      Reads reads;
      for (int round = 0; round < 20; ++round) {
        BlockCache cache(10 * kBlockBytes, 3 * kBlockBytes);
        for (std::int64_t block = 0; block < 50; ++block)
          EXPECT_EQ(cache.get({0, block % 7}, std::ref(reads))->rows, 10);
      }
    }));
  }
  for (auto& thread : threads) thread.get();
}

TEST(BlockCache, OneOfSeveralThreadsReads) {
  Reads reads;
  BlockCache cache(1 << 20);
  std::promise<void> go;
  const std::shared_future<void> gate = go.get_future().share();
  const auto slow = [&] {
    gate.wait();
    return reads();
  };
  std::vector<std::future<BlockPtr>> found;
  for (int i = 0; i < 4; ++i)
    found.push_back(std::async(std::launch::async, [&] { return cache.get({0, 7}, slow); }));
  go.set_value();
  const BlockPtr first = found[0].get();
  for (int i = 1; i < 4; ++i) EXPECT_EQ(found[static_cast<std::size_t>(i)].get(), first);
  EXPECT_EQ(reads.count(), 1);
}

TEST(BlockCache, ABlockThatFailedIsReadAgain) {
  Reads reads;
  BlockCache cache(1 << 20);
  const auto fail = []() -> BlockPtr { throw std::runtime_error("no disk"); };
  EXPECT_THROW(cache.get({0, 0}, fail), std::runtime_error);
  EXPECT_EQ(cache.get({0, 0}, std::ref(reads))->rows, 10);
}

TEST(BlockCache, AnInterruptStrikesOnlyTheThreadThatReads) {
  Reads reads;
  BlockCache cache(1 << 20);
  std::promise<void> begun;
  std::promise<void> waits;
  auto interrupted = std::async(std::launch::async, [&] {
    const InterruptScope consumer([] {});
    EXPECT_THROW(cache.get({0, 0},
                           [&]() -> BlockPtr {
                             begun.set_value();
                             waits.get_future().wait();
                             fakes::interrupt_call();
                           }),
                 fakes::Interrupted);
  });
  begun.get_future().wait();
  {
    const InterruptScope consumer([&, waiting = false]() mutable {
      if (!std::exchange(waiting, true)) waits.set_value();
    });
    EXPECT_EQ(cache.get({0, 0}, std::ref(reads))->rows, 10);
  }
  interrupted.get();
  EXPECT_EQ(reads.count(), 1);
}

TEST(BlockCache, AForkedChildDoesNotWaitForItsParentsThreads) {
  BlockCache cache(1 << 20);
  std::promise<void> begun;
  std::promise<void> end;
  std::thread reader([&] {
    cache.get({0, 0}, [&] {
      begun.set_value();
      end.get_future().wait();
      return Reads()();
    });
  });
  begun.get_future().wait();
  EXPECT_TRUE(true_in_forked_child([&] {
    Reads reads;
    return cache.get({0, 0}, std::ref(reads))->rows == 10;
  }));
  end.set_value();
  reader.join();
}

}  // namespace
}  // namespace torch_distinput
