// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/plan_iterator.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "base/slow_reads.h"
#include "execution/read_ahead.h"
#include "ops/op_testing.h"
#include "runtime/arena.h"
#include "support/fakes.h"
#include "support/interrupts.h"
#include "support/remote_rows.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

std::shared_ptr<ExecutionContext> execution(Options options = {}) { return make_execution_context(options); }

IteratorPtr iterator_of(const Dataset& dataset, Options options = {}) {
  const auto run = execution(options);
  return make_plan_iterator(dataset.node()->plan(epoch_context(run, 1, 0, false)), run);
}

Values next_values(Iterator& iterator) {
  const auto element = iterator.next();
  return element ? items(*element) : Values{};
}

TEST(PlanIterator, HandsOutAllElementsInOrder) {
  IteratorPtr iterator = iterator_of(Dataset::range(1000));
  for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(next_values(*iterator), Values{i});
  EXPECT_FALSE(iterator->next());
  EXPECT_FALSE(iterator->next());
}

TEST(PlanIterator, ReadsNothingBeforeTheFirstElement) {
  const auto source = std::make_shared<fakes::Rows>(10);
  IteratorPtr iterator = iterator_of(Dataset::from_rows(source));
  EXPECT_EQ(source->reads(), 0);
}

TEST(PlanIterator, ReadsNothingAheadWhereThatWasAsked) {
  const at::Tensor rows = at::zeros({100}, at::kLong);
  IteratorPtr iterator =
      iterator_of(Dataset::from_tensor_slices(Element(rows)), {.num_threads = 0, .prefetch = 0});
  for (std::int64_t step = 0; step < 100; ++step) {
    rows.fill_(step);
    ASSERT_EQ(next_values(*iterator), Values{step});
  }
}

/// `count` elements of 4 MiB. The first one is whether the second one was begun before it ended, or within
/// `timeout`.
class LargeElements final : public Plan {
 public:
  LargeElements(std::int64_t count, std::chrono::milliseconds timeout) : count_(count), timeout_(timeout) {}
  std::int64_t size() const override { return count_; }
  std::int64_t least_bytes() const override { return std::int64_t{4} << 20; }
  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    const std::int64_t position = positions.front();
    std::unique_lock lock(mutex_);
    if (position == 1) second_begun_ = true;
    changed_.notify_all();
    if (position > 0) return {Element(at::scalar_tensor(position, at::kLong))};
    const bool together = changed_.wait_for(lock, timeout_, [this] { return second_begun_; });
    return {Element(at::scalar_tensor(together ? 1 : 0, at::kLong))};
  }

 private:
  std::int64_t count_;
  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable bool second_begun_ = false;
};

TEST(PlanIterator, MakesLargeElementsSideBySideFromTheFirstOn) {
  IteratorPtr iterator = make_plan_iterator(std::make_shared<LargeElements>(9, std::chrono::seconds(10)),
                                            execution({.num_threads = 2}));
  EXPECT_EQ(next_values(*iterator), Values{1});
  for (std::int64_t i = 1; i < 9; ++i) ASSERT_EQ(next_values(*iterator), Values{i});
  EXPECT_FALSE(iterator->next());
}

TEST(PlanIterator, MeasuresLargeElementsWhoseBytesAreBounded) {
  IteratorPtr iterator = make_plan_iterator(std::make_shared<LargeElements>(3, std::chrono::milliseconds(20)),
                                            execution({.num_threads = 2, .prefetch_bytes = 100 << 20}));
  EXPECT_EQ(next_values(*iterator), Values{0});
}

TEST(PlanIterator, KnowsTheBytesOfElementsBelowOpsThatKeepThem) {
  constexpr std::int64_t kBytes = 24 * 4;
  const auto bytes = [](const Dataset& dataset) { return plan_of(dataset)->least_bytes(); };
  const Dataset rows = Dataset::from_tensor_slices(Element(at::zeros({10, 24})));
  EXPECT_EQ(bytes(rows), kBytes);
  EXPECT_EQ(bytes(rows.shuffle({.seed = 1}).batch(4).prefetch(2).skip(1)), 4 * kBytes);
  EXPECT_EQ(bytes(rows.batch(16)), 10 * kBytes);
  EXPECT_EQ(bytes(rows.take(0).batch(4)), 0);
}

