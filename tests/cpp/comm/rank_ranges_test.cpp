// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/rank_ranges.h"

#include <limits>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "comm/waiting.h"
#include "support/errors.h"
#include "support/mutations.h"

namespace torch_distinput {
namespace {

RankRanges ranges_of(const std::set<int>& ranks) {
  RankRanges ranges;
  for (const int rank : ranks) ranges.add(rank);
  return ranges;
}

std::string encoded(const RankRanges& ranges) {
  PeerTextWriter text;
  ranges.encode(text);
  return text.take();
}

RankRanges decoded(const std::string& text, int group) {
  PeerTextReader reader(text, "text");
  RankRanges ranges = RankRanges::decode(reader, group);
  reader.end();
  return ranges;
}

std::set<int> random_ranks(std::mt19937_64& random) {
  std::set<int> ranks;
  for (std::uint64_t count = random() % 20; count > 0; --count) ranks.insert(static_cast<int>(random() % 24));
  return ranks;
}

TEST(RankRanges, ReadsAsASentence) {
  EXPECT_EQ(name_ranks(RankRanges::of(3)), "rank 3");
  EXPECT_EQ(name_ranks(ranges_of({0, 2})), "ranks 0 and 2");
  EXPECT_EQ(name_ranks(ranges_of({4, 5})), "ranks 4 and 5");
  EXPECT_EQ(name_ranks(ranges_of({1, 2, 3})), "ranks 1-3");
  EXPECT_EQ(name_ranks(ranges_of({0, 1, 2, 3, 12, 16, 17, 18})), "ranks 0-3, 12 and 16-18");
  EXPECT_EQ(name_ranks(ranges_of({0, 1, 5, 6})), "ranks 0, 1, 5 and 6");
}

TEST(RankRanges, AllRanksOfALargeGroupAreOneRange) {
  std::vector<int> ranks(4'000);
  std::iota(ranks.begin(), ranks.end(), 0);
  EXPECT_EQ(name_ranks(ranks), "ranks 0-3999");
}

TEST(RankRanges, IsASetInAnyOrder) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2'000; ++i) {
    const std::set<int> one = random_ranks(random);
    const std::set<int> other = random_ranks(random);
    std::set<int> both = one;
    both.insert(other.begin(), other.end());

    std::vector<int> shuffled(both.begin(), both.end());
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    RankRanges added;
    for (const int rank : shuffled) added.add(rank);
    RankRanges joined = ranges_of(one);
    joined.join(ranges_of(other));

    EXPECT_EQ(joined, ranges_of(both));
    EXPECT_EQ(added, joined);
    EXPECT_EQ(joined.count(), both.size());
    EXPECT_EQ(joined.empty(), both.empty());
    if (!both.empty()) {
      EXPECT_EQ(joined.first(), *both.begin());
    }
    EXPECT_EQ(ranges_of(one).overlaps(ranges_of(other)), both.size() < one.size() + other.size());
    EXPECT_EQ(decoded(encoded(joined), 24), joined);
  }
}

TEST(RankRanges, RefusesATextThatItDoesNotWrite) {
  const auto refusal = [](const std::string& text) {
    return message_of<PeerTextError>([&] { decoded(text, 8); });
  };
  EXPECT_EQ(decoded("2 0 2 4 7 ", 8), ranges_of({0, 1, 2, 4, 5, 6, 7}));
  for (const char* const text :
       {"1 0 8 ", "1 3 2 ", "1 -1 0 ", "2 0 2 3 4 ", "2 0 7 8 8 ", "2 4 5 0 1 ", "99999999 0 1 ", "1 0 ", ""})
    EXPECT_NE(refusal(text), "") << text;
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_EQ(decoded("1 0 " + std::to_string(kMost - 1) + " ", kMost).count(), std::size_t{kMost});
}

TEST(RankRanges, DamagedTextsAreErrorsOrSetsWithinTheGroup) {
  std::mt19937_64 random(4);
  const std::string good = encoded(ranges_of({0, 1, 2, 5, 7, 8, 9, 10, 20, 31}));
  for (int i = 0; i < mutations_testing::kMutations; ++i) {
    const std::string bad = mutations_testing::mutated(good, random);
    try {
      EXPECT_LE(decoded(bad, 32).count(), 32U);
    } catch (const PeerTextError&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace torch_distinput
