// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include "remote/concurrency_limit.h"
#include "remote/latencies.h"

namespace torch_distinput {
namespace {

/// Lets requests of 100 ms run for `seconds`: as many as the limit has, which bring `rate(limit)` bytes a
/// second in all.
template <class Rate>
void load(ConcurrencyLimit& limit, Nanos& now, int seconds, Rate rate) {
  constexpr Nanos kStep = 10 * kMillisecond;
  for (const Nanos end = now + seconds * kSecond; now < end; now += kStep) {
    limit.note_demand(limit.limit(), true);
    limit.finished(100 * kMillisecond);
    limit.received(static_cast<std::uint64_t>(rate(limit.limit())) / 100, now);
  }
}

TEST(ConcurrencyLimit, GrowsToWhatFillsTheLink) {
  ConcurrencyLimit limit;
  EXPECT_EQ(limit.limit(), ConcurrencyLimit::kFirst);
  Nanos now = 0;
  load(limit, now, 20, [](int requests) { return 1e6 * std::min(requests, 100); });
  EXPECT_GE(limit.limit(), 90);
  EXPECT_LE(limit.limit(), 300);
}

TEST(ConcurrencyLimit, NeverGoesBeyondItsBounds) {
  ConcurrencyLimit limit;
  Nanos now = 0;
  load(limit, now, 60, [](int requests) { return 1e6 * requests; });
  EXPECT_EQ(limit.limit(), ConcurrencyLimit::kMost);
  for (int i = 0; i < 100; ++i) limit.throttled(now += kSecond);
  EXPECT_EQ(limit.limit(), 1);
}

TEST(ConcurrencyLimit, StaysWhereNothingWaits) {
  ConcurrencyLimit limit;
  for (Nanos now = 0; now < 20 * kSecond; now += 10 * kMillisecond) {
    limit.note_demand(2, false);
    limit.finished(100 * kMillisecond);
    limit.received(1'000'000, now);
  }
  EXPECT_EQ(limit.limit(), ConcurrencyLimit::kFirst);
}

TEST(ConcurrencyLimit, FallsOnceForAnOverloadAndComesBack) {
  ConcurrencyLimit limit;
  Nanos now = 0;
  const auto rate = [](int requests) { return 1e6 * std::min(requests, 100); };
  load(limit, now, 20, rate);
  const int before = limit.limit();
  for (int i = 0; i < 50; ++i) limit.throttled(now + i * kMillisecond);
  EXPECT_NEAR(limit.limit(), 0.7 * before, 1);
  load(limit, now, 10, rate);
  EXPECT_GE(limit.limit(), 0.9 * before);
}

TEST(ConcurrencyLimit, TellsAnOverloadFromErrorsHereAndThere) {
  const auto after = [](int answers_to_a_refusal) {
    ConcurrencyLimit limit;
    Nanos now = 0;
    for (int i = 1; i <= 1000; ++i) {
      limit.finished(kMillisecond);
      if (i % answers_to_a_refusal == 0) limit.throttled(now += kSecond);
    }
    return limit.limit();
  };
  EXPECT_EQ(after(100), ConcurrencyLimit::kFirst);
  EXPECT_EQ(after(30), ConcurrencyLimit::kFirst);
  EXPECT_EQ(after(5), 1);
}

TEST(ConcurrencyLimit, TakesClocksThatStandStill) {
  ConcurrencyLimit limit;
  for (int i = 0; i < 10'000; ++i) {
    limit.finished(0);
    limit.received(~std::uint64_t{0}, 0);
    ASSERT_GE(limit.limit(), 1);
    ASSERT_LE(limit.limit(), ConcurrencyLimit::kMost);
  }
}

TEST(Latencies, HasQuantilesOfTheLatestTimes) {
  Latencies latencies;
  EXPECT_EQ(latencies.quantile(0.5), 0);
  latencies.add(7);
  EXPECT_EQ(latencies.quantile(0), 7);
  EXPECT_EQ(latencies.quantile(1), 7);
  for (Nanos time = 1000; time > 0; --time) latencies.add(time);
  EXPECT_EQ(latencies.count(), 1001u);
  EXPECT_EQ(latencies.quantile(0), 1);
  EXPECT_NEAR(static_cast<double>(latencies.quantile(0.5)), 64, 2);
  EXPECT_EQ(latencies.quantile(1), 128);
}

TEST(Latencies, TellsTheRateOfLongBodiesOnly) {
  Latencies latencies;
  latencies.add_body(1'000, kSecond);
  EXPECT_EQ(latencies.rate(), 0);
  latencies.add_body(10'000'000, kSecond);
  EXPECT_EQ(latencies.rate(), 1e7);
  for (int i = 0; i < 100; ++i) latencies.add_body(20'000'000, kSecond);
  EXPECT_NEAR(latencies.rate(), 2e7, 1e4);
  latencies.add_body(1'000'000, 0);
  EXPECT_GT(latencies.rate(), 0);
}

}  // namespace
}  // namespace torch_distinput
