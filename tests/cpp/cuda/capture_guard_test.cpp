// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
/// The library's calls of a device while another thread records a graph, on the fake accelerator and with the
/// capture mode of a fake driver (tests/fake_cuda).
#include "device/transfer/capture_guard.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "device/transfer/page_locked.h"
#include "fake_accelerator/fake_accelerator.h"
#include "fake_cuda/fake_driver.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {
namespace {

constexpr int kRelaxed = 2;

class Guarded : public testing::Test {
 protected:
  void SetUp() override {
    fake::install();
    fake::drain();
    fake::reset();
    fake::expect_calls_where([] { return fake_driver::capture_mode() == kRelaxed; });
  }
  void TearDown() override {
    fake::expect_calls_where(nullptr);
    fake::drain();
  }
};

TEST_F(Guarded, ScopesNestAndRestoreTheMode) {
  {
    const CaptureGuard outer;
    {
      const CaptureGuard inner;
      EXPECT_EQ(fake_driver::capture_mode(), kRelaxed);
    }
    EXPECT_EQ(fake_driver::capture_mode(), kRelaxed);
  }
  EXPECT_EQ(fake_driver::capture_mode(), 0);
}

TEST_F(Guarded, PageLockedMemoryIsAllocatedUnderAGuard) {
  for (const auto& pool : {page_locked_pool({c10::kPrivateUse1, 0}), pinned_pool()}) {
    fake::reset();
    pool->acquire(std::size_t{3} << 20);
    EXPECT_GT(fake::counts().host_allocations, 0);
    EXPECT_EQ(fake::counts().unguarded, 0);
  }
}

TEST_F(Guarded, NoCallOfAnEpochDisturbsAGraph) {
  const at::Tensor rows = at::arange(400'000, at::kFloat).view({4000, 100});
  OneDeviceStrategy strategy("fake:1");
  auto iterator = strategy.distribute_dataset(Dataset::from_tensor_slices(Element(rows)).batch(40)).iterate();
  int steps = 0;
  while (iterator.next()) ++steps;
  EXPECT_EQ(steps, 100);
  EXPECT_GT(fake::counts().copies, 0);
  EXPECT_EQ(fake::counts().unguarded, 0);
}

}  // namespace
}  // namespace torch_distinput
