// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/batch_schedule.h"

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace torch_distinput {
namespace {

using Entries = std::vector<BatchSizeFrom>;

std::int64_t size_of(const Entries& entries, std::int64_t batch) {
  std::int64_t size = 0;
  for (const BatchSizeFrom& entry : entries) size = entry.step <= batch ? entry.size : size;
  return size;
}

TEST(BatchSchedule, FindsBatchesAndRowsAsCountingDoes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const auto number = [&](std::int64_t most) { return 1 + static_cast<std::int64_t>(random()) % most; };
    Entries entries{{0, number(5)}};
    for (std::int64_t more = number(4); more > 1; --more)
      entries.push_back({entries.back().step + number(4), number(5)});
    const BatchSchedule schedule("batch", entries);
    std::int64_t row = 0;
    for (std::int64_t batch = 0; batch < 30; ++batch) {
      const std::int64_t size = size_of(entries, batch);
      ASSERT_EQ(schedule.size(batch), size) << schedule.describe() << " batch " << batch;
      ASSERT_EQ(schedule.first_row(batch), row);
      for (std::int64_t i = 0; i < size; ++i, ++row) {
        ASSERT_EQ(schedule.batch_of(row), batch) << schedule.describe() << " row " << row;
        ASSERT_EQ(schedule.count(row, true), batch);
        ASSERT_EQ(schedule.count(row, false), batch + (i > 0 ? 1 : 0));
      }
    }
  }
}

TEST(BatchSchedule, OfOneSizeIsConstant) {
  EXPECT_TRUE(BatchSchedule("batch", 4).is_constant());
  EXPECT_EQ(BatchSchedule("batch", Entries{{0, 4}, {3, 4}}).describe(), "4");
  EXPECT_EQ(BatchSchedule("batch", Entries{{0, 4}, {3, 4}, {5, 8}}).describe(), "[(0, 4), (5, 8)]");
  EXPECT_EQ(BatchSchedule("batch", Entries{{0, 4}, {5, 8}, {6, 2}}).largest(), 8);
  EXPECT_EQ(BatchSchedule("batch", Entries{{0, 4}, {5, 8}, {6, 2}}).smallest(), 2);
}

TEST(BatchSchedule, CountsStepsThatNoDataReaches) {
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  const BatchSchedule schedule("batch", Entries{{0, 4}, {kLast - 1, 8}});
  EXPECT_EQ(schedule.size(kLast), 8);
  EXPECT_EQ(schedule.first_row(kLast), kLast);
  EXPECT_EQ(schedule.count(10, false), 3);
}

TEST(BatchSchedule, RefusesEntriesThatAreNoSchedule) {
  const auto refusal = [](Entries entries) {
    return message_of<c10::ValueError>([&] { BatchSchedule("batch", entries); });
  };
  EXPECT_EQ(refusal({}),
            "batch: the schedule `batch_size` must begin with the size from step 0 on, but has no entries.");
  EXPECT_EQ(
      refusal({{1, 4}}),
      "batch: the schedule `batch_size` must begin with the size from step 0 on, but begins at step 1.");
  EXPECT_EQ(
      refusal({{0, 4}, {2, 0}}),
      "batch: the sizes of the schedule `batch_size` must be at least 1, but from step 2 on the size is 0.");
  EXPECT_EQ(refusal({{0, 4}, {2, 1}, {2, 3}}),
            "batch: the steps of the schedule `batch_size` must increase, but 2 follows 2.");
}

}  // namespace
}  // namespace torch_distinput
