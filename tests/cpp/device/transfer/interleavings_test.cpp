// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "device/transfer/device_stager.h"
#include "device/transfer/in_flight_copies.h"
#include "device/transfer/trace_copy_engine.h"

namespace torch_distinput {
namespace {

/// A producer, a consumer and a device that act in a random order drawn from `seed`: batches are staged,
/// delivered, used on changing streams, kept for a while or dropped, while streams record graphs at times.
class Schedule {
 public:
  Schedule(std::uint32_t seed, Bug bug)
      : random_(seed),
        engine_(std::make_shared<TraceCopyEngine>(bug)),
        stager_(std::make_unique<DeviceStager>(
            DeviceContext{engine_, std::make_shared<InFlightCopies>(engine_)}, kBudget, kSameNumbers)) {}

  /// Returns the accesses in a wrong order, and the number of wrong values.
  std::pair<std::vector<std::string>, int> run() {
    while (delivered_ < kBatches) {
      switch (random_() % 5) {
        case 0:
          stage();
          break;
        case 1:
          deliver();
          break;
        case 2:
          use_a_kept_one();
          break;
        case 3:
          record_or_end();
          break;
        default:
          engine_->advance(1 + random_() % (TraceCopyEngine::kStreams - 1));
      }
    }
    stager_.reset();
    engine_->drain();
    kept_.clear();
    return {engine_->violations(), wrong_};
  }

 private:
  static constexpr int kBatches = 5;
  static constexpr std::int64_t kBudget = 230;  // bytes: five batches
  /// Each byte becomes the same number in float32.
  inline static const ImageNormalization kSameNumbers{{{1}, {0}, at::kFloat, ImageLayout::kNhwc}, true};

  struct Kept {
    at::Tensor tensor;
    std::size_t stream;
    std::int32_t value;
  };

  void stage() {
    if (staged_.size() >= 3) return;
    const Element batch = Element::tuple({at::full({4}, next_, at::kInt), at::full({6}, next_, at::kInt),
                                          at::full({1, 2, 3, 1}, next_, at::kByte)});
    if (StagedPtr staged = stager_->try_stage(batch)) {
      staged_.push_back(std::move(staged));
      ++next_;
    }
  }

  void deliver() {
    if (staged_.empty()) return;
    engine_->current = TraceCopyEngine::kFirstConsumer + random_() % 2;
    if (engine_->capturing(engine_->current_stream()))
      engine_->current = 2 * TraceCopyEngine::kFirstConsumer + 1 - engine_->current;  // the other one
    const Element element = stager_->deliver(staged_.front());
    staged_.pop_front();
    for (const Leaf& leaf : element.leaves()) {
      const auto& tensor = std::get<at::Tensor>(leaf);
      use(tensor, engine_->current, delivered_);
      if (random_() % 3 == 0) kept_.push_back({tensor, engine_->current, delivered_});
    }
    ++delivered_;
    if (kept_.size() > 3) kept_.pop_front();
  }

  /// Makes a consumer's stream begin to record a graph, or ends the recording.
  void record_or_end() {
    const bool records = engine_->recording != TraceCopyEngine::kHost;
    engine_->recording = records ? TraceCopyEngine::kHost : TraceCopyEngine::kFirstConsumer + random_() % 2;
  }

  void use_a_kept_one() {
    if (kept_.empty()) return;
    const Kept& kept = kept_[random_() % kept_.size()];
    if (kept.stream == engine_->recording) return;
    use(kept.tensor, kept.stream, kept.value);
    if (random_() % 2 == 0) kept_.pop_front();
  }

  void use(const at::Tensor& tensor, std::size_t stream, std::int32_t value) {
    // The kernel reads the memory even if nothing holds the tensor by then.
    const auto count = [&](const auto* data) {
      engine_->consume(tensor, stream, [this, data, size = tensor.numel(), value] {
        for (std::int64_t i = 0; i < size; ++i)
          wrong_ += data[i] == static_cast<std::remove_cvref_t<decltype(*data)>>(value) ? 0 : 1;
      });
    };
    if (tensor.scalar_type() == at::kFloat)
      count(tensor.const_data_ptr<float>());
    else
      count(tensor.const_data_ptr<std::int32_t>());
  }

  std::mt19937 random_;
  std::shared_ptr<TraceCopyEngine> engine_;
  std::unique_ptr<DeviceStager> stager_;
  std::deque<StagedPtr> staged_;
  std::deque<Kept> kept_;
  std::int32_t next_ = 0;
  std::int32_t delivered_ = 0;
  int wrong_ = 0;
};

TEST(Interleavings, NoneOfTenThousandReusesMemoryInUseOrDeliversUnfinishedCopies) {
  for (std::uint32_t seed = 0; seed < 10000; ++seed) {
    const auto [violations, wrong] = Schedule(seed, Bug::kNone).run();
    ASSERT_TRUE(violations.empty()) << "seed " << seed << ": " << violations.front();
    ASSERT_EQ(wrong, 0) << "seed " << seed;
  }
}

class PlantedBug : public testing::TestWithParam<std::pair<Bug, const char*>> {};

TEST_P(PlantedBug, IsCaught) {
  const auto& [bug, expected] = GetParam();
  int caught = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const auto violations = Schedule(seed, bug).run().first;
    caught += std::find(violations.begin(), violations.end(), expected) == violations.end() ? 0 : 1;
  }
  EXPECT_GT(caught, 20);
}

INSTANTIATE_TEST_SUITE_P(
    Interleavings, PlantedBug,
    testing::Values(
        std::pair{Bug::kMissingEvent, "a kernel's reading is not ordered after a copy's writing"},
        std::pair{Bug::kMissingWait, "a kernel's reading is not ordered after a copy's writing"},
        std::pair{Bug::kMissingWaitBack, "a copy's writing is not ordered after a kernel's reading"},
        std::pair{Bug::kEarlyRecycle, "the host's filling of a block is not ordered after a copy's reading"},
        std::pair{Bug::kWrongStream, "a kernel's reading is not ordered after a copy's writing"},
        std::pair{Bug::kBlindToGraphs, "a graph is recorded with the library's work in it"}));

}  // namespace
}  // namespace torch_distinput