TEST(PlanIterator, YieldsTheSameWithAnyNumberOfThreads) {
  const Dataset dataset = Dataset::range(500).shuffle({.seed = 3}).batch(7);
  IteratorPtr serial = iterator_of(dataset, {.num_threads = 0});
  IteratorPtr three = iterator_of(dataset, {.num_threads = 3});
  EXPECT_EQ(elements(*three), elements(*serial));
}

TEST(PlanIterator, RunsPlansOfUsersCodeInTheCallersThreadUnlessAskedToReadAhead) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto note = runs_user_code([&](Element element) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return element;
  });
  IteratorPtr plain = iterator_of(Dataset::range(20).map(note));
  elements(*plain);
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
  IteratorPtr ahead = iterator_of(Dataset::range(20).map(note).prefetch(4));
  EXPECT_EQ(elements(*ahead).size(), 20U);
}

TEST(PlanIterator, DeliversWhatComesBeforeABadRowAndKeepsItsPosition) {
  const Dataset dataset = Dataset::from_rows(std::make_shared<fakes::Rows>(100, std::set<std::int64_t>{40}));
  IteratorPtr iterator = iterator_of(dataset);
  for (std::int64_t i = 0; i < 40; ++i) ASSERT_EQ(next_values(*iterator), Values{i});
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(message_of<c10::ValueError>([&] { iterator->next(); }),
              "row 40 is bad (from_rows(rows): row 40)");
    EXPECT_EQ(iterator->save().at("position").as_int(), 40);
  }
}

TEST(PlanIterator, RepeatsAnErrorOfTheFirstElement) {
  const auto source = std::make_shared<fakes::Rows>(3, std::set<std::int64_t>{0});
  IteratorPtr iterator = iterator_of(Dataset::from_rows(source));
  EXPECT_THROW(iterator->next(), c10::ValueError);
  EXPECT_THROW(iterator->next(), c10::ValueError);
  EXPECT_EQ(source->reads(), 1);
}

TEST(PlanIterator, GoesOnAfterALoadThatFollowsAnError) {
  const Dataset dataset = Dataset::from_rows(std::make_shared<fakes::Rows>(4, std::set<std::int64_t>{1}));
  IteratorPtr iterator = iterator_of(dataset);
  iterator->next();
  EXPECT_THROW(iterator->next(), c10::ValueError);
  iterator->load(State().set("path", "random access").set("position", 2));
  EXPECT_EQ(next_values(*iterator), Values{2});
}

TEST(PlanIterator, SavesThePositionAndTheRow) {
  IteratorPtr iterator = iterator_of(Dataset::range(10).batch(4));
  iterator->next();
  EXPECT_EQ(iterator->save().str(), R"({"path": "random access", "position": 1, "row": 4})");
  iterator->next();
  iterator->next();
  EXPECT_EQ(iterator->save().str(), R"({"path": "random access", "position": 3, "row": 10})");
  EXPECT_EQ(iterator_of(Dataset::range(10))->save().str(), R"({"path": "random access", "position": 0})");
}

State at_row(std::int64_t position, std::int64_t row) {
  return State().set("path", "random access").set("position", position).set("row", row);
}

TEST(PlanIterator, GoesOnAtTheRowWhenTheBatchSizeIsAnother) {
  // Saved after two batches of 3, that is 6 rows; a batch of 4 rows begins at row 8.
  IteratorPtr iterator = iterator_of(Dataset::range(14).batch(4));
  iterator->load(at_row(2, 6));
  EXPECT_EQ(iterator->save(), at_row(1, 6));
  EXPECT_EQ(next_values(*iterator), (Values{6, 7}));
  EXPECT_EQ(iterator->save(), at_row(2, 8));
  EXPECT_EQ(next_values(*iterator), (Values{8, 9, 10, 11}));
  EXPECT_EQ(next_values(*iterator), (Values{12, 13}));
  EXPECT_EQ(iterator->save(), at_row(4, 14));
  EXPECT_FALSE(iterator->next());
}

TEST(PlanIterator, GoesOnAtARowThatStartsABatchOfAnotherSize) {
  IteratorPtr iterator = iterator_of(Dataset::range(20).batch(4));
  iterator->load(at_row(4, 8));
  EXPECT_EQ(next_values(*iterator), (Values{8, 9, 10, 11}));
}

TEST(PlanIterator, EndsWhenTheRowIsAfterAllOthers) {
  IteratorPtr iterator = iterator_of(Dataset::range(10).batch(4, {.drop_remainder = true}));
  iterator->load(at_row(5, 10));
  EXPECT_FALSE(iterator->next());
}

