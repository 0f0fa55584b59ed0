// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include "device/transfer/copy_engine.h"
#include "device/transfer/device_stager.h"
#include "device/transfer/on_fake_accelerator.h"
#include "fake_accelerator/fake_accelerator.h"
#include "support/errors.h"
#include "torch_distinput/error.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {
namespace {

const c10::Device kSecond(c10::kPrivateUse1, 1);

class Accelerator : public OnFakeAccelerator {};

std::string bytes_of(const at::Tensor& host) {
  return {static_cast<const char*>(host.const_data_ptr()), host.nbytes()};
}

/// Batches of 16 rows with `fields` leaves of 4 KiB each: row r of field f holds f + r.
Dataset many_fields(std::int64_t rows, int fields) {
  std::vector<Element> parts;
  for (int field = 0; field < fields; ++field)
    parts.emplace_back(at::arange(rows, at::kFloat).add(field).unsqueeze(1).expand({rows, 64}).contiguous());
  return Dataset::from_tensor_slices(Element::tuple(std::move(parts))).batch(16);
}

TEST_F(Accelerator, StagerCopiesToTheDeviceThatWasNamed) {
  DeviceStager stager(open_device_context(kSecond), 1 << 20);
  const at::Tensor source = at::arange(100);
  const at::Tensor arrived = stager.deliver(stager.stage(Element(source), {})).tensor();
  EXPECT_EQ(arrived.device(), kSecond);
  EXPECT_TRUE(at::equal(arrived.cpu(), source));
  EXPECT_EQ(fake::counts().wrong_device, 0);
}

TEST_F(Accelerator, TheConsumersKernelsSeeTheDataWithoutAHostWait) {
  fake::set_delay(300);
  DeviceStager stager(open_device_context(kSecond), 1 << 20);
  std::vector<std::pair<std::shared_ptr<const std::string>, at::Tensor>> seen;
  for (int i = 0; i < 20; ++i) {
    const at::Tensor source = at::full({200}, i, at::kInt);
    const Element arrived = stager.deliver(stager.stage(Element(source), {}));
    seen.emplace_back(fake::snapshot(arrived.tensor()), source);
  }
  EXPECT_EQ(fake::counts().host_waits, 0);
  fake::drain();
  for (const auto& [bytes, source] : seen) EXPECT_EQ(*bytes, bytes_of(source));
}

TEST_F(Accelerator, WaitsOnTheCurrentStream) {
  const c10::impl::VirtualGuardImpl impl(c10::kPrivateUse1);
  DeviceStager stager(open_device_context(kSecond), 1 << 20);
  fake::set_delay(300);
  for (int i = 0; i < 8; ++i) {
    const c10::StreamGuard side(impl.getStreamFromGlobalPool(kSecond));
    const at::Tensor source = at::full({50}, i, at::kInt);
    const Element arrived = stager.deliver(stager.stage(Element(source), {}));
    const auto seen = fake::snapshot(arrived.tensor());
    fake::drain();
    EXPECT_EQ(*seen, bytes_of(source));
  }
}

TEST_F(Accelerator, MakesNoMoreEventsAfterTheFirstSteps) {
  DeviceStager stager(open_device_context(kSecond), 1 << 20);
  const auto step = [&] {
    stager.deliver(stager.stage(Element(at::full({50}, 1, at::kInt)), {}));
    fake::drain();
  };
  for (int i = 0; i < 4; ++i) step();
  const auto before = fake::counts();
  for (int i = 0; i < 100; ++i) step();
  EXPECT_EQ(fake::counts().events, before.events);
  EXPECT_EQ(fake::counts().device_allocations, before.device_allocations);
  EXPECT_EQ(fake::counts().host_allocations, before.host_allocations);
}

TEST_F(Accelerator, ARunningStrategyCopiesOncePerBatchAndNeverWaits) {
  auto iterator = OneDeviceStrategy("fake:1").distribute_dataset(many_fields(16 * 80, 64)).iterate();
  for (int step = 0; step < 30; ++step) {
    iterator.get_next();
    fake::drain();
  }
  fake::reset();
  int steps = 0;
  while (const auto step = iterator.next()) {
    fake::drain();
    ++steps;
  }
  EXPECT_EQ(steps, 50);
  const auto counts = fake::counts();
  EXPECT_EQ(counts.host_waits, 0);
  EXPECT_LE(counts.copies, 50);  // some were queued before `reset`
  EXPECT_GE(counts.copies, 20);
  // Threads may get further ahead than in the first steps, but not with each step.
  EXPECT_LE(counts.device_allocations, 2);
  EXPECT_LE(counts.host_allocations, 2);
  EXPECT_EQ(counts.wrong_device, 0);
}

TEST_F(Accelerator, EachReplicaGetsItsRowsOnItsDevice) {
  fake::set_delay(100);
  std::vector<std::pair<std::shared_ptr<const std::string>, at::Tensor>> seen;
  std::int64_t row = 0;
  for (const PerReplica& step : both_devices().distribute_dataset(Dataset::range(40).batch(8))) {
    for (std::size_t replica = 0; replica < 2; ++replica) {
      const at::Tensor& part = step[replica].tensor();
      EXPECT_EQ(part.device(), c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(replica)));
      const c10::DeviceGuard guard(part.device());
      seen.emplace_back(fake::snapshot(part), at::arange(row, row + 4));
      row += 4;
    }
  }
  EXPECT_EQ(row, 40);
  fake::drain();
  for (const auto& [bytes, source] : seen) EXPECT_EQ(*bytes, bytes_of(source));
}

