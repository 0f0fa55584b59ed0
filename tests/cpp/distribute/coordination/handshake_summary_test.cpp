// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/handshake_summary.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "distribute/coordination/flat_handshakes.h"
#include "support/errors.h"
#include "support/random_trees.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using handshake_testing::check_flat;

constexpr const char* kText = "the handshakes";

JoinTexts joins_handshakes(int group) {
  return [group](const std::vector<std::string>& texts) { return join_handshakes(texts, group, kText); };
}

std::vector<std::string> texts_of(const std::vector<Handshake>& handshakes) {
  std::vector<std::string> texts;
  for (const Handshake& handshake : handshakes)
    texts.push_back(HandshakeSummary::of(static_cast<int>(texts.size()), handshake).encode());
  return texts;
}

HandshakeSummary summary_of_all(const std::vector<Handshake>& handshakes) {
  const auto group = static_cast<int>(handshakes.size());
  return handshakes_of_all(joins_handshakes(group)(texts_of(handshakes)), group, kText);
}

/// The message of the error that `check` throws; empty if it throws none.
std::string error_of(const std::function<void()>& check) {
  try {
    check();
  } catch (const DistributedDatasetError& error) {
    return error.disagreed_on() + "|" + error.what_without_backtrace();
  }
  return "";
}

SpecPtr some_spec() {
  return std::make_shared<const ElementSpec>(
      ElementSpec{Structure::leaf(), {TensorSpec{Dims{kUnknownDim, 3}, c10::ScalarType::Float, {4, 3}}}});
}

Handshake handshake_of(std::vector<Handshake::Fact> facts) {
  return {std::move(facts), 7, 5, nullptr, false};
}

/// A handshake as ranks send it, which may differ from others in some way. `odd`: how likely it does.
Handshake random_handshake(double odd, std::mt19937& random) {
  const auto chance = [&](double odds) { return std::uniform_real_distribution<>()(random) < odds; };
  const auto value = [&] { return chance(odd) ? std::to_string(random() % 3) : std::string("same"); };
  Handshake one = handshake_of({{"length", value()}});
  if (!chance(odd / 2)) one.facts.push_back({"content", value()});
  one.lacks_type = chance(0.3);
  one.facts.push_back({Handshake::kType, one.lacks_type ? Handshake::kUnknown : value()});
  one.facts.push_back({"seed", value()});
  one.drawn_seed = random();
  one.rows = static_cast<std::int64_t>(random() % 100);
  if (!one.lacks_type && chance(0.1)) one.spec = some_spec();
  return one;
}

/// The law: whatever tree handshakes are reduced along, the result is the one from all of them.
TEST(HandshakeSummary, DecidesAlongAnyTreeAsAllHandshakesTogetherDo) {
  std::mt19937 random(3);
  int agreed = 0, without_type = 0, differing = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    const double odd = trial % 2 == 0 ? 0.02 : 0.0;
    std::vector<Handshake> all(1 + random() % (trial % 10 == 0 ? 70 : 12));
    for (Handshake& one : all) one = random_handshake(odd, random);
    const auto group = static_cast<int>(all.size());
    const std::string text = reduce_at_random(texts_of(all), 5, joins_handshakes(group), random);
    ASSERT_EQ(text, reduce_in_order(texts_of(all), 32, joins_handshakes(group)));
    const HandshakeSummary summary = handshakes_of_all(text, group, kText);
    ASSERT_EQ(summary.left_out(), 0);
    const std::string wanted = error_of([&] { check_flat(all); });
    ASSERT_EQ(error_of([&] { check_handshakes_agree(summary); }), wanted);
    ASSERT_EQ(summary.drawn_seed(), all.front().drawn_seed);
    ASSERT_EQ(summary.rows(),
              std::accumulate(all.begin(), all.end(), std::int64_t{0},
                              [](std::int64_t n, const Handshake& one) { return n + one.rows; }));
    ASSERT_EQ(summary.spec().known(),
              std::ranges::any_of(all, [](const auto& one) { return one.spec != nullptr; }));
    agreed += wanted.empty() ? 1 : 0;
    without_type += wanted.find("cannot know the type") != std::string::npos ? 1 : 0;
    differing += wanted.find("must agree on") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(std::min({agreed, without_type, differing}), 300)
      << agreed << " " << without_type << " " << differing;
}

