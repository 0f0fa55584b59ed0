// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/read_announcer.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/stop_scope.h"
#include "remote/range_plan.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kKiB = 1024;

/// An announcer, and the calls that it makes.
struct Announced {
  Announced(std::int64_t begin, std::int64_t end, std::int64_t horizon, std::int64_t item_bytes)
      : announcer([this](std::int64_t from, std::int64_t to) { calls.emplace_back(from, to); }, begin, end,
                  horizon, item_bytes) {}

  /// The first item that was not announced. Checks that each before it was, once.
  std::int64_t until(std::int64_t begin = 0) const {
    for (const auto& [from, to] : calls) {
      EXPECT_EQ(from, std::exchange(begin, to));
      EXPECT_LT(from, to);
    }
    return begin;
  }

  std::vector<std::pair<std::int64_t, std::int64_t>> calls = {};
  ReadAnnouncer announcer;
};

TEST(ReadAnnouncer, BeginsWithTheHorizonWhereBytesAreKnown) {
  Announced announced(7, 1000, 10 * kKiB, kKiB);
  announced.announcer.begin(7, 1);
  EXPECT_EQ(announced.until(7), 7 + 1 + 10);
}

TEST(ReadAnnouncer, GoesOnWhenAnEighthOfTheHorizonHasBegun) {
  using Calls = std::vector<std::pair<std::int64_t, std::int64_t>>;
  Announced announced(0, 1000, 80 * kKiB, kKiB);
  announced.announcer.begin(0, 1);
  ASSERT_EQ(announced.until(), 81);
  announced.calls.clear();
  for (std::int64_t item = 1; item <= 30; ++item) {
    announced.announcer.begin(item, 1);
    ASSERT_GE(announced.until(81) - item, 1 + 70) << "of item " << item;
    ASSERT_LE(announced.until(81) - item, 1 + 80) << "of item " << item;
  }
  EXPECT_EQ(announced.calls, (Calls{{81, 91}, {91, 101}, {101, 111}}));
}

TEST(ReadAnnouncer, AnnouncesWhatIsLeftAtOnceNearTheEnd) {
  using Calls = std::vector<std::pair<std::int64_t, std::int64_t>>;
  Announced announced(0, 105, 100 * kKiB, kKiB);
  announced.announcer.begin(0, 1);
  announced.calls.clear();
  for (std::int64_t item = 1; item < 105; ++item) announced.announcer.begin(item, 1);
  EXPECT_EQ(announced.calls, (Calls{{101, 105}}));
}

TEST(ReadAnnouncer, TakesFewRequestsForRowsInOrder) {
  constexpr std::int64_t kRow = 100'000;
  constexpr std::int64_t kRows = 10'000;
  std::size_t requests = 0;
  const auto ask = [&](std::int64_t from, std::int64_t to) {
    const std::vector<ByteRange> rows{
        {static_cast<std::uint64_t>(from * kRow), static_cast<std::uint64_t>((to - from) * kRow)}};
    requests += plan_requests(rows, RangeRules()).size();
  };
  ReadAnnouncer announcer(ask, 0, kRows, std::int64_t{64} << 20, kRow);
  for (std::int64_t row = 0; row < kRows; ++row) announcer.begin(row, 1);
  const std::vector<ByteRange> all{{0, static_cast<std::uint64_t>(kRows * kRow)}};
  const std::size_t fewest = plan_requests(all, RangeRules()).size();
  EXPECT_LE(static_cast<double>(requests), 1.2 * static_cast<double>(fewest));
}

TEST(ReadAnnouncer, LetsWhatIsMadeFirstNotWaitForTheRest) {
  using Calls = std::vector<std::pair<std::int64_t, std::int64_t>>;
  Announced announced(0, 1000, 20 * kKiB, kKiB);
  announced.announcer.begin(0, 2);
  EXPECT_EQ(announced.calls, (Calls{{0, 2}, {2, 6}, {6, 14}, {14, 22}}));
}

