// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/time_histogram.h"

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

TEST(TimeHistogram, TellsQuantilesWithinATenth) {
  TimeHistogram times;
  EXPECT_EQ(times.quantile(0.5), 0);
  for (int i = 0; i < 98; ++i) times.add(30 * kMillisecond);
  for (int i = 0; i < 2; ++i) times.add(2 * kSecond);
  for (const double share : {0.0, 0.5, 0.98}) {
    const Nanos found = times.quantile(share);
    EXPECT_NEAR(static_cast<double>(found), 30.0 * kMillisecond, 3.0 * kMillisecond) << share;
  }
  EXPECT_NEAR(static_cast<double>(times.quantile(0.99)), 2.0 * kSecond, 0.2 * kSecond);
}

TEST(TimeHistogram, IsADifferenceOfMoments) {
  TimeHistogram times;
  for (int i = 0; i < 100; ++i) times.add(kMillisecond);
  const TimeHistogram before = times;
  for (int i = 0; i < 3; ++i) times.add(kSecond);
  times -= before;
  EXPECT_GT(times.quantile(0.0), kSecond / 2);
}

TEST(TimeHistogram, TakesAllTimes) {
  TimeHistogram times;
  for (const Nanos time : {Nanos{-5}, Nanos{0}, Nanos{1}, 1000 * kSecond}) times.add(time);
  EXPECT_LT(times.quantile(0.5), kMillisecond);
  EXPECT_GT(times.quantile(1.0), 5 * kSecond);
}

}  // namespace
}  // namespace torch_distinput