TEST(PlanIterator, FindsTheRowOfEndlessData) {
  const Dataset dataset = Dataset::range(10).repeat().batch(3);
  IteratorPtr iterator = iterator_of(dataset);
  iterator->load(at_row(1000, 2000));
  EXPECT_EQ(next_values(*iterator), (Values{0}));
  EXPECT_EQ(next_values(*iterator), (Values{1, 2, 3}));
}

TEST(PlanIterator, RefusesPositionsOfOtherIterators) {
  IteratorPtr iterator = iterator_of(Dataset::range(3));
  EXPECT_EQ(message_of<c10::ValueError>([&] { iterator->load(State().set("input", 3)); }),
            "state: saved on the sequential path, but this pipeline runs on the random-access path.");
  EXPECT_EQ(message_of<c10::ValueError>(
                [&] { iterator->load(State().set("path", "random access").set("position", 4)); }),
            "state: the saved `position` must be in [0, 3], but is 4.");
}

/// Remote elements, each of which waits until `together` of them are being made; the element is whether they
/// were.
class RemoteElements final : public Plan {
 public:
  explicit RemoteElements(std::int64_t together) : together_(together) {}
  std::int64_t size() const override { return 100; }
  PlanTraits traits() const override { return {.remote = true}; }
  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::unique_lock lock(mutex_);
    ++begun_;
    changed_.notify_all();
    const bool met =
        changed_.wait_for(lock, std::chrono::seconds(10), [this] { return begun_ >= together_; });
    return {static_cast<std::size_t>(positions.size()), Element(at::scalar_tensor(met ? 1 : 0, at::kLong))};
  }

 private:
  std::int64_t together_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::int64_t begun_ = 0;
};

TEST(PlanIterator, ReadsARemotePlanInEightThreadsFromTheFirstElementOn) {
  IteratorPtr iterator =
      make_plan_iterator(std::make_shared<RemoteElements>(8), execution({.num_threads = 1}));
  EXPECT_EQ(next_values(*iterator), Values{1});
}

/// Remote elements of files: their numbers. `is_slow`: that they will be read asks for bytes.
class KnownElements final : public Plan {
 public:
  explicit KnownElements(bool is_slow) : is_slow_(is_slow) {}
  std::int64_t size() const override { return 100; }
  std::int64_t least_bytes() const override { return 100'000; }
  PlanTraits traits() const override { return {.blocks = true, .remote = true}; }
  void will_read(std::span<std::int64_t>) const override {
    if (is_slow_) note_slow_read();
  }
  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::int64_t before = last_.load();
    while (before < positions.back() && !last_.compare_exchange_weak(before, positions.back())) {
    }
    return {Element(at::scalar_tensor(positions.front(), at::kLong))};
  }
  /// Of those that were made or are being made.
  std::int64_t last() const { return last_; }

 private:
  bool is_slow_;
  mutable std::atomic<std::int64_t> last_{0};
};

TEST(PlanIterator, ReadsWhatIsKnownAlreadyAsLocalFiles) {
  const auto plan = std::make_shared<KnownElements>(false);
  IteratorPtr iterator = make_plan_iterator(plan, execution({.num_threads = 1}));
  for (std::int64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(next_values(*iterator), Values{i});
    ASSERT_LE(plan->last() - i, 2);
  }
}

TEST(PlanIterator, ReadsFurtherAheadWhereBytesAreAskedFor) {
  const auto plan = std::make_shared<KnownElements>(true);
  IteratorPtr iterator = make_plan_iterator(plan, execution({.num_threads = 1}));
  ASSERT_EQ(next_values(*iterator), Values{0});
  // 16 elements from the one that is made on: the first, where this thread has made that one.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (plan->last() < 15 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_GE(plan->last(), 15);
  EXPECT_LE(plan->last(), 16);
}

