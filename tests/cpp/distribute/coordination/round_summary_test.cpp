// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/round_summary.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "distribute/coordination/flat_round.h"
#include "distribute/coordination/round.h"
#include "distribute/coordination/round_testing.h"
#include "support/errors.h"
#include "support/random_trees.h"

namespace torch_distinput {
namespace {

using After = RankStatus::After;
using round_testing::decide_flat;
using round_testing::joined;

JoinTexts joins_rounds(int group) {
  return [group](const std::vector<std::string>& texts) { return join_rounds(texts, group); };
}

std::vector<std::string> texts_of(const std::vector<RankStatus>& statuses, const RoundRules& rules) {
  std::vector<std::string> texts;
  for (const RankStatus& status : statuses) {
    const auto rank = static_cast<int>(texts.size());
    texts.push_back(RoundSummary::of(rank, status, rules.merged_replicas).encode());
  }
  return texts;
}

/// How likely things are in the statuses of a round.
struct Odds {
  double fails;
  double ends;
  bool one_stream;
  std::int64_t most_ready;
};

RankStatus random_status(const Odds& odds, const RoundRules& rules, int rank, std::mt19937& random) {
  const auto chance = [&](double odds) { return std::uniform_real_distribution<>()(random) < odds; };
  const auto below = [&](std::uint32_t limit) { return static_cast<std::int64_t>(random() % limit); };
  RankStatus status;
  const std::int64_t ready = std::max<std::int64_t>(odds.most_ready - (chance(0.5) ? below(3) : 0), 0);
  for (std::int64_t step = 0; step < ready; ++step) {
    status.valid.push_back(std::array{0, 1, 2, 7}.at(static_cast<std::size_t>(below(4))));
    if (odds.one_stream) status.places.push_back(chance(0.02) ? 90 + below(3) : step);
    if (rules.merged_replicas > 0) status.lacking.push_back(chance(0.3));
  }
  const bool fails = chance(odds.fails);
  status.after = fails ? After::kFailure : chance(odds.ends) ? After::kEnd : After::kMore;
  if (fails) status.failure = "rank " + std::to_string(rank);
  return status;
}

/// The law: whatever tree statuses are reduced along, the decision is the one from all of them.
TEST(RoundSummary, DecidesAlongAnyTreeAsAllStatusesTogetherDo) {
  std::mt19937 random(1);
  const std::vector<std::pair<double, double>> odds_of_ends{{0, .2}, {.1, .3}, {0, 1}, {.05, .9}, {.3, 0}};
  int failed = 0, apart = 0, merged = 0, held = 0, ended = 0;
  for (int trial = 0; trial < 12'000; ++trial) {
    const auto [fails, ends] = odds_of_ends[random() % odds_of_ends.size()];
    const Odds odds{fails, ends, random() % 3 == 0, static_cast<std::int64_t>(random() % 6)};
    const bool until_first = random() % 5 < 2;
    const RoundRules rules{until_first, until_first ? 0 : static_cast<std::int64_t>(random() % 3)};
    std::vector<RankStatus> statuses(1 + random() % (trial % 20 == 0 ? 70 : 12));
    for (std::size_t rank = 0; rank < statuses.size(); ++rank)
      statuses[rank] = random_status(odds, rules, static_cast<int>(rank), random);
    const auto group = static_cast<int>(statuses.size());
    const std::string all = reduce_at_random(texts_of(statuses, rules), 5, joins_rounds(group), random);
    const Round round = decide_round(round_of_all(all, group), rules);
    const Round wanted = decide_flat(statuses, rules);
    ASSERT_EQ(round, wanted) << "trial " << trial << ": " << all;
    failed += wanted.failed && !wanted.apart ? 1 : 0;
    apart += wanted.apart ? 1 : 0;
    merged += !wanted.released.empty() && wanted.released.back().merged ? 1 : 0;
    held += rules.merged_replicas > 0 && !wanted.ended && !wanted.released.empty() ? 1 : 0;
    ended += wanted.ended ? 1 : 0;
  }
  EXPECT_GT(std::min({failed, apart, merged, held, ended}), 100)
      << failed << " " << apart << " " << merged << " " << held << " " << ended;
}

TEST(RoundSummary, AnyTreeLeavesTheSameText) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 500; ++trial) {
    const Odds odds{.2, .4, trial % 2 == 0, 4};
    std::vector<RankStatus> statuses(2 + random() % 20);
    for (auto& status : statuses) status = random_status(odds, {}, 0, random);
    const auto texts = texts_of(statuses, {});
    const JoinTexts join = joins_rounds(static_cast<int>(texts.size()));
    const std::string all = reduce_in_order(texts, 32, join);
    ASSERT_EQ(reduce_at_random(texts, 4, join, random), all);
    ASSERT_EQ(join({all}), all);
  }
}