TEST_F(Accelerator, KeptBatchesNeverChange) {
  std::vector<PerReplica> kept;
  for (const PerReplica& step : both_devices().distribute_dataset(Dataset::range(4000).batch(4)))
    kept.push_back(step);
  ASSERT_EQ(kept.size(), 1000U);
  for (std::int64_t i = 0; i < 1000; ++i) {
    const auto& step = kept[static_cast<std::size_t>(i)];
    ASSERT_TRUE(at::equal(step[0].tensor().cpu(), at::arange(4 * i, 4 * i + 2)));
    ASSERT_TRUE(at::equal(step[1].tensor().cpu(), at::arange(4 * i + 2, 4 * i + 4)));
  }
}

TEST_F(Accelerator, ManyEpochsThatEndEarlyLeakNothing) {
  const auto dataset = OneDeviceStrategy("fake:1").distribute_dataset(many_fields(16 * 20, 3));
  const auto epoch = [&] {
    auto iterator = dataset.iterate();
    for (int step = 0; step < 3; ++step) iterator.get_next();
  };
  for (int i = 0; i < 20; ++i) epoch();
  fake::drain();
  const auto before = fake::counts();
  for (int i = 0; i < 200; ++i) {
    epoch();
    fake::drain();
  }
  // Epochs overlap differently each time, so a few more may be needed at a time, but not 200.
  EXPECT_LE(fake::counts().events, before.events + 20);
  EXPECT_LE(fake::counts().device_allocations, before.device_allocations + 20);
  EXPECT_LE(fake::counts().host_allocations, before.host_allocations + 40);
}

TEST_F(Accelerator, ASlowReplicaDoesNotDelayTheOtherWithinTheByteBudget) {
  fake::set_delay(1, 20000);
  auto iterator = both_devices().distribute_dataset(Dataset::range(40).batch(8)).iterate();
  std::vector<std::shared_ptr<const std::string>> seen;
  const c10::Stream first = c10::impl::VirtualGuardImpl(c10::kPrivateUse1).getStream({c10::kPrivateUse1, 0});
  while (const auto step = iterator.next()) seen.push_back(fake::snapshot((*step)[0].tensor()));
  // The second device needs at least 200 ms for its copies; the first has finished long before.
  EXPECT_EQ(fake::counts().host_waits, 0);
  c10::impl::VirtualGuardImpl(c10::kPrivateUse1).synchronizeStream(first);
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_EQ(*seen.back(), bytes_of(at::arange(32, 36)));
  const c10::impl::VirtualGuardImpl impl(c10::kPrivateUse1);
  EXPECT_FALSE(impl.queryStream(impl.getStream(kSecond)));
}

