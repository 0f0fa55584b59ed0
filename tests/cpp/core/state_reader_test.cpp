// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/state_reader.h"

#include <limits>
#include <string>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace torch_distinput {
namespace {

const State kState =
    State().set("taken", 3).set("ended", true).set("split", "whole").set("inputs", State::List{1, 2});

template <class Read>
std::string refusal(Read read) {
  return message_of<c10::ValueError>([&] { read(StateReader(kState, "take")); });
}

TEST(StateReader, ReadsFieldsOfTheirKinds) {
  const StateReader saved(kState, "take");
  EXPECT_EQ(saved.count("taken"), 3);
  EXPECT_EQ(saved.count("taken", 3), 3);
  EXPECT_EQ(saved.index("taken", 4), 3U);
  EXPECT_TRUE(saved.flag("ended"));
  EXPECT_EQ(saved.text("split"), "whole");
  EXPECT_EQ(saved.list("inputs", 2).size(), 2U);
}

TEST(StateReader, NamesReaderFieldRuleAndValue) {
  EXPECT_EQ(refusal([](const auto& saved) { saved.count("taken", 2); }),
            "take: the saved `taken` must be in [0, 2], but is 3.");
  EXPECT_EQ(refusal([](const auto& saved) { saved.index("taken", 3); }),
            "take: the saved `taken` must be in [0, 3), but is 3.");
  EXPECT_EQ(refusal([](const auto& saved) { saved.flag("taken"); }),
            "take: the saved `taken` must be a bool, but is 3.");
  EXPECT_EQ(refusal([](const auto& saved) { saved.count("split"); }),
            R"(take: the saved `split` must be an integer, but is "whole".)");
  EXPECT_EQ(refusal([](const auto& saved) { saved.list("inputs", 3); }),
            "take: the saved `inputs` must have 3 entries, but has 2.");
  EXPECT_EQ(
      refusal([](const auto& saved) { saved.count("position"); }),
      "take: the saved position must have a field `position`, but has `ended`, `inputs`, `split`, `taken`.");
  EXPECT_EQ(message_of<c10::ValueError>([] { StateReader(State(3), "take"); }),
            "take: the saved position must be a map of named fields, but is 3.");
}

TEST(StateReader, CountsAreNeitherNegativeNorSoLargeThatTheirSumsOverflow) {
  for (const std::int64_t wrong :
       {std::int64_t{-1}, kMaxCounted + 1, std::numeric_limits<std::int64_t>::max(),
        std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_THROW(StateReader(State().set("taken", wrong), "take").count("taken"), c10::ValueError) << wrong;
  }
}

TEST(StateReader, ShowsTheBeginningOfALongValue) {
  const State state = State().set("taken", std::string(10'000, 'x'));
  EXPECT_LT(message_of<c10::ValueError>([&] { StateReader(state, "take").count("taken"); }).size(), 200U);
}

}  // namespace
}  // namespace torch_distinput
