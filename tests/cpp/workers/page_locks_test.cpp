// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/page_locks.h"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

#include "workers/consumer_end.h"
#include "workers/processes.h"
#include "workers/worker_end.h"

namespace torch_distinput {
namespace {

/// What a locker was asked for.
struct Record {
  std::map<char*, std::uint64_t> locked;
  int locks = 0;
  bool refuses = false;
};

/// Locks in a record only. As CUDA's run time, refuses memory of which some is locked.
class RecordingLocker final : public PageLocker {
 public:
  explicit RecordingLocker(std::shared_ptr<Record> record) : record_(std::move(record)) {}

  bool lock(char* data, std::uint64_t bytes) noexcept override {
    if (record_->refuses) return false;
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % page, 0U);
    EXPECT_EQ(bytes % page, 0U);
    for (const auto& [other, size] : record_->locked) {
      EXPECT_TRUE(data + bytes <= other || other + size <= data);
    }
    record_->locked[data] = bytes;
    ++record_->locks;
    return true;
  }
  void unlock(char* data) noexcept override { EXPECT_EQ(record_->locked.erase(data), 1U); }

 private:
  std::shared_ptr<Record> record_;
};

class PageLocksTest : public testing::Test {
 protected:
  void SetUp() override {
    memory_ = std::make_shared<WorkerMemory>(1);
    consumer_ = std::make_unique<ConsumerEnd>(memory_, std::make_unique<RecordingLocker>(record_));
    worker_ = std::make_unique<WorkerEnd>(memory_, 0);
  }
  /// A slab of the worker, which is covered and held.
  std::pair<std::uint64_t, std::shared_ptr<char>> receive(std::uint64_t bytes) {
    const std::uint64_t slab = worker_->allocate(bytes);
    std::shared_ptr<char> held = SlabsInUse::hold(consumer_->slabs(), 0, slab);
    EXPECT_EQ(consumer_->slabs()->cover(slab, bytes), !record_->refuses);
    return {slab, std::move(held)};
  }

  std::shared_ptr<Record> record_ = std::make_shared<Record>();
  std::shared_ptr<WorkerMemory> memory_;
  std::unique_ptr<ConsumerEnd> consumer_;
  std::unique_ptr<WorkerEnd> worker_;
};

TEST_F(PageLocksTest, ASlabIsLockedOnceForBatchesOfOneSize) {
  for (int i = 0; i < 100; ++i) receive(100'000);
  EXPECT_EQ(record_->locks, 1);
  EXPECT_GE(record_->locked.begin()->second, 100'000U);
  EXPECT_LT(record_->locked.begin()->second, std::uint64_t{1} << 17);
}

TEST_F(PageLocksTest, ASlabThatIsUsedFurtherIsLockedAnew) {
  const std::uint64_t slab = receive(70'000).first;
  EXPECT_EQ(receive(71'000).first, slab);
  EXPECT_EQ(record_->locks, 1);
  EXPECT_EQ(receive(125'000).first, slab);
  EXPECT_EQ(record_->locks, 2);
  EXPECT_GE(record_->locked.begin()->second, 125'000U);
}

TEST_F(PageLocksTest, PagesThatTheWorkerGaveBackAreNotLocked) {
  const std::uint64_t small = receive(50'000).first;
  const auto large = receive(500'000);  // the worker gives the pages of `small` back
  EXPECT_EQ(record_->locks, 2);
  EXPECT_EQ(record_->locked.size(), 1U) << "the old pages must not be held";
  EXPECT_EQ(receive(50'000).first, small);
  EXPECT_EQ(record_->locks, 3);
  EXPECT_EQ(record_->locked.size(), 2U);
}

TEST_F(PageLocksTest, PagesThatTheWorkerGaveBackForNothingAreNotLockedEither) {
  const std::uint64_t small = receive(50'000).first;
  EXPECT_EQ(worker_->allocate(memory_->slabs_end(0) - memory_->slabs_begin(0) - 100'000), 0U);
  EXPECT_EQ(receive(50'000).first, small);
  EXPECT_EQ(record_->locks, 2);
  EXPECT_EQ(record_->locked.size(), 1U);
}

TEST_F(PageLocksTest, AfterARefusalNothingMoreIsLocked) {
  receive(5000);
  record_->refuses = true;
  receive(500'000);
  record_->refuses = false;
  const std::uint64_t slab = worker_->allocate(100'000);
  const std::shared_ptr<char> held = SlabsInUse::hold(consumer_->slabs(), 0, slab);
  EXPECT_FALSE(consumer_->slabs()->cover(slab, 100'000));
  EXPECT_EQ(record_->locks, 1);
}

TEST_F(PageLocksTest, TheEndUnlocksWhatIsNotInUse) {
  auto kept = receive(100'000).second;
  receive(100'000);
  EXPECT_EQ(record_->locked.size(), 2U);
  consumer_->slabs()->end();
  EXPECT_EQ(record_->locked.size(), 1U);
  kept.reset();
  EXPECT_TRUE(record_->locked.empty());
}

TEST_F(PageLocksTest, NothingStaysLockedWhenTheMemoryIsGone) {
  receive(100'000);
  worker_.reset();
  consumer_.reset();
  EXPECT_TRUE(record_->locked.empty());
}

TEST_F(PageLocksTest, AForkedChildUnlocksNothing) {
  auto held = receive(100'000).second;
  ChildProcess child([&] {
    held.reset();
    consumer_->slabs()->end();
    consumer_.reset();
    ::_exit(record_->locked.size() == 1 ? 0 : 1);
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace torch_distinput
