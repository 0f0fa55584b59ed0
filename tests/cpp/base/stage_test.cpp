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
