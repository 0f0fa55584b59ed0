// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/byte_source.h"

#include <cstdint>
#include <map>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

TEST(ByteSource, AsksForMoreAndMoreInOrder) {
  constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;
  const std::map<std::uint64_t, std::uint64_t> requests{
      {0, 0},         {1, 1},          {kMebi, 1},      {kMebi + 1, 2},   {3 * kMebi, 2},
      {7 * kMebi, 3}, {15 * kMebi, 4}, {31 * kMebi, 6}, {63 * kMebi, 10}, {1023 * kMebi, 130}};
  for (const auto& [size, count] : requests) EXPECT_EQ(requests_in_order(size), count) << size;
}

}  // namespace
}  // namespace torch_distinput
