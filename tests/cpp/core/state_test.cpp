// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/state.h"

#include <limits>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace torch_distinput {
namespace {

TEST(State, HoldsNamedValues) {
  State state;
  state.set("left", 3).set("name", "take").set("inner", State().set("done", true));
  EXPECT_EQ(state.at("left").as_int(), 3);
  EXPECT_EQ(state.at("inner").at("done").as_bool(), true);
  EXPECT_EQ(state.str(), R"({"inner": {"done": true}, "left": 3, "name": "take"})");
}

TEST(State, KeepsUnsignedKeysWhole) {
  const std::uint64_t key = std::numeric_limits<std::uint64_t>::max() - 5;
  EXPECT_EQ(State::key(key).as_key(), key);
}

TEST(State, MissingEntryIsNamed) {
  const auto look = [] { static_cast<void>(State(State::Map{{"left", 3}}).at("right")); };
  EXPECT_TRUE(has(message_of<c10::ValueError>(look), "no entry 'right'"));
}

TEST(State, WrongKindSaysBoth) {
  const auto convert = [] { static_cast<void>(State("three").as_int()); };
  EXPECT_TRUE(has(message_of<c10::ValueError>(convert), "expected an integer, found a string"));
  EXPECT_THROW(State(3).as_bool(), c10::ValueError);
  EXPECT_THROW(State(3).set("x", 1), c10::ValueError);
}

TEST(State, ComparesByValue) {
  EXPECT_EQ(State(State::List{1, "a"}), State(State::List{1, "a"}));
  EXPECT_FALSE(State(State::List{1}) == State(State::List{2}));
}

}  // namespace
}  // namespace torch_distinput
