// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/transfer/device_stager.h"

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/tensor_on.h"
#include "device/transfer/in_flight_copies.h"
#include "device/transfer/trace_copy_engine.h"
#include "support/inline_copy_engine.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kBudget = std::int64_t{64} << 20;

struct Bench {
  explicit Bench(std::int64_t budget = kBudget)
      : engine(std::make_shared<TraceCopyEngine>()),
        stager(DeviceContext{engine, std::make_shared<InFlightCopies>(engine)}, budget) {}

  Element bring(const Element& element) {
    const Element arrived = stager.deliver(stager.stage(element, {}));
    engine->drain();
    return arrived;
  }

  std::shared_ptr<TraceCopyEngine> engine;
  DeviceStager stager;
};

Element small_leaves(int count) {
  std::vector<Element> parts;
  for (int i = 0; i < count; ++i) parts.emplace_back(at::full({16, 64}, i, at::kFloat));
  return Element::tuple(std::move(parts));
}

TEST(DeviceStager, CopiesSmallLeavesTogetherToAlignedOffsets) {
  Bench bench;
  const Element arrived = bench.bring(small_leaves(64));
  EXPECT_EQ(bench.engine->copies, 1);
  const auto* const first = static_cast<const char*>(arrived.tensor(0).storage().data());
  for (std::size_t i = 0; i < 64; ++i) {
    const at::Tensor& leaf = arrived.tensor(i);
    EXPECT_TRUE(at::equal(leaf, at::full({16, 64}, static_cast<int>(i), at::kFloat)));
    EXPECT_EQ((static_cast<const char*>(leaf.const_data_ptr()) - first) % 256, 0);
  }
}

TEST(DeviceStager, CopiesLeavesOfOneBlockDirectly) {
  Bench bench;
  bench.engine->direct = true;
  const at::Tensor block = at::arange(256, at::kFloat);  // leaves may begin every 256 bytes
  const at::Tensor first = tensor_on(block.storage(), 0, {10}, at::kFloat);
  const at::Tensor second = tensor_on(block.storage(), 256, {3, 2}, at::kFloat);
  const auto before = bench.engine->host_pool()->stats().reuses;
  const Element arrived = bench.bring(Element::tuple({first, second}));
  EXPECT_EQ(bench.engine->copies, 1);
  EXPECT_EQ(bench.engine->host_pool()->stats().reuses, before);
  EXPECT_TRUE(at::equal(arrived.tensor(0), first));
  EXPECT_TRUE(at::equal(arrived.tensor(1), second));
}

TEST(DeviceStager, CopiesLargeLeavesOneByOne) {
  Bench bench;
  const at::Tensor large = at::arange((1 << 18) + 1, at::kFloat);  // four bytes more than 1 MiB
  const at::Tensor just_small = at::arange(1 << 18, at::kFloat);
  const Element arrived = bench.bring(Element::tuple({large, just_small, at::arange(3), large}));
  EXPECT_EQ(bench.engine->copies, 3);
  EXPECT_TRUE(at::equal(arrived.tensor(0), large));
  EXPECT_TRUE(at::equal(arrived.tensor(1), just_small));
  EXPECT_TRUE(at::equal(arrived.tensor(2), at::arange(3)));
  EXPECT_TRUE(at::equal(arrived.tensor(3), large));
}

TEST(DeviceStager, DeliversIndependentTensors) {
  Bench bench;
  const Element arrived = bench.bring(small_leaves(2));
  at::Tensor first = arrived.tensor(0);
  first.add_(1);
  EXPECT_EQ(first._version(), 1);
  EXPECT_EQ(arrived.tensor(1)._version(), 0);
  EXPECT_TRUE(at::equal(arrived.tensor(1), at::full({16, 64}, 1, at::kFloat)));
}

TEST(DeviceStager, LeavesStringsAndObjectsOnTheHost) {
  Bench bench;
  const Bytes strings = Bytes::column(std::vector<std::string_view>{"a", "bc"});
  const auto object = std::make_shared<int>(7);
  const Element sent(Structure::tuple({Structure::leaf(), Structure::leaf(), Structure::leaf()}),
                     {strings, at::arange(2), Opaque{{object}, {}, "int"}});
  const Element arrived = bench.bring(sent);
  EXPECT_EQ(std::get<Bytes>(arrived.leaves()[0])[1], "bc");
  EXPECT_EQ(std::get<Bytes>(arrived.leaves()[0]).values.const_data_ptr(), strings.values.const_data_ptr());
  EXPECT_EQ(std::get<Opaque>(arrived.leaves()[2]).objects.front(), object);
  EXPECT_EQ(bench.engine->copies, 1);
}

