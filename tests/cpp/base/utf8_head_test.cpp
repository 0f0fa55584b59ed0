// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/utf8_head.h"

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

void expect_head(std::string_view text, std::size_t size, bool whole) {
  const Utf8Head head = utf8_head(text);
  EXPECT_EQ(head.size, size) << text;
  EXPECT_EQ(head.whole, whole) << text;
}

TEST(Utf8Head, IsAWholeCharacterWhateverFollows) {
  expect_head("a", 1, true);
  expect_head("\xc3\xa4\xff", 2, true);
  expect_head("\xe2\x82\xac\xe2", 3, true);
  expect_head("\xf0\x9f\x98\x80z", 4, true);
  expect_head("\xf4\x8f\xbf\xbf", 4, true);  // U+10FFFF
}

TEST(Utf8Head, IsTheLongestPartOfACharacter) {
  expect_head("\xe2\x82", 2, false);
  expect_head("\xf0\x9f\x98x", 3, false);
  expect_head("\xc3", 1, false);
}

TEST(Utf8Head, IsOneByteThatBeginsNoCharacter) {
  for (const char* text : {"\x80", "\xbf\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                           "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    expect_head(text, 1, false);
  }
}

}  // namespace
}  // namespace torch_distinput
