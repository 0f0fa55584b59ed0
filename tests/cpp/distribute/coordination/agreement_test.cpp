// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/agreement.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "distribute/coordination/round_testing.h"

namespace torch_distinput {
namespace {

using round_testing::joined;
using Rows = std::vector<std::int64_t>;

/// The stream of one rank, and how it ends.
struct Stream {
  Rows valid;               // of each step
  std::vector<bool> lacks;  // whether a replica gets no row of each step
  bool fails = false;       // after them
};

/// What a rank's consumer received.
struct Told {
  Rows global_valid;
  Rows own;
  std::vector<bool> last;
  std::optional<Agreement::Failure> failure;
  bool ended = false;
};

/// The rows of `stream` in the steps from `first` on.
std::int64_t rows_from(const Stream& stream, std::size_t first) {
  return std::accumulate(
      stream.valid.begin() + static_cast<std::ptrdiff_t>(std::min(first, stream.valid.size())),
      stream.valid.end(), std::int64_t{0});
}

/// The last two of all steps as one, if a replica gets no row of the last, and there are enough on every
/// rank.
void merge_last(Told& told, const std::vector<Stream>& streams, std::int64_t replicas) {
  const std::size_t steps = told.global_valid.size();
  const auto lacks = [&](const Stream& stream) { return stream.valid.size() < steps || stream.lacks.back(); };
  if (steps == 0 || std::ranges::none_of(streams, lacks)) return;
  const std::size_t first = steps - std::min<std::size_t>(steps, 2);
  const auto enough = [&](const Stream& stream) { return rows_from(stream, first) >= replicas; };
  if (!std::ranges::all_of(streams, enough)) return;
  while (told.global_valid.size() > first + 1) {
    told.global_valid[first] += told.global_valid.back();
    told.own[first] += told.own.back();
    told.global_valid.pop_back();
    told.own.pop_back();
    told.last.pop_back();
  }
}

/// What every rank must be told: lock-step, with all streams in sight.
Told expected(const std::vector<Stream>& streams, std::size_t rank, const RoundRules& rules) {
  const bool until_first = rules.until_first;
  Told told;
  for (std::size_t step = 0;; ++step) {
    const auto ends = [&](const Stream& stream) { return !stream.fails && step >= stream.valid.size(); };
    const bool over = until_first ? std::ranges::any_of(streams, ends) : std::ranges::all_of(streams, ends);
    if (over) {
      if (rules.merged_replicas > 0) merge_last(told, streams, rules.merged_replicas);
      told.ended = true;
      if (!told.last.empty()) told.last.back() = true;
      return told;
    }
    const auto failed =
        std::ranges::find_if(streams, [&](const Stream& s) { return s.fails && step >= s.valid.size(); });
    if (failed != streams.end()) {
      told.failure = {static_cast<int>(failed - streams.begin()), ""};
      return told;
    }
    std::int64_t rows = 0;
    for (const Stream& stream : streams) rows += step < stream.valid.size() ? stream.valid[step] : 0;
    told.global_valid.push_back(rows);
    told.own.push_back(step < streams[rank].valid.size());
    told.last.push_back(false);
  }
}

/// Ranks whose streams, rounds and consumers act in a random order, which is one possible interleaving.
class World {
 public:
  World(std::vector<Stream> streams, const RoundRules& rules, std::mt19937& random)
      : streams_(std::move(streams)), merges_(rules.merged_replicas > 0), random_(random) {
    for (std::size_t rank = 0; rank < streams_.size(); ++rank)
      ranks_.push_back({Agreement(draw_ahead(), rules)});
  }

  /// Runs until no rank can act any more.
  std::vector<Told> run() {
    std::vector<std::size_t> order;
    while (!(order = able()).empty()) act(order[random_() % order.size()]);
    std::vector<Told> told;
    for (const Rank& rank : ranks_) told.push_back(rank.told);
    return told;
  }

  std::int64_t rounds() const { return std::ssize(rounds_); }

 private:
  struct Rank {
    Agreement agreement;
    std::size_t made = 0;    // steps of its stream
    bool closed = false;     // its stream has reported its end
    std::size_t rounds = 0;  // completed
    bool has_sent = false;   // has sent its status in round `rounds`
    Told told = {};
  };
  enum Act : std::size_t { kMake, kSpeak, kHear, kConsume, kActs };

  /// A new read-ahead for each step, as if it followed the steps' sizes.
  std::int64_t draw_ahead() { return 1 + static_cast<std::int64_t>(random_() % 8); }

