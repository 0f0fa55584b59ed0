// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/byte_set.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

TEST(ByteSet, JoinsRangesThatTouchAndCutsThoseThatLoseTheirMiddle) {
  ByteSet set;
  set.add({10, 5});
  set.add({15, 5});
  set.add({30, 0});
  EXPECT_EQ(set.ranges(), (std::vector<ByteRange>{{10, 10}}));
  set.remove({12, 3});
  EXPECT_EQ(set.ranges(), (std::vector<ByteRange>{{10, 2}, {15, 5}}));
  set.remove({0, 100});
  EXPECT_TRUE(set.empty());
}

TEST(ByteSet, HoldsWhatASetOfSingleBytesHolds) {
  std::mt19937_64 random(9);
  for (int turn = 0; turn < 200; ++turn) {
    ByteSet set;
    std::set<std::uint64_t> bytes;
    for (int change = 0; change < 40; ++change) {
      const ByteRange range{random() % 60, random() % 12};
      const bool adds = random() % 2 == 0;
      adds ? set.add(range) : set.remove(range);
      for (std::uint64_t byte = range.offset; byte < range.end(); ++byte) {
        if (adds)
          bytes.insert(byte);
        else
          bytes.erase(byte);
      }
      std::set<std::uint64_t> found;
      std::uint64_t end = 0;
      for (const ByteRange& part : set.ranges()) {
        ASSERT_GT(part.size, 0u);
        ASSERT_TRUE(found.empty() || part.offset > end) << "they touch";
        end = part.end();
        for (std::uint64_t byte = part.offset; byte < end; ++byte) found.insert(byte);
      }
      ASSERT_EQ(found, bytes);
      ASSERT_EQ(set.empty(), bytes.empty());
    }
  }
}

}  // namespace
}  // namespace torch_distinput
