// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/host_memory.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include "kernels/dense.h"
#include "runtime/forked_child.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

/// A tensor that records when its memory is freed.
struct Watched {
  std::shared_ptr<std::atomic<bool>> freed = std::make_shared<std::atomic<bool>>(false);
  std::vector<float> memory = std::vector<float>(8, 1);
  at::Tensor tensor =
      at::from_blob(memory.data(), {4, 2}, [freed = freed](void*) { *freed = true; }, at::kFloat);

  c10::StorageImpl& storage() const { return *tensor.storage().unsafeGetStorageImpl(); }
  void move() const { storage().set_data_ptr(c10::GetCPUAllocator()->allocate(storage().nbytes())); }
};

TEST(HostData, FollowsAStorageThatMoves) {
  const at::Tensor rows = at::arange(6, at::kLong).slice(0, 2);
  EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(host_data(rows)), 2);
  at::DataPtr before = rows.storage().unsafeGetStorageImpl()->set_data_ptr(
      c10::GetCPUAllocator()->allocate(rows.storage().nbytes()));
  EXPECT_EQ(host_data(rows), static_cast<const char*>(rows.storage().data()) + 16);
}

TEST(HostData, NamesAStorageThatIsTooSmallNow) {
  const at::Tensor rows = at::zeros({4, 2});
  std::vector<char> copy(rows.nbytes());
  rows.storage().unsafeGetStorageImpl()->set_nbytes(31);
  const std::string text = message_of<c10::Error>([&] { copy_items(rows, copy.data()); });
  EXPECT_TRUE(has(text, "its storage has 31 bytes now, but rows of shape [4, 2] of Float need 32"));
  EXPECT_THROW(ReadGuard{rows}, c10::Error);
  EXPECT_EQ(host_data(at::zeros({0, 3})), nullptr);
}

TEST(ReadGuard, MakesTheThreadThatFreesTheMemoryWait) {
  const Watched rows;
  guard_reads(Element(rows.tensor));
  std::future<void> moving;
  {
    const ReadGuard guard(rows.tensor);
    ASSERT_EQ(guard.data(), reinterpret_cast<const char*>(rows.memory.data()));
    moving = std::async(std::launch::async, [&] { rows.move(); });
    EXPECT_EQ(moving.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    EXPECT_FALSE(*rows.freed);
  }
  EXPECT_EQ(moving.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_TRUE(*rows.freed);
}

TEST(ReadGuard, ReleasesItsPlaceAlsoAfterErrors) {
  const Watched rows;
  guard_reads(Element(rows.tensor));
  guard_reads(Element(rows.tensor));
  for (int turn = 0; turn < 1000; ++turn) {
    ReadGuard guard(rows.tensor);
    const ReadGuard moved(std::move(guard));
  }
  rows.storage().set_nbytes(1);
  for (int turn = 0; turn < 1000; ++turn) EXPECT_THROW(ReadGuard{rows.tensor}, c10::Error);
  rows.move();
  EXPECT_TRUE(*rows.freed);
}

TEST(ReadGuard, OfAParentDoesNotBlockAForkedChild) {
  const Watched rows;
  guard_reads(Element(rows.tensor));
  const ReadGuard guard(rows.tensor);
  EXPECT_TRUE(true_in_forked_child([&] {
    rows.move();
    return rows.freed->load();
  }));
}

}  // namespace
}  // namespace torch_distinput