  bool can(std::size_t number, Act act) const {
    const Rank& rank = ranks_[number];
    switch (act) {
      case kMake:
        return !rank.closed && (rank.agreement.has_room() || rank.made == streams_[number].valid.size());
      case kSpeak:
        return !rank.has_sent && rank.agreement.wants_round();
      case kHear:
        return rank.has_sent &&
               std::ranges::all_of(rounds_[rank.rounds], [](const auto& t) { return t.has_value(); });
      default:
        return rank.agreement.released() > 0;
    }
  }

  std::vector<std::size_t> able() const {
    std::vector<std::size_t> found;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      for (std::size_t act = 0; act < kActs; ++act)
        if (can(rank, static_cast<Act>(act))) found.push_back(rank * kActs + act);
    return found;
  }

  void act(std::size_t choice) {
    const std::size_t number = choice / kActs;
    Rank& rank = ranks_[number];
    switch (static_cast<Act>(choice % kActs)) {
      case kMake:
        return make(number);
      case kSpeak:
        if (rank.rounds == rounds_.size()) rounds_.emplace_back(ranks_.size());
        rounds_[rank.rounds][number] = rank.agreement.summary(static_cast<int>(number)).encode();
        rank.has_sent = true;
        return;
      case kHear: {
        std::vector<std::string> texts;
        for (const auto& text : rounds_[rank.rounds++]) texts.push_back(*text);
        const auto size = static_cast<int>(texts.size());
        rank.agreement.apply(round_of_all(join_rounds(texts, size), size));
        rank.has_sent = false;
        break;
      }
      default: {
        std::int64_t own = 0;
        const Round::Step step = rank.agreement.take(own);
        rank.told.global_valid.push_back(step.global_valid);
        rank.told.own.push_back(own);
        rank.told.last.push_back(step.last);
      }
    }
    if (rank.agreement.released() > 0) return;
    rank.told.ended = rank.agreement.ended();
    rank.told.failure = rank.agreement.failure();
  }

  void make(std::size_t number) {
    Rank& rank = ranks_[number];
    const Stream& stream = streams_[number];
    if (rank.made < stream.valid.size()) {
      rank.agreement.add_step({.valid = stream.valid[rank.made], .lacks = stream.lacks[rank.made]});
      ++rank.made;
      rank.agreement.read_ahead(draw_ahead());
    }
    // A stream may tell its end with its last step or afterwards.
    const bool waits = stream.fails || !merges_;
    if (rank.made < stream.valid.size() || (waits && random_() % 2 == 0)) return;
    rank.closed = true;
    if (stream.fails) {
      rank.agreement.fail("rank " + std::to_string(number));
    } else {
      rank.agreement.end();
    }
  }

  std::vector<Stream> streams_;
  bool merges_;
  std::mt19937& random_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<std::optional<std::string>>> rounds_;
};

std::vector<Stream> random_streams(std::mt19937& random) {
  std::vector<Stream> streams(1 + random() % 5);
  for (Stream& stream : streams) {
    stream.valid.resize(random() % 14);
    for (auto& rows : stream.valid) rows = static_cast<std::int64_t>(random() % 5);
    // Two replicas: a split may leave one without rows, also of several.
    for (const auto rows : stream.valid) stream.lacks.push_back(rows < 2 || random() % 4 == 0);
    stream.fails = random() % 8 == 0;
  }
  return streams;
}

TEST(Agreement, DecidesTheSameOnEveryRankInManyInterleavings) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 12'000; ++trial) {
    const auto streams = random_streams(random);
    const RoundRules rules{.until_first = trial % 3 == 0, .merged_replicas = trial % 3 == 1 ? 2 : 0};
    World world(streams, rules, random);
    const auto told = world.run();
    for (std::size_t rank = 0; rank < streams.size(); ++rank) {
      const Told wanted = expected(streams, rank, rules);
      ASSERT_EQ(told[rank].global_valid, wanted.global_valid) << "trial " << trial << ", rank " << rank;
      ASSERT_EQ(told[rank].own, wanted.own);
      ASSERT_EQ(told[rank].ended, wanted.ended);
      ASSERT_EQ(told[rank].failure.has_value(), wanted.failure.has_value());
      if (!wanted.failure) continue;
      // If several ranks fail at the same step, any of them, but the same on every rank.
      const Agreement::Failure& failure = *told[rank].failure;
      const Stream& blamed = streams[static_cast<std::size_t>(failure.rank)];
      ASSERT_TRUE(blamed.fails && blamed.valid.size() == wanted.global_valid.size());
      ASSERT_EQ(failure.rank, told[0].failure->rank);
      ASSERT_EQ(failure.message, "rank " + std::to_string(failure.rank));
    }
  }
}

