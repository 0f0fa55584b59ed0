// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
// Texts of ranks that another program has damaged: each decoder reports an error or yields values within
// their bounds, and never reads or writes outside its buffers (a sanitizer build checks that).
#include <functional>

#include <gtest/gtest.h>

#include "comm/heartbeat.h"
#include "distribute/coordination/handshake_summary.h"
#include "distribute/coordination/heartbeat_monitor.h"
#include "distribute/coordination/leaving.h"
#include "distribute/coordination/peers.h"
#include "distribute/coordination/round.h"
#include "distribute/coordination/shared_spec.h"
#include "support/errors.h"
#include "support/met_links.h"
#include "support/mutations.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using mutations_testing::kMutations;
using mutations_testing::mutated;

SpecPtr rich_spec() {
  const auto leaf = Structure::leaf();
  auto structure = Structure::dict({"a b\n", "", "5 c"}, {Structure::tuple({leaf, Structure::none(), leaf}),
                                                          Structure::list({leaf}), leaf});
  return std::make_shared<const ElementSpec>(
      ElementSpec{std::move(structure),
                  {TensorSpec{Dims{kUnknownDim, 3}, c10::ScalarType::Half, {4, 3}},
                   RaggedTensorSpec{Dims{2, kUnknownDim}, c10::ScalarType::Int, 1}, SparseTensorSpec{},
                   StringSpec{Dims{7}, "utf-8"}}});
}

/// Calls `decode` with damaged copies of `good`, which may throw PeerTextError alone. Each copy has exactly
/// the needed size, so that a sanitizer sees any access outside of it.
void expect_errors_or_values(const std::string& good, const std::function<void(PeerTextReader)>& decode) {
  std::mt19937_64 random(4);
  int read = 0;
  decode({good, "text"});
  for (int i = 0; i < kMutations; ++i) {
    const std::string bad = mutated(good, random);
    const std::vector<char> exact(bad.begin(), bad.end());
    try {
      decode({{exact.data(), exact.size()}, "text"});
      ++read;
    } catch (const PeerTextError&) {
      continue;
    }
  }
  EXPECT_GT(read, 0);
}

TEST(DamagedTexts, Spec) {
  expect_errors_or_values(encode_spec(rich_spec()), [](PeerTextReader text) {
    const SpecPtr spec = decode_spec(text);
    if (!spec) return;
    EXPECT_EQ(std::ssize(spec->leaves), spec->structure->leaf_count());
    const Element rows = zero_rows(*spec);
    EXPECT_EQ(std::ssize(rows.leaves()), spec->structure->leaf_count());
  });
}

TEST(DamagedTexts, SpecsThatWouldFillStackOrMemory) {
  const auto refusal = [](const std::string& text) {
    return message_of<PeerTextError>([&] { decode_spec({text, "rank 1"}); });
  };
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += "3 1 ";
  EXPECT_NE(refusal(deep + "0 0 ").find("rank 1: the type must be nested at most 100 deep"),
            std::string::npos);
  EXPECT_NE(refusal("3 1000000000000 ").find("the number of parts must be"), std::string::npos);
  EXPECT_NE(refusal("5 1 1 x0 0 ").find("the kind of a structure"), std::string::npos);
  EXPECT_NE(refusal("4 2 1 x1 x0 0 0 0 ").find("a key must be there once"), std::string::npos);
  EXPECT_NE(refusal("0 0 0 1 2 -1 35184372088832 6 0 ").find("at most 2**48 bytes"), std::string::npos);
  EXPECT_NE(refusal("0 0 5 ").find("the kind of a leaf must be an integer in [0, 4]"), std::string::npos);
  EXPECT_NE(refusal("0 0 0 0 99 0 ").find("a dtype must be"), std::string::npos);
}

TEST(DamagedTexts, ASpecDeeperThanReadersAllowIsNotSent) {
  StructurePtr structure = Structure::leaf();
  for (int i = 0; i < 101; ++i) structure = Structure::list({structure});
  EXPECT_EQ(encode_spec(std::make_shared<const ElementSpec>(ElementSpec{structure, {TensorSpec{}}})), "");
}

