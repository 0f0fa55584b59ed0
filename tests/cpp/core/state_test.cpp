// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/state.h"

#include <limits>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

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
  try {
    static_cast<void>(State(State::Map{{"left", 3}}).at("right"));
    FAIL() << "expected a ValueError";
  } catch (const c10::ValueError& error) {
    EXPECT_NE(error.msg().find("no entry 'right'"), std::string::npos) << error.msg();
  }
}

TEST(State, WrongKindSaysBoth) {
  try {
    static_cast<void>(State("three").as_int());
    FAIL() << "expected a ValueError";
  } catch (const c10::ValueError& error) {
    EXPECT_NE(error.msg().find("expected an integer, found a string"), std::string::npos) << error.msg();
  }
  EXPECT_THROW(State(3).as_bool(), c10::ValueError);
  EXPECT_THROW(State(3).set("x", 1), c10::ValueError);
}

TEST(State, ComparesByValue) {
  EXPECT_EQ(State(State::List{1, "a"}), State(State::List{1, "a"}));
  EXPECT_FALSE(State(State::List{1}) == State(State::List{2}));
}

}  // namespace
}  // namespace torch_distinput