TEST(HandshakeSummary, RanksThatAgreeSendOneText) {
  constexpr int kRanks = 4096;
  const std::string pipeline(1000, 'p');
  std::vector<Handshake> all(kRanks, handshake_of({{"pipeline", pipeline}, {Handshake::kType, "type"}}));
  for (Handshake& one : all) one.spec = some_spec();
  const auto texts = texts_of(all);
  const std::string text = reduce_in_order(texts, 32, joins_handshakes(kRanks));
  EXPECT_LE(text.size(), texts.front().size() + 10);
  const HandshakeSummary summary = handshakes_of_all(text, kRanks, kText);
  EXPECT_EQ(summary.ranks(), kRanks);
  EXPECT_EQ(summary.rows(), 5 * kRanks);
  check_handshakes_agree(summary);
}

TEST(HandshakeSummary, OfMoreDistinctOnesThoseOfTheLowestRanksAreNamed) {
  std::mt19937 random(8);
  constexpr int kRanks = 400;
  std::vector<Handshake> all;
  for (int rank = 0; rank < kRanks; ++rank)
    all.push_back(handshake_of({{"pipeline", "same"}, {"length", "n" + std::to_string(1000 + rank / 2)}}));
  for (int trial = 0; trial < 20; ++trial) {
    const auto text = reduce_at_random(texts_of(all), 8, joins_handshakes(kRanks), random);
    EXPECT_LT(text.size(), 2000U);
    const HandshakeSummary summary = handshakes_of_all(text, kRanks, kText);
    ASSERT_EQ(summary.descriptions().size(), HandshakeSummary::kMaxDistinct);
    for (std::size_t i = 0; i < HandshakeSummary::kMaxDistinct; ++i) {
      EXPECT_EQ(summary.descriptions()[i].facts[1].value, "n" + std::to_string(1000 + i));
      EXPECT_EQ(summary.descriptions()[i].ranks.first(), static_cast<int>(2 * i));
    }
    EXPECT_EQ(summary.ranks(), kRanks);
  }
  const std::string message =
      message_of<DistributedDatasetError>([&] { check_handshakes_agree(summary_of_all(all)); });
  EXPECT_NE(message.find("the ranks must agree on length, but ranks 0 and 1 have n1000; ranks 2 and 3 have "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("ranks 30 and 31 have n1015; 368 more ranks are not listed. Give every rank"),
            std::string::npos)
      << message;
}

TEST(HandshakeSummary, DifferencesThatAreLeftOutAreErrorsToo) {
  std::vector<Handshake::Fact> facts{{"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}};
  std::vector<Handshake> all;
  do {
    all.push_back(handshake_of(facts));
  } while (std::ranges::next_permutation(facts, {}, &Handshake::Fact::name).found);
  ASSERT_EQ(all.size(), 24U);
  EXPECT_NE(message_of<DistributedDatasetError>([&] {
              check_handshakes_agree(summary_of_all(all));
            }).find("in more than 16 ways"),
            std::string::npos);
  all.resize(16);
  check_handshakes_agree(summary_of_all(all));
}

TEST(HandshakeSummary, RefusesTextsOfOtherRanksThanThoseOfTheGroup) {
  const auto texts = texts_of({handshake_of({{"length", "5"}}), handshake_of({{"length", "6"}})});
  const auto refusal = [](const std::vector<std::string>& some, int group) {
    return message_of<PeerTextError>([&] { handshakes_of_all(joins_handshakes(group)(some), group, kText); });
  };
  EXPECT_NE(refusal({texts[0]}, 2).find("the handshakes: the number of ranks must be 2, but is 1"),
            std::string::npos);
  EXPECT_NE(refusal({texts[0], texts[1]}, 1).find("the first rank of a range"), std::string::npos);
  const std::string other = HandshakeSummary::of(0, handshake_of({{"length", "6"}})).encode();
  EXPECT_NE(refusal({texts[0], other}, 2).find("a rank must be there once, but is there twice"),
            std::string::npos);
}

}  // namespace
}  // namespace torch_distinput