/// Statuses of 32 steps whose numbers are as long as they can be, and as different.
RankStatus long_status(int rank, bool one_stream) {
  RankStatus status;
  status.after = static_cast<After>(rank % 3);
  status.valid.assign(static_cast<std::size_t>(rank / 3 % 33), RoundSummary::kMaxRows);
  if (one_stream) status.places.assign(status.valid.size(), std::numeric_limits<std::int64_t>::min());
  return status;
}

TEST(RoundSummary, ItsTextIsShortWhateverTheNumberOfRanks) {
  constexpr int kRanks = 16'384;
  const auto largest_of = [](const std::function<RankStatus(int)>& status) {
    std::size_t largest = 0;
    const JoinTexts join = [&](const std::vector<std::string>& texts) {
      std::string text = join_rounds(texts, kRanks);
      largest = std::max(largest, text.size());
      return text;
    };
    std::vector<std::string> texts;
    for (int rank = 0; rank < kRanks; ++rank)
      texts.push_back(RoundSummary::of(rank, status(rank), 2).encode());
    const RoundSummary all = round_of_all(reduce_in_order(std::move(texts), 32, join), kRanks);
    EXPECT_EQ(all.steps().size(), 33U);
    return largest;
  };
  EXPECT_LE(largest_of([](int rank) { return long_status(rank, false); }), 1024U);
  EXPECT_LE(largest_of([](int rank) { return long_status(rank, true); }), 2560U);
  // The largest text with positions: they come apart only after the last step.
  const auto late = [](int rank) {
    RankStatus status = long_status(3 * 32, true);
    if (rank % 2 == 1) status.places.back() = std::numeric_limits<std::int64_t>::max();
    return status;
  };
  EXPECT_LE(largest_of(late), 2560U);
}

TEST(RoundSummary, OnlyTheFirstFailureIsKeptAndItsMessageIsShort) {
  const RankStatus late{{1, 1}, After::kFailure, "late"};
  const RankStatus early{{1}, After::kFailure, "early"};
  const auto all = joined(joined(RoundSummary::of(0, late, 0), RoundSummary::of(2, early, 0)),
                          RoundSummary::of(1, early, 0));
  ASSERT_TRUE(all.failure());
  EXPECT_EQ(all.failure()->rank, 1);
  EXPECT_EQ(all.failure()->message, "early");
  EXPECT_EQ(all.encode().find("late"), std::string::npos);
  // It is cut between two characters.
  const auto cut = [](const std::string& message) {
    return RoundSummary::of(0, {{}, After::kFailure, message}, 0).failure()->message;
  };
  const std::string fits(RoundSummary::kMaxMessage, 'x');
  EXPECT_EQ(cut(fits), fits);
  EXPECT_EQ(cut(fits + "y"), fits.substr(3) + "...");
  std::string accented = fits.substr(4) + "\u00e9\u00e9\u00e9";
  EXPECT_EQ(cut(accented), fits.substr(4) + "...");
}

TEST(RoundSummary, RefusesTextsOfOtherRanksThanThoseOfTheGroup) {
  const std::string one = RoundSummary::of(0, {{1}}, 0).encode();
  const auto refusal = [](const std::function<void()>& read) { return message_of<PeerTextError>(read); };
  EXPECT_NE(refusal([&] { round_of_all(one, 2); }).find("the number of ranks must be 2, but is 1"),
            std::string::npos);
  EXPECT_NE(refusal([&] { join_rounds({one, one, one}, 2); }).find("must be at most 2, but is more"),
            std::string::npos);
  EXPECT_NE(refusal([&] { round_of_all(RoundSummary::of(2, {{1}}, 0).encode(), 2); }).find("the lowest rank"),
            std::string::npos);
}

TEST(RoundSummary, RefusesMoreThanAnyRankReports) {
  const auto refusal = [](const RankStatus& status) {
    const std::string text = RoundSummary::of(0, status, 0).encode();
    return message_of<PeerTextError>([&] { round_of_all(text, 1); });
  };
  const std::vector<std::int64_t> most(static_cast<std::size_t>(RoundSummary::kMaxSteps), 1);
  EXPECT_EQ(round_of_all(RoundSummary::of(0, {most}, 0).encode(), 1).steps().size(), most.size() + 1);
  EXPECT_NE(refusal({std::vector<std::int64_t>(most.size() + 1, 1)}).find("at most 64, but is more"),
            std::string::npos);
  EXPECT_NE(refusal({{RoundSummary::kMaxRows + 1}}).find("the rows of a step"), std::string::npos);
  EXPECT_NE(refusal({{1}, After::kMore, "", {7, 8}}).find("the number of positions"), std::string::npos);
  std::string text = RoundSummary::of(0, {{}, After::kFailure, "no"}, 0).encode();
  text.replace(text.find("2 no"), 4, "4097 " + std::string(4097, 'x'));
  EXPECT_NE(message_of<PeerTextError>([&] { round_of_all(text, 1); }).find("at most 4096 bytes long"),
            std::string::npos);
}

}  // namespace
}  // namespace torch_distinput
