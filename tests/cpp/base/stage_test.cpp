// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/stage.h"

#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "base/trace.h"

namespace torch_distinput {
namespace {

void spin_for(std::int64_t ns) {
  const std::int64_t end = clock_ns() + ns;
  while (clock_ns() < end) {
  }
}

std::int64_t time_of(const Counters& counters, Stage stage) {
  return counters.stage_ns[static_cast<std::size_t>(stage)].value();
}

TEST(StageScopeTest, CountsNothingWhereThereIsNoIterator) {
  StageScope scope(Stage::kRead);
  EXPECT_EQ(scope.end(), 0);
  EXPECT_EQ(current_work(), nullptr);
}

TEST(StageScopeTest, AnInnerStageCountsForItselfOnly) {
  const auto counters = std::make_shared<Counters>();
  const WorkScope work(counters);
  StageScope outer(Stage::kBuild);
  {
    const StageScope inner(Stage::kRead);
    spin_for(200'000);
  }
  const std::int64_t whole = outer.end();
  EXPECT_GE(time_of(*counters, Stage::kRead), 200'000);
  EXPECT_EQ(time_of(*counters, Stage::kBuild) + time_of(*counters, Stage::kRead), whole);
  EXPECT_EQ(outer.end(), 0);
}

TEST(StageScopeTest, InnerWorkForAnotherIteratorCountsForThatOne) {
  const auto ours = std::make_shared<Counters>();
  const auto other = std::make_shared<Counters>();
  const WorkScope work(ours);
  StageScope outer(Stage::kPython);
  {
    const WorkScope inner_work(other);
    const StageScope inner(Stage::kBuild);
    spin_for(100'000);
  }
  const std::int64_t whole = outer.end();
  EXPECT_EQ(time_of(*ours, Stage::kPython) + time_of(*other, Stage::kBuild), whole);
  EXPECT_EQ(time_of(*ours, Stage::kBuild), 0);
  EXPECT_EQ(current_work(), ours);
}

TEST(StageScopeTest, ScopesThatHaveNotEndedAreBusyToo) {
  const auto counters = std::make_shared<Counters>();
  const auto busy = [&](Stage stage) -> BusyTime& { return counters->busy[static_cast<std::size_t>(stage)]; };
  const WorkScope work(counters);
  const StageScope outer(Stage::kBuild);
  const std::int64_t first = clock_ns();
  const std::uint64_t build = busy(Stage::kBuild).read(first);
  const std::uint64_t read = busy(Stage::kRead).read(first);
  std::int64_t inner_time = 0;
  {
    StageScope inner(Stage::kRead);
    spin_for(100'000);
    inner_time = inner.end();
  }
  const std::int64_t second = clock_ns();
  EXPECT_EQ(BusyTime::between(read, busy(Stage::kRead).read(second)), inner_time);
  EXPECT_EQ(BusyTime::between(build, busy(Stage::kBuild).read(second)), second - first - inner_time);
}

TEST(BusyTimeTest, AddsUpManyThreadsAndWraps) {
  constexpr std::int64_t kLate = (std::int64_t{1} << 53) - 50;  // sums wrap meanwhile
  BusyTime busy;
  for (int thread = 0; thread < 1000; ++thread) busy.begin(kLate);
  const std::uint64_t before = busy.read(kLate + 10);
  for (int thread = 0; thread < 400; ++thread) busy.end(kLate + 60);
  EXPECT_EQ(BusyTime::between(before, busy.read(kLate + 110)), 1000 * 50 + 600 * 50);
}

TEST(TraceTest, KeepsTheSpansOfAllThreadsUpToTheMost) {
  const auto counters = std::make_shared<Counters>();
  const auto work_once = [&] {
    const WorkScope work(counters);
    const StageScope scope(Stage::kCopy);
    note_queue(1, 4);
  };
  work_once();
  ASSERT_TRUE(start_trace(2));
  EXPECT_FALSE(start_trace(2));
  work_once();
  std::thread(work_once).join();
  work_once();
  const Trace trace = stop_trace();
  work_once();
  ASSERT_EQ(trace.spans.size(), 2U);
  EXPECT_NE(trace.spans[0].thread, trace.spans[1].thread);
  EXPECT_EQ(trace.threads.size(), 2U);
  EXPECT_EQ(trace.queues.size(), 2U);
  EXPECT_EQ(trace.dropped, 2);
  EXPECT_TRUE(stop_trace().spans.empty());
}

}  // namespace
}  // namespace torch_distinput
