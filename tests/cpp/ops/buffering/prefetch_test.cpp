// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <memory>
#include <thread>

#include "ops/op_testing.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

constexpr std::chrono::seconds kLongEnough{20};

/// A generator of 0, 1, ... that counts the elements read from it.
struct Watched {
  std::atomic<std::int64_t> read{0};
  std::atomic<std::int64_t> opened{0};
};

Dataset watched(const std::shared_ptr<Watched>& watch, std::int64_t size) {
  const auto open = [watch, size] {
    ++watch->opened;
    watch->read = 0;
    return [watch, size]() -> std::optional<Element> {
      if (watch->read == size) return std::nullopt;
      return scalar(watch->read++);
    };
  };
  return scalars_from(open);
}

/// Waits until `condition` holds, without sleeping for a fixed time. Returns false if it does not hold in
/// time.
template <class Condition>
bool eventually(Condition condition) {
  const auto give_up = std::chrono::steady_clock::now() + kLongEnough;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(Prefetch, ChangesNoElement) {
  EXPECT_EQ(values(Dataset::range(9).prefetch(3)), numbers(0, 9));
  for (const std::int64_t depth : {-1, 0, 1, 3, 100})
    EXPECT_EQ(values(generated(9).prefetch(depth)), numbers(0, 9));
}

TEST(Prefetch, ReadsAheadUpToItsBufferSize) {
  const auto watch = std::make_shared<Watched>();
  DatasetIterator iterator = watched(watch, 100).prefetch(3).iterate();
  iterator.next();
  // One element was handed out, three are in the queue, and the thread holds one more.
  EXPECT_TRUE(eventually([&] { return watch->read == 5; }));
  iterator.next();
  EXPECT_TRUE(eventually([&] { return watch->read == 6; }));
}

TEST(Prefetch, ReadsNothingBeforeTheFirstNext) {
  const auto watch = std::make_shared<Watched>();
  DatasetIterator iterator = watched(watch, 100).prefetch(3).iterate();
  iterator.save();
  EXPECT_EQ(watch->opened, 0);
}

TEST(Prefetch, WithABufferOfZeroReadsInTheCallersThread) {
  std::thread::id reader;
  const auto open = [&reader] {
    return [&reader]() -> std::optional<Element> {
      reader = std::this_thread::get_id();
      return scalar(1);
    };
  };
  const Dataset dataset = scalars_from(open);
  dataset.prefetch(0).iterate().next();
  EXPECT_EQ(reader, std::this_thread::get_id());
  dataset.prefetch(1).iterate().next();
  EXPECT_NE(reader, std::this_thread::get_id());
}

TEST(Prefetch, ThrowsAnErrorAfterTheElementsBeforeIt) {
  DatasetIterator iterator = generated(9).map(fails_at(3)).prefetch(8).iterate();
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(scalar(*iterator.next()), i);
  EXPECT_THROW(iterator.next(), UserCodeError);
  EXPECT_THROW(iterator.next(), UserCodeError);
}

TEST(Prefetch, StopsItsThreadWhenItIsDestroyed) {
  const auto watch = std::make_shared<Watched>();
  {
    DatasetIterator iterator = watched(watch, 100).prefetch(3).iterate();
    iterator.next();
  }
  EXPECT_EQ(watch.use_count(), 1);
}

TEST(Prefetch, EndsAWaitInItsInputWhenItIsDestroyed) {
  std::atomic<bool> waits{false};
  std::atomic<bool> gave_up{false};
  const auto open = [&] {
    return [&, first = true]() mutable -> std::optional<Element> {
      if (std::exchange(first, false)) return scalar(0);
      waits = true;
      gave_up = !eventually([] {
        if (const auto& check = interrupt_check()) check();
        return false;
      });
      return std::nullopt;
    };
  };
  {
    const Dataset dataset = scalars_from(open);
    DatasetIterator iterator = dataset.prefetch(3).iterate();
    iterator.next();
    EXPECT_TRUE(eventually([&] { return waits.load(); }));
  }
  EXPECT_FALSE(gave_up);
}

TEST(Prefetch, HasAStateThatFitsThePipelineWithoutIt) {
  const IterateOptions options = {.epoch = 0, .seed = 1};
  DatasetIterator ahead = generated(9).prefetch(4).iterate(options);
  for (int i = 0; i < 3; ++i) ahead.next();
  DatasetIterator plain = generated(9).iterate(options);
  plain.load(ahead.save());
  EXPECT_EQ(elements(plain).front(), Values({3}));
}

TEST(Prefetch, SetsTheReadAheadOfThePlan) {
  EXPECT_EQ(plan_of(Dataset::range(9).prefetch(3))->traits().read_ahead, 3);
  EXPECT_EQ(plan_of(Dataset::range(9).prefetch(3).prefetch(5))->traits().read_ahead, 5);
  EXPECT_EQ(plan_of(Dataset::range(9).prefetch(-1))->traits().read_ahead, -1);
  const Dataset python = Dataset::range(9).map(runs_user_code(same));
  EXPECT_GE(plan_of(python.prefetch(-1))->traits().read_ahead, 1);
}

TEST(Prefetch, KeepsThePlanAsItIs) {
  const PlanPtr plan = plan_of(Dataset::range(7).batch(3).prefetch(2));
  EXPECT_EQ(plan->rows(2), 1);
  EXPECT_EQ(plan->rows_before(2), 6);
  EXPECT_EQ(Dataset::range(7).batch(3).prefetch(2).node()->batch_size(), 3);
  EXPECT_EQ(Dataset::range(7).batch(3).prefetch(2).cardinality(), 3);
}

TEST(Prefetch, RefusesOtherNegativeSizes) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).prefetch(-2); }),
            "prefetch: `buffer_size` must be at least 0, or -1 for automatic, but is -2.");
}

TEST(Prefetch, ObeysTheLaws) {
  expect_laws(Dataset::range(9).prefetch(3));
  expect_laws(generated(9).prefetch(3));
  expect_laws(generated(9).prefetch(2).prefetch(1).batch(2));
}

}  // namespace
}  // namespace torch_distinput