TEST(DamagedTexts, Handshake) {
  const Handshake handshake{{{"length", "12"}, {"pipeline", "a\\\nb"}}, 17, 3, rich_spec(), true};
  HandshakeSummary good = HandshakeSummary::of(0, handshake);
  good.join(HandshakeSummary::of(2, Handshake{{{"length", "13"}}, 18, 4, nullptr, false}));
  expect_errors_or_values(good.encode(), [&](PeerTextReader damaged) {
    const HandshakeSummary one = HandshakeSummary::decode(damaged, 4);
    EXPECT_GE(one.rows(), 0);
    EXPECT_LE(one.ranks(), 4);
    const SpecPtr spec = one.spec().complete(rich_spec());
    EXPECT_EQ(std::ssize(zero_rows(*spec).leaves()), spec->structure->leaf_count());
    const Handshake other{{{"length", "12"}}, 0, 0, nullptr, false};
    const std::string text = HandshakeSummary::of(1, other).encode();
    try {
      check_handshakes_agree(handshakes_of_all(join_handshakes({text, one.encode()}, 4, "text"), 4, "text"));
    } catch (const DistributedDatasetError&) {
      return;
    }
  });
}

TEST(DamagedTexts, RoundSummary) {
  const auto of = [](int rank, const RankStatus& status) { return RoundSummary::of(rank, status, 2); };
  RoundSummary good = of(1, {{2, 1, 7}, RankStatus::After::kEnd, "", {7, -8, 9}, {false, true, false}});
  good.join(of(2, {{5, 1}, RankStatus::After::kFailure, "why", {7, -9}, {false, true}}));
  expect_errors_or_values(good.encode(), [&](PeerTextReader text) {
    const RoundSummary one = RoundSummary::decode(text, 8);
    RoundSummary all = of(0, {{3, 3}, RankStatus::After::kMore, "", {7, -8}, {false, false}});
    if (one.ranks() < 8) all.join(one);
    all = RoundSummary::decode({all.encode(), "joined"}, 8);
    for (const RoundRules& rules : {RoundRules{}, {true, 0}, {false, 2}}) {
      for (const Round::Step& step : decide_round(all, rules).released) EXPECT_GE(step.global_valid, 0);
    }
  });
}

TEST(DamagedTexts, Heartbeat) {
  Heartbeat heartbeat{.number = 3, .next = std::chrono::milliseconds{250}};
  heartbeat.scopes.open("it/4");
  heartbeat.activities[1] = "took step 1";
  heartbeat.late["it/4/open"] = RankRanges::of(1);
  expect_errors_or_values(heartbeat.encode(), [](PeerTextReader text) {
    const Heartbeat read = Heartbeat::decode(text, 2);
    EXPECT_GE(read.next.count(), 0);
    for (const auto& [rank, activity] : read.activities) EXPECT_LT(rank, 2);
  });
  expect_errors_or_values(Leaving{1, 17}.encode(),
                          [](PeerTextReader text) { EXPECT_LT(Leaving::decode(text, 2).rank, 2); });
}

TEST(DamagedTexts, AHeartbeatOfAnotherProgramFailsTheIteratorsOfAllRanks) {
  for (const auto& [name, text] : {std::pair{"heartbeat/", "1e9 soon"}, {"it/0/left", "0"}}) {
    const auto ranks = met_links(2);
    const std::string key =
        name + (name == std::string("heartbeat/") ? std::to_string(ranks[1]->host()) : "");
    ranks[1]->store()->set(key, text);
    ranks[1]->post(key, text);
    const auto watched = start_heartbeat_monitor(ranks[0], std::chrono::milliseconds{2})
                             ->watch("it/0", std::chrono::seconds{60}, std::chrono::seconds{5});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (watched->news().failure.empty()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << key;
      std::this_thread::yield();
    }
    EXPECT_NE(watched->news().failure.find(std::string("under `") + key + "`"), std::string::npos)
        << watched->news().failure;
    EXPECT_NE(watched->news().failure.find("Did another program"), std::string::npos);
  }
}

}  // namespace
}  // namespace torch_distinput
