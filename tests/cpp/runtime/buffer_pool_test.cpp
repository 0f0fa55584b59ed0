// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/buffer_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/forked_child.h"

namespace torch_distinput {
namespace {

/// An allocator that counts the memory that was allocated and not returned.
class CountingAllocator final : public BlockAllocator {
 public:
  void* allocate(std::size_t bytes) override {
    if (fail) throw std::bad_alloc();
    held += static_cast<std::int64_t>(bytes);
    ++allocations;
    return std::aligned_alloc(64, bytes);
  }
  void deallocate(void* data, std::size_t bytes) noexcept override {
    held -= static_cast<std::int64_t>(bytes);
    std::free(data);
  }

  std::atomic<std::int64_t> held{0};
  std::atomic<int> allocations{0};
  std::atomic<bool> fail{false};
};

class BufferPoolTest : public testing::Test {
 protected:
  std::shared_ptr<CountingAllocator> allocator_ = std::make_shared<CountingAllocator>();
  std::shared_ptr<BufferPool> pool_ = BufferPool::create(allocator_, 1 << 20);
};

TEST_F(BufferPoolTest, ReturnedBlockIsReusedLastFirst) {
  Block a = pool_->acquire(1000);
  Block b = pool_->acquire(1000);
  void* const a_data = a.data();
  void* const b_data = b.data();
  EXPECT_NE(a_data, b_data);
  a = Block();
  b = Block();
  EXPECT_EQ(pool_->acquire(1000).data(), b_data);
  const Block again = pool_->acquire(1000);
  EXPECT_EQ(again.data(), b_data);
  EXPECT_EQ(pool_->acquire(1000).data(), a_data);
}

TEST_F(BufferPoolTest, SteadyStateAllocatesNothing) {
  std::vector<Block> held;
  for (int step = 0; step < 100; ++step) {
    held.clear();
    for (const std::size_t bytes : {10u, 5000u, 64000u}) held.push_back(pool_->acquire(bytes));
  }
  EXPECT_EQ(allocator_->allocations.load(), 3);
  EXPECT_EQ(pool_->stats().allocations, 3);
  EXPECT_EQ(pool_->stats().reuses, 297);
}

TEST_F(BufferPoolTest, SlightlyDifferentSizesShareBlocks) {
  const void* const data = pool_->acquire(100'000).data();
  const Block other = pool_->acquire(99'000);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(other.size(), 99'000u);
}

TEST_F(BufferPoolTest, CapacityWastesAtMostAQuarter) {
  for (std::size_t bytes = 0; bytes < 70'000; bytes += 61) {
    const Block block = pool_->acquire(bytes);
    ASSERT_EQ(block.size(), bytes);
    ASSERT_GE(block.capacity(), std::max<std::size_t>(bytes, 1));
    ASSERT_LE(block.capacity(), std::max<std::size_t>(256, bytes + bytes / 4 + 1));
    ASSERT_NE(block.data(), nullptr);
    std::memset(block.data(), 1, bytes);
  }
}

TEST_F(BufferPoolTest, StatsFollowTheBlocks) {
  Block block = pool_->acquire(1024);
  PoolStats stats = pool_->stats();
  EXPECT_EQ(stats.outstanding_bytes, 1024);
  EXPECT_EQ(stats.retained_bytes, 0);
  block = Block();
  stats = pool_->stats();
  EXPECT_EQ(stats.outstanding_bytes, 0);
  EXPECT_EQ(stats.retained_bytes, 1024);
}

TEST_F(BufferPoolTest, KeepsNoMoreThanItsLimit) {
  {
    std::vector<Block> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(pool_->acquire(1 << 18));
  }
  EXPECT_EQ(pool_->stats().retained_bytes, 1 << 20);
  EXPECT_EQ(allocator_->held.load(), 1 << 20);
}

TEST_F(BufferPoolTest, SizesNoLongerUsedMakeRoom) {
  {
    std::vector<Block> old_sizes;
    for (int i = 0; i < 4; ++i) old_sizes.push_back(pool_->acquire(1 << 18));
  }
  pool_->acquire(1 << 19);
  EXPECT_EQ(pool_->stats().retained_bytes, 1 << 20);
  pool_->acquire(1 << 19);
  EXPECT_EQ(pool_->stats().reuses, 1);
}

TEST_F(BufferPoolTest, BlockLargerThanTheLimitIsFreedAtOnce) {
  pool_->acquire(1 << 21);
  EXPECT_EQ(allocator_->held.load(), 0);
}

TEST_F(BufferPoolTest, BlocksOutliveThePoolHandle) {
  Block block = pool_->acquire(1000);
  pool_.reset();
  std::memset(block.data(), 1, block.size());
  EXPECT_GT(allocator_->held.load(), 0);
  block = Block();
  EXPECT_EQ(allocator_->held.load(), 0);
}

TEST_F(BufferPoolTest, DroppingThePoolFreesWhatItKept) {
  pool_->acquire(1000);
  EXPECT_GT(allocator_->held.load(), 0);
  pool_.reset();
  EXPECT_EQ(allocator_->held.load(), 0);
}

TEST_F(BufferPoolTest, DetachedBlockIsReclaimedByItsContext) {
  Block block = pool_->acquire(1000);
  const void* const data = block.data();
  void* const context = block.detach();
  block = Block();
  EXPECT_EQ(pool_->stats().retained_bytes, 0);
  Block::reclaim(context);
  EXPECT_EQ(pool_->acquire(1000).data(), data);
}

TEST_F(BufferPoolTest, MovingABlockMovesItsOwnership) {
  Block a = pool_->acquire(1000);
  const void* const data = a.data();
  Block b = std::move(a);
  EXPECT_EQ(b.data(), data);
  Block c = pool_->acquire(2000);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.size(), 1000u);
  EXPECT_EQ(pool_->stats().retained_bytes, 2048);
}

TEST_F(BufferPoolTest, FailedAllocationChangesNothing) {
  allocator_->fail = true;
  EXPECT_THROW(pool_->acquire(1000), std::bad_alloc);
  EXPECT_THROW(pool_->acquire(std::size_t{1} << 63), std::bad_alloc);
  allocator_->fail = false;
  EXPECT_EQ(pool_->stats().allocations, 0);
  EXPECT_EQ(pool_->stats().outstanding_bytes, 0);
}

TEST_F(BufferPoolTest, ThreadsNeverShareABlock) {
  {
    std::vector<std::jthread> threads;
    for (unsigned char mark = 1; mark <= 4; ++mark) {
      threads.emplace_back([this, mark] {
        for (std::size_t i = 0; i < 500; ++i) {
          const Block block = pool_->acquire(300 + i % 3 * 400);
          std::memset(block.data(), mark, block.size());
          const auto* bytes = static_cast<const unsigned char*>(block.data());
          ASSERT_EQ(std::count(bytes, bytes + block.size(), mark), static_cast<std::ptrdiff_t>(block.size()));
        }
      });
    }
  }
  EXPECT_EQ(pool_->stats().outstanding_bytes, 0);
  EXPECT_EQ(pool_->stats().retained_bytes, allocator_->held.load());
}

TEST(PageAllocatorTest, AlignsAndGivesWritableMemory) {
  const auto allocator = page_allocator();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{1} << 20,
                                  std::size_t{2} << 20, (std::size_t{2} << 20) + 1, std::size_t{5} << 19}) {
    void* const data = allocator->allocate(bytes);
    const std::uintptr_t alignment = bytes >= (std::size_t{2} << 20) ? std::size_t{2} << 20 : 64;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % alignment, 0u) << bytes;
    std::memset(data, 1, bytes);
    allocator->deallocate(data, bytes);
  }
}

TEST(PageAllocatorTest, ThrowsWhenThereIsNoMemory) {
  EXPECT_THROW(page_allocator()->allocate(std::size_t{1} << 60), std::bad_alloc);
}

TEST(HostPoolTest, IsOneForTheProcess) {
  EXPECT_EQ(host_pool(), host_pool());
  const Block block = host_pool()->acquire(3 << 20);
  std::memset(block.data(), 1, block.size());
}

TEST(HostPoolTest, WorksInChildrenForkedWhileItIsUsed) {
  std::atomic<bool> stop{false};
  // Sanitizers' own allocators do not survive every fork, so these threads need no new memory after the
  // latch.
  std::latch warm(2);
  std::vector<std::jthread> users;
  for (int t = 0; t < 2; ++t) {
    users.emplace_back([&] {
      host_pool()->acquire(4096);
      warm.count_down();
      while (!stop) host_pool()->acquire(4096);
    });
  }
  warm.wait();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(true_in_forked_child([] { return host_pool()->acquire(4096).data() != nullptr; }));
  }
  stop = true;
}

}  // namespace
}  // namespace torch_distinput
