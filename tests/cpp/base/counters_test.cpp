// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/counters.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

TEST(CountersTest, StartAtZero) {
  const Stats none = Counters{}.stats();
  EXPECT_EQ(none.batches + none.rows + none.bytes + none.waits + none.skipped + none.rounds, 0);
}

TEST(CountersTest, CountersAreIndependent) {
  Counters counters;
  counters.batches.add();
  counters.rows.add(20);
  counters.bytes.add(300);
  counters.waits.add(4);
  counters.skipped.add(5);
  counters.rounds.add(6);
  const Stats now = counters.stats();
  EXPECT_EQ(now.batches, 1);
  EXPECT_EQ(now.rows, 20);
  EXPECT_EQ(now.bytes, 300);
  EXPECT_EQ(now.waits, 4);
  EXPECT_EQ(now.skipped, 5);
  EXPECT_EQ(now.rounds, 6);
}

TEST(CountersTest, ThreadsLoseNothing) {
  Counter counter;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) counter.add();
      });
    }
  }
  EXPECT_EQ(counter.value(), 4000);
}

}  // namespace
}  // namespace torch_distinput