/// Closes or moves `iterator` while reads of it hang.
void expect_no_wait(IteratorPtr iterator, bool moves) {
  const auto begin = std::chrono::steady_clock::now();
  if (moves) iterator->load(State().set("path", "random access").set("position", 0));
  if (!moves) iterator.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST(PlanIterator, DoesNotWaitForRemoteReadsThatHangWhenItIsClosedOrMoved) {
  for (const bool moves : {false, true}) {
    const auto log = std::make_shared<fakes::ReadLog>();
    IteratorPtr iterator = iterator_of(fakes::remote_rows({.size = 50, .dense = false, .lost_from = 1}, log));
    EXPECT_EQ(next_values(*iterator), Values{0});
    while (log->read().size() < 5) std::this_thread::yield();
    expect_no_wait(std::move(iterator), moves);
  }
}

TEST(PlanIterator, LeavesARemoteReadThatHangsWhenTheConsumerIsInterrupted) {
  for (const Options& options : {Options{}, Options{.prefetch = 0}, Options{.prefetch_bytes = 8}}) {
    const auto log = std::make_shared<fakes::ReadLog>();
    IteratorPtr iterator =
        iterator_of(fakes::remote_rows({.size = 50, .dense = false, .lost_from = 0}, log), options);
    const auto begin = std::chrono::steady_clock::now();
    {
      const InterruptScope consumer([] { throw fakes::Interrupted(); });
      EXPECT_THROW(iterator->next(), fakes::Interrupted);
      EXPECT_THROW(iterator->next(), fakes::Interrupted) << "the next call tries again";
    }
    EXPECT_EQ(iterator->save().at("position").as_int(), 0);
    iterator.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1)) << options.str();
  }
}

TEST(PlanIterator, AnnouncesOnlyWhatIsMadeWhereNothingIsReadAhead) {
  const auto log = std::make_shared<fakes::ReadLog>();
  IteratorPtr iterator = iterator_of(fakes::remote_rows({.size = 20}, log).batch(4), {.prefetch = 0});
  EXPECT_EQ(elements(*iterator).size(), 5U);
  EXPECT_EQ(log->ahead(), std::vector<std::int64_t>(5, 0));
  EXPECT_TRUE(log->unannounced().empty());
}

TEST(PlanIterator, AnnouncesTheRestOfABatchAndWhatFollows) {
  const auto log = std::make_shared<fakes::ReadLog>();
  IteratorPtr iterator = iterator_of(fakes::remote_rows({.size = 14}, log).batch(4));
  iterator->load(at_row(2, 6));
  EXPECT_EQ(next_values(*iterator), (Values{6, 7}));
  EXPECT_EQ(elements(*iterator).size(), 2U);
  EXPECT_TRUE(log->unannounced().empty());
  EXPECT_EQ(log->announced(), log->read());
  EXPECT_EQ(log->read().begin()->first, 6);
}

const Sample kSmall{64, std::chrono::microseconds(10)};

std::int64_t depth_of_large(std::int64_t mebibytes, const Options& options) {
  const Sample sample{mebibytes << 20, std::chrono::milliseconds(1)};
  return choose_read_ahead({}, *execution(options), sample).depth;
}

TEST(ReadAhead, StaysWithinTheBytesAllowed) {
  EXPECT_EQ(depth_of_large(30, {.num_threads = 2}), 2);
  EXPECT_EQ(depth_of_large(30, {.num_threads = 2, .prefetch_bytes = 100 << 20}), 3);
  EXPECT_EQ(depth_of_large(1024, {.num_threads = 3, .prefetch_bytes = 100 << 20}), 1);
  EXPECT_EQ(depth_of_large(30, {.num_threads = 2, .prefetch = 9, .prefetch_bytes = 100 << 20}), 3);
}

TEST(ReadAhead, MakesLargeElementsInAllThreadsUnlessBytesAreBounded) {
  EXPECT_EQ(depth_of_large(1024, {.num_threads = 3}), 3);
  EXPECT_EQ(depth_of_large(1024, {.num_threads = 2, .prefetch = 5}), 5);
}

TEST(ReadAhead, FollowsWhatThePipelineAsksFor) {
  EXPECT_EQ(choose_read_ahead({.read_ahead = 3}, *execution(), {100000, std::chrono::microseconds(10)}).depth,
            3);
  EXPECT_EQ(choose_read_ahead({}, *execution({.prefetch = 5}), {100000, std::chrono::microseconds(10)}).depth,
            5);
  EXPECT_EQ(choose_read_ahead({}, *execution({.prefetch = 0}), kSmall).executor->concurrency(), 0);
}

TEST(ReadAhead, MakesTinyElementsManyAtATime) {
  EXPECT_GT(choose_read_ahead({}, *execution(), kSmall).chunk, 1);
  const ReadAhead slow = choose_read_ahead({}, *execution(), {64, std::chrono::milliseconds(2)});
  EXPECT_EQ(slow.chunk, 1);
  EXPECT_EQ(slow.burst, 1);
}

