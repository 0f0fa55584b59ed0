// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/errors.h"
#include "torch_distinput/error.h"
#include "torch_distinput/state.h"

namespace torch_distinput {
namespace {

/// A random state with every kind of value in it.
State random_state(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 0 ? 8 : 6)) {
    case 0:
      return {};
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random());
    case 3:
      return static_cast<double>(static_cast<std::int64_t>(random())) / 1024.0;
    case 4:
      return std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 100);
    case 5: {
      std::string bytes;
      for (auto left = random() % 6; left > 0; --left) bytes += static_cast<char>(random());
      return bytes;
    }
    case 6: {
      State::List entries;
      for (auto left = random() % 4; left > 0; --left) entries.push_back(random_state(random, depth - 1));
      return entries;
    }
    default: {
      State state(State::Map{});
      for (auto left = random() % 4; left > 0; --left)
        state.set("key " + std::to_string(random() % 9), random_state(random, depth - 1));
      return state;
    }
  }
}

TEST(StateText, AnyStateIsReadBackWhole) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const State state = random_state(random, 4);
    EXPECT_EQ(State::parse(state.str()), state) << state.str();
  }
}

TEST(StateText, IsWhatPythonWrites) {
  // Written by json.dumps(..., sort_keys=True) of Python 3.11.
  const std::string text =
      R"({"a": [0.0, -0.0, 1.0, 0.1, 1e-05, 0.0001, 1e+16, 1234567890123456.0, 5e-324, 1.7976931348623157e+308], )"
      R"("b": "\"\\\b\f\n\r\t\u0001\u007f/ \u00e9 \u20ac \ud83d\ude00", "c": {}, "d": [], )"
      R"("e": [NaN, Infinity, -Infinity], "f": -9223372036854775808, "g": null, "h": true})";
  EXPECT_EQ(State::parse(text).str(), text);
  EXPECT_EQ(State::parse(text).at("b").as_string(), "\"\\\b\f\n\r\t\x01\x7f/ \u00e9 \u20ac \U0001F600");
}

TEST(StateText, AnyLayoutOfJsonIsRead) {
  const State state = State::parse(" {\n \"x\" : [ 1 ,2.5E+1 , \"\\/\\u0041\" ] }\t\r\n");
  EXPECT_EQ(state, State().set("x", State::List{1, 25.0, "/A"}));
}

TEST(StateText, BytesThatAreNotUtf8Stay) {
  const std::string bytes = "a\xff\xc3\x28\xed\xa0\x80\xf0\x9f";
  EXPECT_EQ(State(bytes).str(), R"("a\udcff\udcc3(\udced\udca0\udc80\udcf0\udc9f")");
  EXPECT_EQ(State::parse(State(bytes).str()).as_string(), bytes);
}

std::string parse_refusal(const std::string& text) {
  return message_of<c10::ValueError>([&] { static_cast<void>(State::parse(text)); });
}

TEST(StateText, DamageIsNamedWithItsPlace) {
  EXPECT_EQ(parse_refusal(R"({"a": 1)"), "State.parse: expected ',' or '}' at byte 7, found the end.");
  EXPECT_EQ(parse_refusal(R"({"a": x})"), "State.parse: expected a value at byte 6, found 'x}'.");
  EXPECT_EQ(parse_refusal("[1] 2"), "State.parse: expected the end at byte 4, found '2'.");
  EXPECT_EQ(parse_refusal(R"({"a": 1, "a": 2})"),
            "State.parse: the key 'a' must occur once, but occurs again at byte 9.");
  EXPECT_EQ(parse_refusal("9223372036854775808"),
            "State.parse: the number at byte 0 must fit in 64 bits, but is 9223372036854775808.");
  EXPECT_NE(parse_refusal(std::string(5000, '[')).find("nested at most 1000 deep"), std::string::npos);
}

TEST(StateText, NoPrefixOfATextIsRead) {
  const std::string text = R"({"a": ["\u00e9\n", -1.5e3, true, null], "b": {"c": NaN}})";
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_THROW(static_cast<void>(State::parse(text.substr(0, size))), c10::ValueError) << size;
}

/// Another process may run the same test.
std::string of_this_process(const std::string& name) {
  return ::testing::TempDir() + std::to_string(::getpid()) + "_" + name;
}

TEST(StateFile, KeepsAStateAndReplacesTheFileAtOnce) {
  const std::string path = of_this_process("state_file_test.json");
  const State first = State().set("step", 3);
  first.save(path);
  EXPECT_EQ(State::load(path), first);
  State().set("step", 4).save(path);
  EXPECT_EQ(State::load(path).at("step").as_int(), 4);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, "{\"step\": 4}\n");
  std::remove(path.c_str());
}

TEST(StateFile, ErrorsNameTheFile) {
  const std::string missing = ::testing::TempDir() + "no_such_folder/state.json";
  EXPECT_TRUE(has(message_of<NotFoundError>([&] { static_cast<void>(State::load(missing)); }), missing));
  EXPECT_THROW(State(1).save(missing), NotFoundError);
  EXPECT_THROW(static_cast<void>(State::load(::testing::TempDir())), SystemError);

  const std::string damaged = of_this_process("damaged_state_test.json");
  std::ofstream(damaged) << "{";
  const std::string message = message_of<c10::ValueError>([&] { static_cast<void>(State::load(damaged)); });
  EXPECT_TRUE(has(message, "at byte 1"));
  EXPECT_TRUE(has(message, damaged));
  std::remove(damaged.c_str());
}

}  // namespace
}  // namespace torch_distinput
