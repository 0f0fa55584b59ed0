// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/round.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "distribute/coordination/round_testing.h"

namespace torch_distinput {
namespace {

using round_testing::summary_of;

using After = RankStatus::After;

std::vector<std::int64_t> valid_of(const Round& round) {
  std::vector<std::int64_t> rows;
  for (const auto& step : round.released) rows.push_back(step.global_valid);
  return rows;
}

Round decide(const std::vector<RankStatus>& statuses, const RoundRules& rules) {
  return decide_round(summary_of(statuses, rules), rules);
}

TEST(Round, ReleasesTheStepsThatEveryRankHasReady) {
  const Round round = decide({{{4, 4, 4}}, {{4, 4}}, {{4, 4, 4, 4}}}, {});
  EXPECT_EQ(valid_of(round), (std::vector<std::int64_t>{12, 12}));
  EXPECT_FALSE(round.released[1].last);
  EXPECT_FALSE(round.ended);
}

TEST(Round, RanksThatHaveEndedDoNotDelayTheOthers) {
  const Round round = decide({{{4, 3}, After::kEnd}, {{4, 4, 4}}, {{}, After::kEnd}}, {});
  EXPECT_EQ(valid_of(round), (std::vector<std::int64_t>{8, 7, 4}));
  EXPECT_FALSE(round.released[0].complete);
  EXPECT_FALSE(round.released[2].last);
  EXPECT_FALSE(round.ended);
}

TEST(Round, TheRestIsReleasedAtOnceWhenAllHaveEnded) {
  const Round round = decide({{{4, 4, 1}, After::kEnd}, {{2}, After::kEnd}}, {});
  EXPECT_EQ(valid_of(round), (std::vector<std::int64_t>{6, 4, 1}));
  EXPECT_TRUE(round.released[0].complete);
  EXPECT_TRUE(round.released[0].last_complete);
  EXPECT_FALSE(round.released[1].complete);
  EXPECT_FALSE(round.released[1].last);
  EXPECT_TRUE(round.released[2].last);
  EXPECT_TRUE(round.ended);
}

TEST(Round, RanksWithoutAnyDataEndAtOnce) {
  const Round round = decide({{{}, After::kEnd}, {{}, After::kEnd}}, {});
  EXPECT_TRUE(round.released.empty());
  EXPECT_TRUE(round.ended);
}

TEST(Round, UntilFirstEndsWithTheShortestRank) {
  const Round round = decide({{{4, 4, 4}}, {{4, 4}, After::kEnd}}, {.until_first = true});
  EXPECT_EQ(valid_of(round), (std::vector<std::int64_t>{8, 8}));
  EXPECT_TRUE(round.released[1].last);
  EXPECT_TRUE(round.ended);
}

TEST(Round, AFailureIsDueWhenTheStepsBeforeItAreReleased) {
  const RankStatus failing{{4, 4}, After::kFailure, "the disk is full"};
  const Round early = decide({{{4}}, failing}, {});
  EXPECT_EQ(early.released.size(), 1U);
  EXPECT_FALSE(early.failed);
  const Round due = decide({{{4, 4, 4}}, failing}, {});
  EXPECT_EQ(due.released.size(), 2U);
  EXPECT_EQ(due.failed, 1);
}

TEST(Round, RanksOfOneStreamFailWhereTheirPositionsDiffer) {
  const Round round =
      decide({{{1, 1, 1}, After::kMore, "", {7, 8, 9}}, {{1, 1, 1}, After::kMore, "", {7, 5, 9}}}, {});
  EXPECT_EQ(round.released.size(), 1U);
  EXPECT_EQ(round.failed, 1);
  EXPECT_TRUE(round.apart);
  EXPECT_EQ(decide({{{1}, After::kEnd, "", {7}}, {{}, After::kEnd, ""}}, {}).failed, 1);
}

TEST(Round, AFailureIsDueEvenIfTheOthersHaveEnded) {
  const Round round = decide({{{4}, After::kEnd}, {{4, 4}, After::kFailure, "no"}}, {});
  EXPECT_EQ(round.released.size(), 2U);
  EXPECT_EQ(round.failed, 1);
  EXPECT_FALSE(round.ended);
}

RankStatus status(std::vector<std::int64_t> valid, std::vector<bool> lacking, After after) {
  return {std::move(valid), after, "", {}, std::move(lacking)};
}

TEST(Round, TheLatestStepIsHeldBackWhereTheLastOneIsMerged) {
  const RoundRules rules{.merged_replicas = 2};
  const auto full = status({4, 4}, {false, false}, After::kMore);
  EXPECT_EQ(valid_of(decide({full, full}, rules)), (std::vector<std::int64_t>{8}));
  // A failure that follows is not an end.
  RankStatus failing = full;
  failing.after = After::kFailure;
  const Round round = decide({full, failing}, rules);
  EXPECT_EQ(valid_of(round), (std::vector<std::int64_t>{8, 8}));
  EXPECT_EQ(round.failed, 1);
}

TEST(Round, ALastStepThatLacksRowsIsMergedWhereThatGivesEveryReplicaSome) {
  const RoundRules rules{.merged_replicas = 2};
  const auto ended = [](std::vector<std::int64_t> valid, std::vector<bool> lacking) {
    return status(std::move(valid), std::move(lacking), After::kEnd);
  };
  const auto longer = ended({4, 4, 3}, {false, false, false});
  const Round round = decide({longer, ended({4, 4}, {false, false})}, rules);
  EXPECT_EQ(valid_of(round), (std::vector<std::int64_t>{8, 11}));
  EXPECT_TRUE(round.released[1].merged && round.released[1].last && round.released[1].complete);
  EXPECT_FALSE(round.released[0].last);
  // Also where a split leaves a replica of one rank without rows.
  EXPECT_EQ(valid_of(decide({longer, ended({4, 4, 2}, {false, false, true})}, rules)),
            (std::vector<std::int64_t>{8, 13}));
  // A rank that ended two steps earlier has no rows for them.
  EXPECT_EQ(valid_of(decide({longer, ended({4}, {false})}, rules)), (std::vector<std::int64_t>{8, 4, 3}));
  // Nothing lacks.
  EXPECT_EQ(valid_of(decide({longer, longer}, rules)), (std::vector<std::int64_t>{8, 8, 6}));
  // An only step is dealt out anew.
  EXPECT_TRUE(decide({ended({5}, {false}), ended({3}, {true})}, rules).released[0].merged);
  EXPECT_FALSE(decide({ended({5}, {false}), ended({1}, {true})}, rules).released[0].merged);
}

/// Rounds over streams of known lengths, cut into portions at random, release exactly what lock-step would.
TEST(Round, AnyCutIntoRoundsReleasesTheSameSteps) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 500; ++trial) {
    const bool until_first = trial % 3 == 0;
    std::vector<std::vector<std::int64_t>> streams(1 + random() % 5);
    for (auto& stream : streams) {
      stream.resize(random() % 12);
      for (auto& rows : stream) rows = static_cast<std::int64_t>(random() % 9);
    }
    const auto length = [](const auto& stream) { return stream.size(); };
    const std::size_t expected = until_first ? std::ranges::min(streams, {}, length).size()
                                             : std::ranges::max(streams, {}, length).size();
    std::size_t taken = 0;
    bool ended = false;
    while (!ended) {
      std::vector<RankStatus> statuses;
      for (const auto& stream : streams) {
        const std::size_t left = stream.size() - std::min(taken, stream.size());
        const std::size_t ready = std::min<std::size_t>(left, 1 + random() % 4);
        RankStatus status;
        status.valid.assign(stream.end() - static_cast<std::ptrdiff_t>(left),
                            stream.end() - static_cast<std::ptrdiff_t>(left - ready));
        if (ready == left) status.after = After::kEnd;
        statuses.push_back(status);
      }
      const Round round = decide(statuses, {.until_first = until_first});
      ASSERT_TRUE(!round.released.empty() || round.ended);
      for (const auto& step : round.released) {
        std::int64_t rows = 0;
        for (const auto& stream : streams) rows += taken < stream.size() ? stream[taken] : 0;
        ASSERT_EQ(step.global_valid, rows);
        ++taken;
        ASSERT_EQ(step.last, taken == expected);
      }
      ended = round.ended;
    }
    ASSERT_EQ(taken, expected);
  }
}

}  // namespace
}  // namespace torch_distinput