TEST(ReadAhead, MakesSmallElementsTogetherWhereThatFindsThemFaster) {
  const auto chunk = [](std::int64_t together, std::int64_t kibibytes, const Options& options = {}) {
    const Sample sample{kibibytes << 10, std::chrono::microseconds(50)};
    return choose_read_ahead({.together = together}, *execution(options), sample).chunk;
  };
  EXPECT_EQ(chunk(1, 20), 1);
  EXPECT_EQ(chunk(8, 20), 8);
  EXPECT_EQ(chunk(1000, 20), 25);  // 512 KiB
  EXPECT_EQ(chunk(8, 512), 1);
  EXPECT_EQ(chunk(8, 20, {.prefetch = 3}), 3);
  EXPECT_EQ(chunk(8, 20, {.prefetch = 0}), 1);
  EXPECT_EQ(chunk(100, 1), 100);
}

TEST(ReadAhead, MakesNeitherUsersElementsNorRemoteOnesTogether) {
  const Sample small{1 << 14, std::chrono::microseconds(50)};
  const auto chunk = [&](const PlanTraits& traits) {
    return choose_read_ahead(traits, *execution(), small).chunk;
  };
  EXPECT_EQ(chunk({.together = 8}), 8);
  EXPECT_EQ(chunk({.runs_user_code = true, .together = 8}), 1);
  EXPECT_EQ(chunk({.runs_user_code = true, .num_parallel_calls = 2, .together = 8}), 1);
  EXPECT_EQ(chunk({.remote = true, .together = 8}), 1);
}

TEST(ReadAhead, LeavesElementsThatCostNothingInTheConsumersThread) {
  const ReadAhead ahead = choose_read_ahead({}, *execution(), {64, std::chrono::nanoseconds(300)});
  EXPECT_EQ(ahead.executor->concurrency(), 0);
  EXPECT_GT(ahead.chunk, 1);
}

TEST(ReadAhead, GivesPlansOfUsersCodeTheThreadsTheyAskFor) {
  const auto threads = [](const PlanTraits& traits) {
    return choose_read_ahead(traits, *execution(), kSmall).executor->concurrency();
  };
  EXPECT_EQ(threads({.runs_user_code = true}), 0);
  EXPECT_EQ(threads({.runs_user_code = true, .read_ahead = 2}), 1);
  EXPECT_EQ(threads({.runs_user_code = true, .num_parallel_calls = 3}), 3);
}

TEST(ReadAhead, GivesRemotePlansThreadsOfTheirOwnWhateverTheArena) {
  const auto threads = [](const PlanTraits& traits, const Options& options) {
    return choose_read_ahead(traits, *execution(options), kSmall).executor->concurrency();
  };
  EXPECT_EQ(threads({.remote = true}, {.num_threads = 1}), 8);
  EXPECT_EQ(threads({.remote = true}, {.num_threads = 0}), 0);
  EXPECT_EQ(threads({.remote = true}, {.prefetch = 0}), 0);
  EXPECT_EQ(threads({.runs_user_code = true, .remote = true}, {}), 0);
  EXPECT_EQ(threads({.runs_user_code = true, .remote = true, .num_parallel_calls = 3}, {}), 3);
  EXPECT_EQ(plan_threads({.remote = true}, *execution({.num_threads = 2})).name, "tdi-read");
}

TEST(ReadAhead, DecidesNothingByTheTimeOfRemoteElements) {
  const ReadAhead quick =
      choose_read_ahead({.remote = true}, *execution(), {64, std::chrono::nanoseconds(300)});
  EXPECT_EQ(quick.executor->concurrency(), 8);
  EXPECT_EQ(quick.burst, 1);
  EXPECT_EQ(quick.chunk, kTinyChunk);
  EXPECT_TRUE(quick.may_block);
  EXPECT_EQ(choose_read_ahead({.remote = true}, *execution(), {0, {}}).chunk, 1) << "bytes are not known";
  EXPECT_EQ(choose_read_ahead({.remote = true}, *execution(), {0, {}}).depth, 8);
}