TEST(DeviceStager, CopiesOnlyTheOwnRowsOfRaggedLeaves) {
  Bench bench;
  const Ragged rows{at::arange(10), at::arange(2, 8, 2)};  // rows [2, 3] and [4, 5]
  const Element arrived = bench.bring(Element(Structure::leaf(), {rows}));
  const auto& ragged = std::get<Ragged>(arrived.leaves()[0]);
  EXPECT_TRUE(at::equal(ragged.values, at::arange(2, 6)));
  EXPECT_TRUE(at::equal(ragged.offsets, at::arange(0, 6, 2)));
  EXPECT_EQ(bench.engine->copies, 1);
}

TEST(DeviceStager, KeepsShapesOfLeavesWithoutRows) {
  Bench bench;
  const Element arrived =
      bench.bring(Element::tuple({at::empty({0, 3}, at::kHalf), at::empty({0}, at::kLong)}));
  EXPECT_EQ(arrived.tensor(0).sizes(), at::IntArrayRef({0, 3}));
  EXPECT_EQ(arrived.tensor(0).scalar_type(), at::kHalf);
  EXPECT_EQ(bench.engine->copies, 0);
}

TEST(DeviceStager, AllocatesNothingAfterTheFirstElements) {
  Bench bench;
  for (int i = 0; i < 10; ++i) bench.bring(small_leaves(8));
  const int before = bench.engine->backing_allocations;
  const auto host_before = bench.engine->host_pool()->stats().allocations;
  for (int i = 0; i < 100; ++i) bench.bring(small_leaves(8));
  EXPECT_EQ(bench.engine->backing_allocations, before);
  EXPECT_EQ(bench.engine->host_pool()->stats().allocations, host_before);
}

TEST(DeviceStager, KeptElementsNeverChange) {
  Bench bench;
  std::vector<Element> kept;
  for (int i = 0; i < 1000; ++i) kept.push_back(bench.bring(Element(at::full({8}, i, at::kInt))));
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(at::equal(kept[static_cast<std::size_t>(i)].tensor(), at::full({8}, i, at::kInt)));
}

TEST(DeviceStager, RefusesMoreThanItsBudgetUntilTheDeviceHasRead) {
  Bench bench(/*budget=*/2048);
  const Element kilobyte(at::zeros({256}, at::kFloat));
  const StagedPtr first = bench.stager.try_stage(kilobyte);
  const StagedPtr second = bench.stager.try_stage(kilobyte);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(bench.stager.try_stage(kilobyte), nullptr);
  bench.engine->drain();
  EXPECT_NE(bench.stager.try_stage(kilobyte), nullptr);
}

TEST(DeviceStager, CopiesAnElementThatIsLargerThanItsBudgetAlone) {
  Bench bench(/*budget=*/1);
  EXPECT_NE(bench.stager.try_stage(Element(at::zeros({256}))), nullptr);
}

TEST(DeviceStager, WaitingForRoomCanBeInterrupted) {
  Bench bench(/*budget=*/1);
  const StagedPtr first = bench.stager.try_stage(Element(at::zeros({256})));
  const auto interrupt = [] { throw std::runtime_error("interrupt"); };
  EXPECT_THROW(bench.stager.stage(Element(at::zeros({256})), interrupt), std::runtime_error);
}

TEST(DeviceStager, ASlowDeviceDoesNotDelayAnother) {
  Bench slow(/*budget=*/2048);
  Bench fast(/*budget=*/2048);
  const Element kilobyte(at::zeros({256}, at::kFloat));
  for (int i = 0; i < 2; ++i) slow.stager.deliver(slow.stager.stage(kilobyte, {}));
  EXPECT_EQ(slow.stager.try_stage(kilobyte), nullptr);
  for (int i = 0; i < 100; ++i) fast.bring(kilobyte);
}

