// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/json_reader.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using Leaves = std::vector<std::pair<JsonPath, std::string>>;

Leaves leaves_of(std::string_view text) {
  Leaves leaves;
  read_json(text, [&](const JsonPath& path, const std::string& value) { leaves.emplace_back(path, value); });
  return leaves;
}

std::string string_of(const std::string& text) { return leaves_of("\"" + text + "\"").at(0).second; }

TEST(JsonReader, TellsLeavesByTheirPaths) {
  const Leaves expected{
      {{"a", "[]", "b"}, "1"}, {{"a", "[]"}, "x"}, {{"c", "d"}, "true"}, {{"e"}, "-0.5e+3"}};
  EXPECT_EQ(leaves_of(" {\"a\": [{\"b\":1}, \"x\", [], {}],\n\"c\":{\"d\":true,\"n\":null},\"e\":-0.5e+3}\n"),
            expected);
}

TEST(JsonReader, TellsWhereObjectsAndArraysEnd) {
  std::vector<JsonPath> ends;
  read_json(
      "{\"a\":[{},[1]]}", [](const JsonPath&, const std::string&) {},
      [&](const JsonPath& path) { ends.push_back(path); });
  EXPECT_EQ(ends, (std::vector<JsonPath>{{"a", "[]"}, {"a", "[]"}, {"a"}, {}}));
}

TEST(JsonReader, DecodesTexts) {
  EXPECT_EQ(string_of(R"(\"\\\/\b\f\n\r\t)"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(string_of(R"(A\u00e9\u20AC\ud83d\ude00)"), "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(string_of("\xC3\xBC\x7F"), "\xC3\xBC\x7F");
  EXPECT_EQ(string_of("\\u0000"), std::string(1, '\0'));
}

TEST(JsonReader, TakesNestingToItsLimit) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + "1" + std::string(depth, ']');
  };
  EXPECT_EQ(leaves_of(nested(32)).size(), 1U);
  EXPECT_THROW(leaves_of(nested(33)), std::runtime_error);
  EXPECT_THROW(leaves_of(std::string(1U << 20U, '[')), std::runtime_error);
}

class NoJson : public testing::TestWithParam<std::string> {};

TEST_P(NoJson, IsRefused) { EXPECT_THROW(leaves_of(GetParam()), std::runtime_error) << GetParam(); }

INSTANTIATE_TEST_SUITE_P(JsonReader, NoJson,
                         testing::Values("", " ", "{", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "{\"a\"}",
                                         "{\"a\":}", "{\"a\":1,}", "{a:1}", "{\"a\":1]", "1 2", "[]]", "tru",
                                         "nul", "NaN", "Infinity", "+1", "01", "-", ".5", "1.", "1e", "1e+",
                                         "0x1", "'a'", "\"", "\"a", "\"\\", "\"\\\"", "\"\\x\"", "\"\\u12\"",
                                         "\"\\u12g4\"", "\"\\u-123\"", "\"\\ud800\"", "\"\\ud800\\u0041\"",
                                         "\"\\udc00\"", "\"\n\"", "\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"",
                                         "\xEF\xBB\xBF[]", "<html>", std::string("\"\0\"", 3)));

}  // namespace
}  // namespace torch_distinput