TEST(ReadAhead, BeginsWithWhatIsKnownAsWithLocalFiles) {
  const Sample sample{100'000, {}};
  const auto ahead = [&](const PlanTraits& traits, const Options& options) {
    return choose_read_ahead(traits, *execution(options), sample);
  };
  const ReadAhead known = ahead({.blocks = true, .remote = true}, {.num_threads = 3});
  EXPECT_EQ(known.narrow_tasks, 3);
  EXPECT_EQ(known.narrow_depth, 6);
  EXPECT_EQ(known.depth, 16);
  const ReadAhead asked = ahead({.blocks = true, .remote = true}, {.num_threads = 3, .prefetch = 5});
  EXPECT_EQ(asked.narrow_tasks, 3);
  EXPECT_EQ(asked.narrow_depth, 0);
  EXPECT_EQ(asked.depth, 5);
  EXPECT_EQ(ahead({.remote = true}, {}).narrow_tasks, 0);
  EXPECT_EQ(ahead({.blocks = true}, {}).narrow_tasks, 0);
  EXPECT_EQ(ahead({.runs_user_code = true, .blocks = true, .remote = true, .num_parallel_calls = 4}, {})
                .narrow_tasks,
            0);
}

ReadAhead estimated(const PlanTraits& traits, const Options& options, Estimate estimate) {
  return choose_read_ahead(traits, *execution(), options, estimate);
}

TEST(ReadAhead, FollowsAnEstimateWhereNothingWasSeen) {
  EXPECT_EQ(estimated({}, {}, {0, 100}).executor->concurrency(), 0);
  EXPECT_EQ(estimated({}, {}, {3, std::nullopt}).depth, 3);
  EXPECT_EQ(estimated({}, {}, {9, 1 << 20}).depth, 9);
  EXPECT_EQ(estimated({.read_ahead = 7}, {}, {3, 1 << 20}).depth, 7);
  EXPECT_EQ(estimated({}, {.prefetch = 5}, {3, 100}).depth, 5);
  EXPECT_EQ(estimated({}, {.prefetch_bytes = 200}, {3, 100}).depth, 2);
  EXPECT_EQ(estimated({}, {.prefetch = 5, .prefetch_bytes = 200}, {3, 100}).depth, 2);
  EXPECT_EQ(estimated({}, {.prefetch = 5}, {3, std::int64_t{1} << 30}).depth, 5);
  EXPECT_EQ(estimated({}, {.prefetch_bytes = 200}, {3, std::int64_t{1} << 30}).depth, 1);
}

TEST(ReadAhead, NeverLeavesRemoteStepsToTheConsumer) {
  const ReadAhead steps = estimated({.remote = true}, {}, {3, 100});
  EXPECT_EQ(steps.executor->concurrency(), 8);
  EXPECT_EQ(steps.inline_threshold.count(), 0);
  EXPECT_EQ(steps.burst, 1);
  EXPECT_TRUE(steps.may_block);
  EXPECT_EQ(estimated({.remote = true}, {}, {0, 100}).executor->concurrency(), 0);
}

TEST(ReadAhead, LetsThreadsBeginLongElements) {
  const auto run = execution({.num_threads = 2});
  const auto time_to_begin = [&](const Sample& sample) {
    return choose_read_ahead({}, *run, sample).time_to_begin.count();
  };
  EXPECT_GT(time_to_begin({std::int64_t{4} << 20, {}}), 0);
  EXPECT_GT(time_to_begin({8, std::chrono::milliseconds(6)}), 0);
  EXPECT_EQ(time_to_begin({1 << 20, std::chrono::milliseconds(5)}), 0);
  EXPECT_GT(estimated({}, {}, {3, std::int64_t{4} << 20}).time_to_begin.count(), 0);
}

TEST(ReadAhead, MakesMoreOfTinyElementsOfNativePlansAlone) {
  const ReadAhead native = estimated({}, {}, {3, 100});
  EXPECT_EQ(native.burst, 16);
  EXPECT_EQ(native.depth, 64);
  EXPECT_GT(native.inline_threshold.count(), 0);
  EXPECT_EQ(native.time_to_begin.count(), 0);
  const ReadAhead large = estimated({}, {}, {3, 64 << 10});
  EXPECT_EQ(large.burst, 4);
  EXPECT_EQ(large.depth, 16);
  EXPECT_EQ(large.inline_threshold.count(), 0);
  const ReadAhead calls = estimated({.runs_user_code = true, .num_parallel_calls = 5}, {}, {3, 100});
  EXPECT_EQ(calls.executor->concurrency(), 5);
  EXPECT_EQ(calls.burst, 1);
  EXPECT_EQ(calls.depth, 5);
  EXPECT_EQ(estimated({.runs_user_code = true}, {}, {3, 100}).executor->concurrency(), 1);
}

}  // namespace
}  // namespace torch_distinput