TEST(DeviceStager, RefusesToDeliverIntoAGraph) {
  Bench bench;
  const StagedPtr staged = bench.stager.stage(Element(at::full({4}, 5, at::kInt)), {});
  bench.engine->recording = bench.engine->current;
  EXPECT_THROW(bench.stager.deliver(staged), FailedPreconditionError);
  bench.engine->recording = TraceCopyEngine::kHost;
  const Element arrived = bench.stager.deliver(staged);
  bench.engine->drain();
  EXPECT_TRUE(at::equal(arrived.tensor(), at::full({4}, 5, at::kInt)));
}

TEST(DeviceStager, StaysOutOfAGraphThatThePreviousConsumersStreamRecords) {
  Bench bench;
  const StagedPtr first = bench.stager.stage(Element(at::full({4}, 1, at::kInt)), {});
  const StagedPtr second = bench.stager.stage(Element(at::full({4}, 2, at::kInt)), {});
  bench.stager.deliver(first);
  bench.engine->recording = bench.engine->current;
  ++bench.engine->current;
  const Element arrived = bench.stager.deliver(second);
  EXPECT_TRUE(bench.engine->violations().empty());
  bench.engine->drain();
  EXPECT_TRUE(at::equal(arrived.tensor(), at::full({4}, 2, at::kInt)));
}

TEST(DeviceStager, StaysOutOfAGraphThatTheCopyStreamRecords) {
  Bench bench;
  bench.engine->recording = TraceCopyEngine::kCopy;
  EXPECT_THROW(bench.stager.try_stage(Element(at::zeros({4}))), FailedPreconditionError);
  bench.engine->recording = TraceCopyEngine::kHost;
  EXPECT_NE(bench.stager.try_stage(Element(at::zeros({4}))), nullptr);
}

TEST(DeviceStager, WorksWithLessMemoryThanItReserves) {
  Bench bench;
  bench.engine->capacity = 3 * 1024;  // bytes; the stager would reserve ten batches of 1024
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(
        at::equal(bench.bring(Element(at::full({256}, i, at::kInt))).tensor(), at::full({256}, i, at::kInt)));
}

TEST(DeviceStager, ReportsThatOneBatchDoesNotFit) {
  Bench bench;
  bench.engine->capacity = 1000;
  EXPECT_THROW(bench.stager.try_stage(Element(at::zeros({256}))), c10::OutOfMemoryError);
}

TEST(DeviceStager, CopiesTheValuesOfConjugatedAndNegatedViews) {
  Bench bench;
  const at::Tensor numbers = at::complex(at::arange(4, at::kFloat), at::ones({4}));
  const at::Tensor conjugated = at::_conj(numbers);
  const Element arrived = bench.bring(Element::tuple({conjugated, at::imag(conjugated)}));
  EXPECT_TRUE(at::equal(arrived.tensor(0), numbers.conj_physical()));
  EXPECT_TRUE(at::equal(arrived.tensor(1), at::full({4}, -1.0F)));
}

TEST(DeviceStager, RefusesLeavesOutsideHostMemoryByName) {
  Bench bench;
  const at::Tensor nowhere = at::zeros({4}, at::TensorOptions(at::kMeta));
  try {
    bench.stager.try_stage(Element::dict({{"x", Element(at::zeros({4}))}, {"y", Element(nowhere)}}));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const c10::TypeError& error) {
    EXPECT_NE(std::string(error.what()).find("leaf ['y'] is on meta"), std::string::npos) << error.what();
  }
  EXPECT_THROW(bench.stager.try_stage(Element(Structure::leaf(), {Ragged{nowhere, at::arange(2)}})),
               c10::TypeError);
}

TEST(InlineCopyEngine, CopiesBeforeTheCallReturns) {
  const auto pool = BufferPool::create(page_allocator(), std::size_t{1} << 20);
  const auto engine = std::make_shared<InlineCopyEngine>(pool);
  DeviceStager stager(DeviceContext{engine, std::make_shared<InFlightCopies>(engine)}, kBudget);
  const at::Tensor source = at::arange(100);
  const Element arrived = stager.deliver(stager.stage(Element(source), {}));
  EXPECT_TRUE(at::equal(arrived.tensor(), source));
  EXPECT_NE(arrived.tensor().const_data_ptr(), source.const_data_ptr());
}

TEST(C10CopyEngine, RefusesADeviceThatIsNotAnAccelerator) {
  EXPECT_THROW(open_device_context(c10::kCPU), c10::ValueError);
}

}  // namespace
}  // namespace torch_distinput
