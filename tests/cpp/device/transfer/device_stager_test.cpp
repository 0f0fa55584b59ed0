// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/transfer/device_stager.h"

#include <cstring>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/tensor_on.h"
#include "device/transfer/in_flight_copies.h"
#include "device/transfer/trace_copy_engine.h"
#include "support/errors.h"
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

/// Each test has a bench with the usual budget.
class DeviceStagerTest : public Bench, public ::testing::Test {};

Element small_leaves(int count) {
  std::vector<Element> parts;
  for (int i = 0; i < count; ++i) parts.emplace_back(at::full({16, 64}, i, at::kFloat));
  return Element::tuple(std::move(parts));
}

TEST_F(DeviceStagerTest, CopiesSmallLeavesTogetherToAlignedOffsets) {
  const Element arrived = bring(small_leaves(64));
  EXPECT_EQ(engine->copies, 1);
  const auto* const first = static_cast<const char*>(arrived.tensor(0).storage().data());
  for (std::size_t i = 0; i < 64; ++i) {
    const at::Tensor& leaf = arrived.tensor(i);
    EXPECT_TRUE(at::equal(leaf, at::full({16, 64}, static_cast<int>(i), at::kFloat)));
    EXPECT_EQ((static_cast<const char*>(leaf.const_data_ptr()) - first) % 256, 0);
  }
}

TEST_F(DeviceStagerTest, CopiesLeavesOfOneBlockDirectly) {
  engine->direct = true;
  const at::Tensor block = at::arange(256, at::kFloat);  // leaves may begin every 256 bytes
  const at::Tensor first = tensor_on(block.storage(), 0, {10}, at::kFloat);
  const at::Tensor second = tensor_on(block.storage(), 256, {3, 2}, at::kFloat);
  const auto before = engine->host_pool()->stats().reuses;
  const Element arrived = bring(Element::tuple({first, second}));
  EXPECT_EQ(engine->copies, 1);
  EXPECT_EQ(engine->host_pool()->stats().reuses, before);
  EXPECT_TRUE(at::equal(arrived.tensor(0), first));
  EXPECT_TRUE(at::equal(arrived.tensor(1), second));
}

TEST_F(DeviceStagerTest, CopiesLargeLeavesOneByOne) {
  const at::Tensor large = at::arange((1 << 18) + 1, at::kFloat);  // four bytes more than 1 MiB
  const at::Tensor just_small = at::arange(1 << 18, at::kFloat);
  const Element arrived = bring(Element::tuple({large, just_small, at::arange(3), large}));
  EXPECT_EQ(engine->copies, 3);
  EXPECT_TRUE(at::equal(arrived.tensor(0), large));
  EXPECT_TRUE(at::equal(arrived.tensor(1), just_small));
  EXPECT_TRUE(at::equal(arrived.tensor(2), at::arange(3)));
  EXPECT_TRUE(at::equal(arrived.tensor(3), large));
}

TEST_F(DeviceStagerTest, DeliversIndependentTensors) {
  const Element arrived = bring(small_leaves(2));
  at::Tensor first = arrived.tensor(0);
  first.add_(1);
  EXPECT_EQ(first._version(), 1);
  EXPECT_EQ(arrived.tensor(1)._version(), 0);
  EXPECT_TRUE(at::equal(arrived.tensor(1), at::full({16, 64}, 1, at::kFloat)));
}

TEST_F(DeviceStagerTest, LeavesStringsAndObjectsOnTheHost) {
  const Bytes strings = Bytes::column(std::vector<std::string_view>{"a", "bc"});
  const auto object = std::make_shared<int>(7);
  const Element sent(Structure::tuple({Structure::leaf(), Structure::leaf(), Structure::leaf()}),
                     {strings, at::arange(2), Opaque{{object}, {}, "int"}});
  const Element arrived = bring(sent);
  EXPECT_EQ(std::get<Bytes>(arrived.leaves()[0])[1], "bc");
  EXPECT_EQ(std::get<Bytes>(arrived.leaves()[0]).values.const_data_ptr(), strings.values.const_data_ptr());
  EXPECT_EQ(std::get<Opaque>(arrived.leaves()[2]).objects.front(), object);
  EXPECT_EQ(engine->copies, 1);
}

