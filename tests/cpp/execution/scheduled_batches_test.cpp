// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/scheduled_batches.h"

#include <vector>

#include <gtest/gtest.h>

#include "torch_distinput/dataset.h"

namespace torch_distinput {
namespace {

using Entries = std::vector<BatchSizeFrom>;

TEST(ScheduledBatches, AreFoundWhereTheyAreInTheirPlace) {
  const Dataset batches = Dataset::range(20).batch(Entries{{0, 2}, {2, 5}});
  EXPECT_EQ(schedule_of(*batches.prefetch(2).node())->describe(), "[(0, 2), (2, 5)]");
  for (const Dataset& moved : {batches.skip(1), batches.shuffle(), batches.repeat(2)}) {
    EXPECT_EQ(schedule_of(*moved.node()), nullptr);
    EXPECT_TRUE(has_changing_batches(*moved.node()));
  }
  for (const Dataset& others : {batches.unbatch().batch(3), batches.rebatch({3}), Dataset::range(9).batch(2)})
    EXPECT_FALSE(has_changing_batches(*others.node()));
}

}  // namespace
}  // namespace torch_distinput
