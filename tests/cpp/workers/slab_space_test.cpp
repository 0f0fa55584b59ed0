// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/slab_space.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

constexpr std::uint64_t kBegin = 4096;
constexpr std::uint64_t kEnd = std::uint64_t{1} << 24;

class SlabSpaceTest : public testing::Test {
 protected:
  SharedSegment segment_{kEnd};
  FreedSlabs freed_{};
  SlabSpace space_{segment_, freed_, kBegin, kEnd};
};

TEST_F(SlabSpaceTest, SlabsInUseNeverOverlapAndKeepTheirBytes) {
  std::mt19937 random(3);
  std::map<std::uint64_t, std::uint64_t> used;  // offset: bytes
  for (int turn = 0; turn < 5000; ++turn) {
    if (used.size() < 20) {
      const std::uint64_t bytes = 1 + random() % (turn % 2 == 0 ? 300 : 20000);
      const std::uint64_t slab = space_.allocate(bytes);
      ASSERT_NE(slab, 0U);
      ASSERT_EQ(slab % 64, 0U);
      ASSERT_LE(slab + bytes, end_of_slab(segment_, slab));
      for (const auto& [other, size] : used) ASSERT_TRUE(slab + bytes <= other || other + size <= slab);
      std::memset(segment_.data() + slab, static_cast<int>(slab / 64 % 251), bytes);
      used.emplace(slab, bytes);
    } else {
      const auto [slab, bytes] = *std::next(used.begin(), static_cast<int>(random() % used.size()));
      const char expected = static_cast<char>(slab / 64 % 251);
      const char* const data = segment_.data() + slab;
      ASSERT_TRUE(std::all_of(data, data + bytes, [&](char byte) { return byte == expected; }));
      used.erase(slab);
      free_slab(segment_, freed_, slab);
    }
  }
}

TEST_F(SlabSpaceTest, AFreedSlabIsUsedAgainBeforeTheSpaceGrows) {
  std::set<std::uint64_t> seen;
  for (int turn = 0; turn < 1000; ++turn) {
    const std::uint64_t slab = space_.allocate(5000);
    seen.insert(slab);
    free_slab(segment_, freed_, slab);
  }
  EXPECT_EQ(seen.size(), 1U);
}

TEST_F(SlabSpaceTest, MemoryThatNoBatchUsesIsGivenBack) {
  constexpr std::uint64_t kBytes = 20000;
  const std::uint64_t used = space_.allocate(kBytes);
  const std::uint64_t unused = space_.allocate(kBytes);
  const auto last_byte = [&](std::uint64_t slab) { return segment_.data()[slab + kBytes - 1]; };
  for (int turn = 0; turn < 3; ++turn) {
    std::memset(segment_.data() + used, 1, kBytes);
    std::memset(segment_.data() + unused, 1, kBytes);
    free_slab(segment_, freed_, unused);
    space_.give_back();
    EXPECT_EQ(last_byte(used), 1);
    EXPECT_EQ(last_byte(unused), 0);
    EXPECT_TRUE(take_discarded(segment_, unused));
    space_.give_back();
    EXPECT_FALSE(was_discarded(segment_, unused)) << "it had no pages any more";
    ASSERT_EQ(space_.allocate(kBytes), unused);
  }
}

TEST_F(SlabSpaceTest, AFullSpaceSaysSoAndRecovers) {
  std::vector<std::uint64_t> slabs;
  while (const std::uint64_t slab = space_.allocate(1 << 20)) slabs.push_back(slab);
  EXPECT_GE(slabs.size(), 7U);
  EXPECT_EQ(space_.allocate(std::uint64_t{1} << 60), 0U);
  free_slab(segment_, freed_, slabs.back());
  EXPECT_EQ(space_.allocate(1 << 20), slabs.back());
}

TEST_F(SlabSpaceTest, AnyThreadMayFree) {
  std::vector<std::uint64_t> slabs(400);
  for (std::uint64_t& slab : slabs) slab = space_.allocate(100);
  std::vector<std::thread> threads;
  for (std::size_t part = 0; part < 4; ++part) {
    threads.emplace_back([&, part] {
      for (std::size_t i = part; i < slabs.size(); i += 4) free_slab(segment_, freed_, slabs[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint64_t> again;
  for (std::size_t i = 0; i < slabs.size(); ++i) again.insert(space_.allocate(100));
  EXPECT_EQ(again, std::set<std::uint64_t>(slabs.begin(), slabs.end()));
}

}  // namespace
}  // namespace torch_distinput