/// A step is known to be the last where every rank knew of its own last step in time, as streams here do.
TEST(Agreement, MarksTheLastStepIfEveryStreamReportsItsEndWithIt) {
  Agreement one(4, {});
  Agreement two(4, {});
  one.add_step({.valid = 2});
  one.end();
  two.add_step({.valid = 3});
  two.add_step({.valid = 1});
  two.end();
  one.apply(joined(one.summary(0), two.summary(1)));
  std::int64_t own = 0;
  EXPECT_FALSE(one.take(own).last);
  EXPECT_TRUE(own);
  EXPECT_TRUE(one.take(own).last);
  EXPECT_EQ(own, 0);
  EXPECT_TRUE(one.ended());
}

TEST(Agreement, ARoundCoversHalfOfTheReadAhead) {
  Agreement agreement(64, {});
  std::int64_t rounds = 0;
  constexpr std::int64_t kSteps = 3200;
  std::int64_t made = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    while (agreement.has_room() && made < kSteps) {
      agreement.add_step({.valid = 1});
      ++made;
    }
    if (agreement.wants_round()) {
      agreement.apply(joined(agreement.summary(0), agreement.summary(1)));
      ++rounds;
    }
    std::int64_t own = 0;
    ASSERT_EQ(agreement.take(own).global_valid, 2);
  }
  EXPECT_LE(rounds, kSteps / 32 + 1);
}

TEST(Agreement, AFullReadAheadIsRefilledSeveralStepsAtATime) {
  for (const std::int64_t ahead : {1, 2, 8, 64}) {
    Agreement agreement(ahead, {});
    const RankStatus other = [&] {
      RankStatus status;
      status.valid.assign(static_cast<std::size_t>(ahead), 1);
      return status;
    }();
    while (agreement.has_room()) agreement.add_step({.valid = 1});
    agreement.apply(joined(agreement.summary(0), RoundSummary::of(1, other, 0)));
    const std::int64_t portion = std::max<std::int64_t>(ahead / 8, 1);
    std::int64_t own = 0;
    for (std::int64_t taken = 0; taken < portion; ++taken) {
      EXPECT_FALSE(agreement.wants_steps());
      agreement.take(own);
      EXPECT_TRUE(agreement.has_room());
    }
    EXPECT_TRUE(agreement.wants_steps());
    agreement.end();
    EXPECT_FALSE(agreement.wants_steps());
  }
}

TEST(Agreement, AReadAheadMayGrowAndShrink) {
  Agreement agreement(2, {});
  for (int step = 0; step < 2; ++step) agreement.add_step({.valid = 1});
  EXPECT_FALSE(agreement.has_room());
  agreement.read_ahead(4);
  for (int step = 0; step < 2; ++step) agreement.add_step({.valid = 1});
  EXPECT_FALSE(agreement.has_room());
  agreement.read_ahead(1);
  EXPECT_TRUE(agreement.wants_round());
  agreement.apply(joined(agreement.summary(0), agreement.summary(1)));
  std::int64_t own = 0;
  for (int step = 0; step < 4; ++step) {
    EXPECT_FALSE(agreement.has_room());
    agreement.take(own);
  }
  EXPECT_TRUE(agreement.has_room());
}

TEST(Agreement, ARankWithoutStepsTakesPartInEveryRoundAtOnce) {
  Agreement ended(4, {});
  ended.end();
  RankStatus other;
  other.valid = {1, 1, 1};
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(ended.wants_round());
    ended.apply(joined(ended.summary(0), RoundSummary::of(1, other, 0)));
  }
  EXPECT_EQ(ended.released(), 15);
}

TEST(Agreement, NoRoundIsHeldWithoutNews) {
  const Agreement fresh(4, {});
  EXPECT_FALSE(fresh.wants_round());
  Agreement holding(1, {.merged_replicas = 1});
  holding.add_step({.valid = 1});
  EXPECT_FALSE(holding.wants_round());  // that step is held back until the next one is known
  ASSERT_TRUE(holding.has_room());
  holding.add_step({.valid = 1});
  EXPECT_TRUE(holding.wants_round());
}

}  // namespace
}  // namespace torch_distinput
