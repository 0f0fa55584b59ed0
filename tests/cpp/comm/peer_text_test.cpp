// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/peer_text.h"

#include <limits>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace torch_distinput {
namespace {

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

}  // namespace
}  // namespace torch_distinput
