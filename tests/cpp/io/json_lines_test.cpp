// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/json_lines.h"

#include <string>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using Kind = JsonFault::Kind;

std::optional<JsonFault> fault(const std::string& text) { return find_json_fault(text); }

std::string nested(int depth) {
  return "{\"a\":" + std::string(static_cast<std::size_t>(depth - 1), '[') +
         std::string(static_cast<std::size_t>(depth - 1), ']') + "}";
}

TEST(FindJsonFault, PassesObjects) {
  for (const std::string text : {"", "\n", " \t\r\n", "{}", " {} \r\n{}", R"({"a": "}\"{\\"})",
                                 R"({"a": [{}, []]})", "{nonsense}", "{\"a\": nul}\n\n{}\n"}) {
    EXPECT_FALSE(fault(text)) << text;
  }
  EXPECT_FALSE(fault(nested(kMaxJsonDepth)));
}

TEST(FindJsonFault, NamesTheFirstLineThatIsNoObject) {
  for (const std::string line : {"null", "1", "\"x\"", "[]", "[{}]", "true", "{}null", "{} {}", "{}}",
                                 "\xef\xbb\xbf{}", "}", "{\"a\": 1}]", "x"}) {
    const auto found = fault("{}\n" + line + "\n{}\n");
    ASSERT_TRUE(found) << line;
    EXPECT_EQ(found->kind, Kind::kNoObject) << line;
    EXPECT_EQ(found->begin, 3U);
    EXPECT_EQ(found->end, 3 + line.size() + 1);
  }
  EXPECT_EQ(fault(std::string("\0", 1))->kind, Kind::kNoObject);
}

TEST(FindJsonFault, TellsUnclosedAndDeepLines) {
  for (const std::string line : {"{", "{\"a", "{\"a\\", "{\"a\\\"}", "{\"a\": [}", "{\"a\": 1", "{{}"}) {
    const auto found = fault(line + "\n{}");
    ASSERT_TRUE(found) << line;
    EXPECT_EQ(found->kind, Kind::kUnclosed) << line;
    EXPECT_EQ(found->end, line.size() + 1);
  }
  EXPECT_EQ(fault(nested(kMaxJsonDepth + 1))->kind, Kind::kTooDeep);
  EXPECT_EQ(fault("{\"a\":" + std::string(200'000, '['))->kind, Kind::kTooDeep);
}

TEST(FindJsonFault, TellsTextThatIsNotUtf8) {
  for (const std::string line : {"{\"a\": \"\xff\"}", "{\"\xed\xa0\x80\": 1}", "{\"a\": \"\xc3"}) {
    const auto found = fault("{\"a\": \"\xc3\xa9\"}\n" + line + "\n{}");
    ASSERT_TRUE(found) << line;
    EXPECT_EQ(found->kind, Kind::kNoText);
    EXPECT_EQ(found->begin, 12U);
  }
}

}  // namespace
}  // namespace torch_distinput