TEST_F(DeviceStagerTest, CopiesOnlyTheOwnRowsOfRaggedLeaves) {
  const Ragged rows{at::arange(10), at::arange(2, 8, 2)};  // rows [2, 3] and [4, 5]
  const Element arrived = bring(Element(Structure::leaf(), {rows}));
  const auto& ragged = std::get<Ragged>(arrived.leaves()[0]);
  EXPECT_TRUE(at::equal(ragged.values, at::arange(2, 6)));
  EXPECT_TRUE(at::equal(ragged.offsets, at::arange(0, 6, 2)));
  EXPECT_EQ(engine->copies, 1);
}

TEST_F(DeviceStagerTest, KeepsShapesOfLeavesWithoutRows) {
  const Element arrived = bring(Element::tuple({at::empty({0, 3}, at::kHalf), at::empty({0}, at::kLong)}));
  EXPECT_EQ(arrived.tensor(0).sizes(), at::IntArrayRef({0, 3}));
  EXPECT_EQ(arrived.tensor(0).scalar_type(), at::kHalf);
  EXPECT_EQ(engine->copies, 0);
}

TEST_F(DeviceStagerTest, AllocatesNothingAfterTheFirstElements) {
  for (int i = 0; i < 10; ++i) bring(small_leaves(8));
  const int before = engine->backing_allocations;
  const auto host_before = engine->host_pool()->stats().allocations;
  for (int i = 0; i < 100; ++i) bring(small_leaves(8));
  EXPECT_EQ(engine->backing_allocations, before);
  EXPECT_EQ(engine->host_pool()->stats().allocations, host_before);
}

TEST_F(DeviceStagerTest, KeptElementsNeverChange) {
  std::vector<Element> kept;
  for (int i = 0; i < 1000; ++i) kept.push_back(bring(Element(at::full({8}, i, at::kInt))));
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(at::equal(kept[static_cast<std::size_t>(i)].tensor(), at::full({8}, i, at::kInt)));
}

