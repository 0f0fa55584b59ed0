// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/peer_text.h"

#include <limits>

#include <gtest/gtest.h>

#include "comm/all_gather.h"
#include "comm/rendezvous.h"
#include "support/errors.h"
#include "support/in_memory_stores.h"
#include "support/mutations.h"

namespace torch_distinput {
namespace {

using mutations_testing::kMutations;
using mutations_testing::mutated;

constexpr const char* kAdvice =
    ". Did another program, or another version of the library, write to the group's store?";

TEST(PeerText, ReadsWhatWasWritten) {
  PeerTextWriter writer;
  writer.integer(std::numeric_limits<std::int64_t>::min());
  writer.integer(std::numeric_limits<std::uint64_t>::max());
  writer.flag(true);
  writer.string(std::string("a \0 b\n", 6));
  writer.string("");
  const std::string text = writer.take();
  PeerTextReader reader(text, "text");
  EXPECT_EQ(reader.integer("x", std::numeric_limits<std::int64_t>::min(), 0),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(reader.bits("x"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(reader.flag("x"));
  EXPECT_EQ(reader.string("x"), std::string("a \0 b\n", 6));
  EXPECT_EQ(reader.string("x"), "");
  EXPECT_TRUE(reader.ended());
  reader.end();
}

TEST(PeerText, NamesTextPieceRuleAndValue) {
  const auto refusal = [](const char* text) {
    return message_of<PeerTextError>(
        [&] { PeerTextReader(text, "the text of rank 1").integer("a dim", 0, 9); });
  };
  EXPECT_EQ(refusal("10 "),
            std::string("the text of rank 1: a dim must be an integer in [0, 9], but is '10'") + kAdvice);
  for (const char* const text :
       {"-1 ", "+1 ", "01 ", "1", "1x ", " ", "", "99999999999999999999999 ", "\xff "})
    EXPECT_NE(refusal(text).find("a dim must be"), std::string::npos) << text;
}

TEST(PeerText, WhatIsLeftBoundsCountsAndLengths) {
  EXPECT_EQ(PeerTextReader("2 1 1 ", "").count("x"), 2U);
  EXPECT_THROW(PeerTextReader("3 1 1 ", "").count("x"), PeerTextError);
  EXPECT_THROW(PeerTextReader("4611686018427387904 ", "").count("x"), PeerTextError);
  EXPECT_EQ(PeerTextReader("3 abc", "").string("x"), "abc");
  EXPECT_THROW(PeerTextReader("4 abc", "").string("x"), PeerTextError);
  EXPECT_THROW(PeerTextReader("18446744073709551615 abc", "").string("x"), PeerTextError);
  EXPECT_THROW(PeerTextReader("x", "").end(), PeerTextError);
}

TEST(PeerText, FramesOfARound) {
  const auto all = read_frames({"2 3 a 91 0 ", ""}, 3);
  EXPECT_EQ(all, (std::vector<std::optional<std::string>>{std::nullopt, "", "a 9"}));
  EXPECT_EQ(read_frames({"0 1 a0 1 a", ""}, 1).front(), "a");
  EXPECT_THROW(read_frames({"0 1 a0 1 b", ""}, 1), PeerTextError);
  EXPECT_THROW(read_frames({"1 1 a", ""}, 1), PeerTextError);
  EXPECT_THROW(read_frames({"0 2 a", ""}, 1), PeerTextError);
}

TEST(PeerText, DamagedFramesAreErrorsOrTextsOfTheRanks) {
  std::mt19937_64 random(1);
  int read = 0;
  for (int i = 0; i < kMutations; ++i) {
    const std::string bad = mutated("0 5 a 1 b2 0 1 12 1 2 3 4 5 6 ", random);
    const std::vector<char> exact(bad.begin(), bad.end());  // so that a sanitizer sees reads beyond the end
    try {
      EXPECT_EQ(read_frames({{exact.data(), exact.size()}, ""}, 3).size(), 3U);
      ++read;
    } catch (const PeerTextError&) {
      continue;
    }
  }
  EXPECT_GT(read, kMutations / 100);
}

TEST(PeerText, ADamagedNumberOfARendezvousIsAnErrorThatNamesItsRank) {
  std::mt19937_64 random(2);
  int refused = 0;
  for (int i = 0; i < kMutations / 10; ++i) {
    const auto ranks = in_memory_stores(2);
    std::string bad = mutated("12345678901234567890 ", random);
    if (bad.empty()) bad = "-";
    ranks[1]->set("rendezvous/number/1", bad);
    try {
      EXPECT_FALSE(Rendezvous(ranks[0]).step());
    } catch (const PeerTextError& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find("the text of rank 1 under `rendezvous/number/1`: "),
                std::string::npos)
          << error.what();
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(PeerText, ARoundWithATextOfAnotherProgramIsAnErrorOnTheRank) {
  const auto ranks = in_memory_stores(2);
  const auto rounds = all_gather_over_store(ranks[0], "round");
  ranks[1]->append("round/0", "7 1 x");
  const std::string refusal =
      message_of<DistributedDatasetError>([&] { rounds->run("mine", {"test", std::chrono::seconds(60)}); });
  EXPECT_EQ(refusal, std::string("DistributedDataset: the ranks' texts under `round/0`: a rank must be an "
                                 "integer in [0, 1], but is '7'") +
                         kAdvice);
}

}  // namespace
}  // namespace torch_distinput
