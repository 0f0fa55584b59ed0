// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/collectives/collectives.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include "device/transfer/on_fake_accelerator.h"
#include "fake_accelerator/fake_accelerator.h"
#include "torch_distinput/reduce.h"

namespace torch_distinput {
namespace {

using Values = std::vector<at::Tensor>;

const c10::Device kFirst(c10::kPrivateUse1, 0);
const c10::Device kSecond(c10::kPrivateUse1, 1);

class Collectives : public OnFakeAccelerator {
 protected:
  /// `on_host` on the devices: the first value on the first one, the others on the second.
  static Values spread(const Values& on_host) {
    Values values;
    for (std::size_t i = 0; i < on_host.size(); ++i)
      values.push_back(on_host[i].to(i == 0 ? kFirst : kSecond));
    fake::reset();
    return values;
  }
};

at::Tensor host(const at::Tensor& value) {
  fake::drain();
  return value.cpu();
}

TEST_F(Collectives, DevicesReduceTheirValuesWithoutACopyOrAWait) {
  fake::set_delay(200);
  for (const at::ScalarType dtype : {at::kByte, at::kInt, at::kLong, at::kFloat, at::kDouble}) {
    const Values on_host{at::randint(50, {5, 3}).to(dtype), at::randint(50, {5, 3}).to(dtype)};
    const Values values = spread(on_host);
    const Values sums = all_reduce(ReduceOp::kSum, values, {kFirst, kSecond});
    const at::Tensor first = reduce(ReduceOp::kSum, values);
    const at::Tensor second = reduce(ReduceOp::kSum, values, {}, kSecond);
    const fake::Counts counts = fake::counts();
    EXPECT_EQ(counts.collectives, 3);
    EXPECT_EQ(counts.copies, 0);
    EXPECT_EQ(counts.host_waits, 0);
    const at::Tensor expected = on_host[0] + on_host[1];
    EXPECT_TRUE(at::equal(host(sums[0]), expected));
    EXPECT_TRUE(at::equal(host(sums[1]), expected));
    EXPECT_TRUE(at::equal(host(first), expected));
    EXPECT_TRUE(at::equal(host(second), expected));
    EXPECT_EQ(sums[0].device(), kFirst);
    EXPECT_EQ(sums[1].device(), kSecond);
    EXPECT_EQ(first.device(), kFirst);
    EXPECT_EQ(second.device(), kSecond);
  }
}

TEST_F(Collectives, MeanDividesTheSum) {
  const Values values = spread({at::arange(4), at::arange(4, 8)});
  for (const at::Tensor& mean : all_reduce(ReduceOp::kMean, values, {kFirst, kSecond}))
    EXPECT_TRUE(at::equal(host(mean), at::arange(4).to(at::kDouble) + 2));
  EXPECT_EQ(fake::counts().collectives, 1);
}

TEST_F(Collectives, DevicesGatherRowsOfDifferentNumbersAlongAnyAxis) {
  for (const std::int64_t axis : {0, 1}) {
    for (const std::int64_t rows : {0, 1, 4}) {
      const Values on_host{at::rand(axis == 0 ? at::IntArrayRef{3, 2} : at::IntArrayRef{2, 3}),
                           at::rand(axis == 0 ? at::IntArrayRef{rows, 2} : at::IntArrayRef{2, rows})};
      const Values values = spread(on_host);
      const at::Tensor all = gather(values, axis, kSecond);
      EXPECT_EQ(fake::counts().collectives, 1);
      EXPECT_EQ(all.device(), kSecond);
      EXPECT_TRUE(at::equal(host(all), at::cat({on_host[0], on_host[1]}, axis)));
    }
  }
}

TEST_F(Collectives, ValuesThatAreNotContiguousAreCombinedToo) {
  const Values on_host{at::rand({4, 6}), at::rand({4, 6})};
  const Values values = spread(on_host);
  const at::Tensor sum = reduce(ReduceOp::kSum, {values[0].t(), values[1].t()});
  EXPECT_EQ(fake::counts().collectives, 1);
  EXPECT_TRUE(at::equal(host(sum), (on_host[0] + on_host[1]).t()));
}

TEST_F(Collectives, RunOnTheCurrentStreams) {
  const c10::impl::VirtualGuardImpl impl(c10::kPrivateUse1);
  const Values on_host{at::full({1 << 10}, 1.0F), at::full({1 << 10}, 2.0F).pin_memory()};
  fake::set_delay(1, 2000);
  const c10::Stream side = impl.getStreamFromGlobalPool(kSecond);
  Values sums;
  {
    const c10::StreamGuard guard(side);
    Values values{on_host[0].to(kFirst), at::Tensor()};
    // This copy is still running on the side stream when the sum is queued after it.
    values[1] = at::empty({1 << 10}, at::TensorOptions(kSecond).dtype(at::kFloat));
    values[1].copy_(on_host[1], /*non_blocking=*/true);
    sums = all_reduce(ReduceOp::kSum, values, {kFirst, kSecond});
    EXPECT_FALSE(impl.queryStream(side));
  }
  EXPECT_TRUE(at::equal(host(sums[0]), at::full({1 << 10}, 3.0F)));
  EXPECT_TRUE(at::equal(host(sums[1]), at::full({1 << 10}, 3.0F)));
}

TEST_F(Collectives, RequireSeveralValuesOnDifferentDevices) {
  const Values on_host{at::rand({3}), at::rand({3})};
  const Values values = spread(on_host);
  EXPECT_TRUE(can_reduce_on_devices(values));
  EXPECT_TRUE(can_gather_on_devices(values));
  for (const Values& others :
       {Values{}, on_host, Values{values[0]}, Values{values[0], values[0]}, Values{values[0], on_host[1]}}) {
    EXPECT_FALSE(can_reduce_on_devices(others));
    EXPECT_FALSE(can_gather_on_devices(others));
  }
  const Values flags{values[0].to(at::kBool), values[1].to(at::kBool)};
  EXPECT_FALSE(can_reduce_on_devices(flags));
  EXPECT_TRUE(can_gather_on_devices(flags));
}

TEST_F(Collectives, ValuesWithGradientsAreCombinedByCopies) {
  Values on_host{at::full({2}, 2.0F), at::full({2}, 3.0F)};
  for (at::Tensor& value : on_host) value.requires_grad_();
  const Values values{on_host[0].to(kFirst), on_host[1].to(kSecond)};
  fake::reset();
  all_reduce(ReduceOp::kSum, values, {kFirst, kSecond})[1].cpu().sum().backward();
  EXPECT_EQ(fake::counts().collectives, 0);
  for (const at::Tensor& value : on_host) EXPECT_TRUE(at::equal(value.grad(), at::full({2}, 1.0F)));
  const at::NoGradGuard guard;
  EXPECT_TRUE(can_reduce_on_devices(values));
}

TEST_F(Collectives, ReplicasOnOneDeviceGetResultsOfTheirOwn) {
  const Values sums = all_reduce(ReduceOp::kSum, {at::arange(3), at::arange(3)}, {c10::kCPU, c10::kCPU});
  sums[0].add_(1);
  EXPECT_TRUE(at::equal(sums[1], at::arange(3) * 2));
}

}  // namespace
}  // namespace torch_distinput