TEST_F(DeviceStagerTest, RefusesMoreThanItsBudgetUntilTheDeviceHasRead) {
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

TEST_F(DeviceStagerTest, CopiesAnElementThatIsLargerThanItsBudgetAlone) {
  Bench bench(/*budget=*/1);
  EXPECT_NE(bench.stager.try_stage(Element(at::zeros({256}))), nullptr);
}

TEST_F(DeviceStagerTest, WaitingForRoomCanBeInterrupted) {
  Bench bench(/*budget=*/1);
  const StagedPtr first = bench.stager.try_stage(Element(at::zeros({256})));
  const auto interrupt = [] { throw std::runtime_error("interrupt"); };
  EXPECT_THROW(bench.stager.stage(Element(at::zeros({256})), interrupt), std::runtime_error);
}

TEST_F(DeviceStagerTest, ASlowDeviceDoesNotDelayAnother) {
  Bench slow(/*budget=*/2048);
  Bench fast(/*budget=*/2048);
  const Element kilobyte(at::zeros({256}, at::kFloat));
  for (int i = 0; i < 2; ++i) slow.stager.deliver(slow.stager.stage(kilobyte, {}));
  EXPECT_EQ(slow.stager.try_stage(kilobyte), nullptr);
  for (int i = 0; i < 100; ++i) fast.bring(kilobyte);
}

TEST_F(DeviceStagerTest, RefusesToDeliverIntoAGraph) {
  const StagedPtr staged = stager.stage(Element(at::full({4}, 5, at::kInt)), {});
  engine->recording = engine->current;
  EXPECT_THROW(stager.deliver(staged), FailedPreconditionError);
  engine->recording = TraceCopyEngine::kHost;
  const Element arrived = stager.deliver(staged);
  engine->drain();
  EXPECT_TRUE(at::equal(arrived.tensor(), at::full({4}, 5, at::kInt)));
}

TEST_F(DeviceStagerTest, StaysOutOfAGraphThatThePreviousConsumersStreamRecords) {
  const StagedPtr first = stager.stage(Element(at::full({4}, 1, at::kInt)), {});
  const StagedPtr second = stager.stage(Element(at::full({4}, 2, at::kInt)), {});
  stager.deliver(first);
  engine->recording = engine->current;
  ++engine->current;
  const Element arrived = stager.deliver(second);
  EXPECT_TRUE(engine->violations().empty());
  engine->drain();
  EXPECT_TRUE(at::equal(arrived.tensor(), at::full({4}, 2, at::kInt)));
}

TEST_F(DeviceStagerTest, StaysOutOfAGraphThatTheCopyStreamRecords) {
  engine->recording = TraceCopyEngine::kCopy;
  EXPECT_THROW(stager.try_stage(Element(at::zeros({4}))), FailedPreconditionError);
  engine->recording = TraceCopyEngine::kHost;
  EXPECT_NE(stager.try_stage(Element(at::zeros({4}))), nullptr);
}

TEST_F(DeviceStagerTest, WorksWithLessMemoryThanItReserves) {
  engine->capacity = 3 * 1024;  // bytes; the stager would reserve ten batches of 1024
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(
        at::equal(bring(Element(at::full({256}, i, at::kInt))).tensor(), at::full({256}, i, at::kInt)));
}

TEST_F(DeviceStagerTest, ReportsThatOneBatchDoesNotFit) {
  engine->capacity = 1000;
  EXPECT_THROW(stager.try_stage(Element(at::zeros({256}))), c10::OutOfMemoryError);
}

TEST_F(DeviceStagerTest, CopiesTheValuesOfConjugatedAndNegatedViews) {
  const at::Tensor numbers = at::complex(at::arange(4, at::kFloat), at::ones({4}));
  const at::Tensor conjugated = at::_conj(numbers);
  const Element arrived = bring(Element::tuple({conjugated, at::imag(conjugated)}));
  EXPECT_TRUE(at::equal(arrived.tensor(0), numbers.conj_physical()));
  EXPECT_TRUE(at::equal(arrived.tensor(1), at::full({4}, -1.0F)));
}

TEST_F(DeviceStagerTest, RefusesLeavesOutsideHostMemoryByName) {
  const at::Tensor nowhere = at::zeros({4}, at::TensorOptions(at::kMeta));
  const Element both = Element::dict({{"x", Element(at::zeros({4}))}, {"y", Element(nowhere)}});
  EXPECT_TRUE(has(message_of<c10::TypeError>([&] { stager.try_stage(both); }), "leaf ['y'] is on meta"));
  EXPECT_THROW(stager.try_stage(Element(Structure::leaf(), {Ragged{nowhere, at::arange(2)}})),
               c10::TypeError);
}

/// An engine that copies to host memory of `pool` and is done when a call returns.
class InlineCopyEngine final : public CopyEngine {
 public:
  explicit InlineCopyEngine(std::shared_ptr<BufferPool> pool) : pool_(std::move(pool)) {}

  c10::Device device() const override { return c10::kCPU; }
  const std::shared_ptr<BufferPool>& host_pool() const override { return pool_; }
  bool reads_directly(const at::Tensor&) const override { return true; }

  at::Tensor allocate_device(std::size_t bytes) override {
    Block block = pool_->acquire(bytes);
    void* const data = block.data();
    void* const context = block.detach();
    return at::from_blob(
        data, {static_cast<std::int64_t>(bytes)}, [context](void*) { Block::reclaim(context); }, at::kByte);
  }
  void copy_async(const at::Tensor& to, const void* from) override {
    std::memcpy(to.mutable_data_ptr(), from, to.nbytes());
  }
  void unpack(const at::Tensor& from, ChannelDim channels, const ImageScaling& scaling,
              at::Tensor& to) override {
    to.copy_(unpack_images(from, channels, scaling, {}, *pool_));
  }

  c10::Stream copy_stream() const override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kCPU));
  }
  c10::Stream current_stream() const override { return copy_stream(); }
  bool capturing(const c10::Stream&) const override { return false; }
  Event record(const c10::Stream&) override { return nullptr; }
  void wait(const c10::Stream&, const Event&) override {}
  bool query(const Event&) override { return true; }
  void record_stream(const c10::Storage&, const c10::Stream&) override {}

 private:
  std::shared_ptr<BufferPool> pool_;
};

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