TEST(ReadAnnouncer, BeginsWithAFewWhereBytesAreNotKnownAndFollowsTheMeasured) {
  Announced announced(0, 1000, 20 * kKiB, 0);
  announced.announcer.begin(0, 1);
  EXPECT_EQ(announced.until(), 3);
  announced.announcer.measure(1, kKiB);
  announced.announcer.begin(1, 1);
  EXPECT_EQ(announced.until(), 1 + 1 + 20);
  announced.announcer.measure(1, 9 * kKiB);
  announced.announcer.begin(2, 1);
  EXPECT_EQ(announced.until(), 22) << "what was announced stays so";
  announced.announcer.begin(40, 1);
  EXPECT_EQ(announced.until(), 40 + 1 + 4) << "20 KiB of elements of 5 KiB";
}

TEST(ReadAnnouncer, AnnouncesTwiceWhatBeginsHoweverLargeThatIs) {
  Announced announced(0, 1000, 1, kKiB);
  announced.announcer.begin(0, 32);
  EXPECT_EQ(announced.until(), 3 * 32);
}

TEST(ReadAnnouncer, AnnouncesNothingAheadWhereTheHorizonIsZero) {
  Announced announced(0, 1000, 0, 1);
  announced.announcer.begin(0, 1);
  EXPECT_EQ(announced.until(), 1);
  announced.announcer.begin(1, 4);
  EXPECT_EQ(announced.until(), 5);
}

TEST(ReadAnnouncer, EndsWithTheItems) {
  Announced announced(0, 5, std::numeric_limits<std::int64_t>::max(), 1);
  for (const std::int64_t item : {0, 1, 4}) announced.announcer.begin(item, 1);
  announced.announcer.begin(5, 0);
  EXPECT_EQ(announced.until(), 5);
  Announced endless(0, std::numeric_limits<std::int64_t>::max(), 3, 1);
  endless.announcer.begin(0, 1);
  EXPECT_EQ(endless.until(), 4);
}

TEST(ReadAnnouncer, BoundsItsCallsAndTheWorkOfTheFirstWhereItemsAreTiny) {
  Announced announced(0, std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 40, 1);
  announced.announcer.begin(0, 1);
  EXPECT_EQ(announced.until(), 1 + (1 << 16));
  for (const auto& [from, to] : announced.calls) ASSERT_LE(to - from, 4096);
}

TEST(ReadAnnouncer, DropsErrorsThatTheReaderWillGetAndThrowsInterrupts) {
  std::vector<std::int64_t> begun;
  ReadAnnouncer announcer(
      [&](std::int64_t from, std::int64_t) {
        begun.push_back(from);
        if (from == 0) throw std::runtime_error("no such round");
        if (from == 1) throw Stopped();
      },
      0, 10, 0, 1);
  EXPECT_NO_THROW(announcer.begin(0, 1));
  EXPECT_THROW(announcer.begin(1, 1), Stopped);
  EXPECT_NO_THROW(announcer.begin(2, 1));
  EXPECT_EQ(begun, (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(ReadAnnouncer, AnnouncesEachItemOnceBeforeAnyThreadMakesIt) {
  constexpr std::int64_t kItems = 4000;
  std::vector<std::int64_t> times(kItems, 0);
  ReadAnnouncer announcer(
      [&](std::int64_t from, std::int64_t to) {
        for (; from < to; ++from) ++times[static_cast<std::size_t>(from)];
      },
      0, kItems, 64, 1);
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> wrong{0};
  const auto make = [&] {
    for (std::int64_t item = next++; item < kItems; item = next++) {
      announcer.begin(item, 1);
      if (times[static_cast<std::size_t>(item)] != 1) ++wrong;
      announcer.measure(1, 1 + item % 3);
    }
  };
  {
    const std::jthread a(make);
    const std::jthread b(make);
    const std::jthread c(make);
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(times, std::vector<std::int64_t>(kItems, 1));
}

}  // namespace
}  // namespace torch_distinput