TEST_F(Accelerator, CopiesBeginBeforeStepsAreRequestedOnEveryPath) {
  const Dataset planned = Dataset::range(40'000).batch(8);
  const Dataset cut = planned.map([](const Element& batch) { return batch; });  // rows unknown to the plan
  const Dataset streamed = cut.filter([](const Element&) { return true; });
  for (const Dataset& dataset : {planned, cut, streamed}) {
    fake::reset();
    auto iterator = both_devices().distribute_dataset(dataset).iterate();
    for (int step = 0; step < 200; ++step) ASSERT_TRUE(iterator.next());
    // Two copies for each of the 200 steps, and for at least one more step.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (fake::counts().copies < 402 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    EXPECT_GE(fake::counts().copies, 402);
  }
}

TEST_F(Accelerator, StaysOnTheHostWithoutFetchToDevice) {
  for (const PerReplica& step :
       both_devices().distribute_dataset(Dataset::range(8).batch(4), {.fetch_to_device = false}))
    for (const Element& part : step) EXPECT_TRUE(part.tensor().is_cpu());
  EXPECT_EQ(fake::counts().copies, 0);
}

TEST_F(Accelerator, ReplicasWithoutRowsGetZeroRowsOnTheirDevice) {
  auto iterator = both_devices().distribute_dataset(Dataset::range(5).batch(4)).iterate();
  iterator.get_next();
  const PerReplica last = iterator.get_next();
  EXPECT_EQ(last[0].tensor().size(0), 1);
  EXPECT_EQ(last[1].tensor().size(0), 0);
  EXPECT_EQ(last[1].tensor().device(), kSecond);
}

TEST_F(Accelerator, CopiesHaveAStreamThatNothingElseUses) {
  const c10::impl::VirtualGuardImpl impl(c10::kPrivateUse1);
  const c10::StreamId copies = open_device_context(kSecond).engine->copy_stream().id();
  EXPECT_NE(copies, impl.getDefaultStream(kSecond).id());
  for (int i = 0; i < 100; ++i) EXPECT_NE(impl.getStreamFromGlobalPool(kSecond).id(), copies);
}

TEST_F(Accelerator, GraphsOfUsersHoldNoneOfOurWorkOnAnyStream) {
  const c10::impl::VirtualGuardImpl impl(c10::kPrivateUse1);
  auto iterator = OneDeviceStrategy("fake:1").distribute_dataset(Dataset::range(800).batch(4)).iterate();
  std::int64_t row = 0;
  const auto take = [&] {
    ASSERT_TRUE(at::equal(iterator.get_next()[0].tensor().cpu(), at::arange(row, row + 4)));
    row += 4;
  };
  while (row < 800) {
    // Takes a step on one stream, which then records a graph while another stream takes the next step.
    const c10::Stream recording = impl.getStreamFromGlobalPool(kSecond);
    {
      const c10::StreamGuard guard(recording);
      take();
    }
    fake::set_capturing(recording, true);
    take();
    fake::set_capturing(recording, false);
  }
  EXPECT_EQ(fake::counts().captured, 0);
}

TEST_F(Accelerator, ALeafThatAFunctionPutsOnADeviceIsRefusedByName) {
  for (const c10::Device device : {kSecond, c10::Device(c10::kPrivateUse1, 0), c10::Device(c10::kMeta)}) {
    const Dataset dataset = Dataset::range(8).batch(4).map([device](const Element& batch) {
      return Element::dict({{"x", Element(batch.tensor().to(device))}});
    });
    auto iterator = OneDeviceStrategy("fake:1").distribute_dataset(dataset).iterate();
    EXPECT_TRUE(
        has(message_of<c10::TypeError>([&] { iterator.next(); }), "leaf ['x'] is on " + device.str()));
  }
}

TEST_F(Accelerator, NextRaisesWhileAGraphIsRecordedAndContinuesAfterwards) {
  auto iterator = OneDeviceStrategy("fake:1").distribute_dataset(Dataset::range(8).batch(4)).iterate();
  iterator.get_next();
  fake::set_capturing(true);
  EXPECT_THROW(iterator.get_next(), FailedPreconditionError);
  fake::set_capturing(false);
  EXPECT_TRUE(at::equal(iterator.get_next()[0].tensor().cpu(), at::arange(4, 8)));
}

}  // namespace
}  // namespace torch_distinput
