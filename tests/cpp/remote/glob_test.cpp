// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/glob.h"

#include <random>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

/// As `matches`, tried in all ways; without sets.
bool matches_slowly(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*') {
    const bool twofold = pattern.starts_with("**");
    if (matches_slowly(pattern.substr(twofold ? 2 : 1), text)) return true;
    return !text.empty() && (twofold || text.front() != '/') && matches_slowly(pattern, text.substr(1));
  }
  if (text.empty() || (pattern.front() == '?' ? text.front() == '/' : pattern.front() != text.front()))
    return false;
  return matches_slowly(pattern.substr(1), text.substr(1));
}

TEST(Glob, StarsStayInAFolderAndTwofoldOnesDoNot) {
  EXPECT_TRUE(matches("s3://b/*.tar", "s3://b/a.tar"));
  EXPECT_FALSE(matches("s3://b/*.tar", "s3://b/c/a.tar"));
  EXPECT_TRUE(matches("s3://b/**.tar", "s3://b/c/d/a.tar"));
  EXPECT_TRUE(matches("s3://b/**/a-?", "s3://b/c/d/a-1"));
  EXPECT_FALSE(matches("s3://b/a?b", "s3://b/a/b"));
}

TEST(Glob, SetsHaveRangesAndOpposites) {
  EXPECT_TRUE(matches("a[0-9x]", "ax"));
  EXPECT_TRUE(matches("a[0-9x]", "a5"));
  EXPECT_FALSE(matches("a[0-9x]", "ay"));
  EXPECT_TRUE(matches("a[!0-9]", "ay"));
  EXPECT_FALSE(matches("a[!0-9]", "a5"));
  EXPECT_FALSE(matches("a[!x]b", "a/b"));
  EXPECT_TRUE(matches("a[]]", "a]"));
  EXPECT_TRUE(matches("a[!]]", "ab"));
  EXPECT_TRUE(matches("[a-]", "-"));
  EXPECT_TRUE(matches("a[b", "a[b"));
  EXPECT_TRUE(matches("[\x80-\xff]", "\xC3"));
  EXPECT_FALSE(matches("[z-a]", "m"));
}

TEST(Glob, MatchesWhatASlowSearchFinds) {
  std::mt19937_64 random(3);
  const auto text_of = [&](std::string_view letters, std::size_t most) {
    std::string text(random() % (most + 1), ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    return text;
  };
  for (int turn = 0; turn < 50'000; ++turn) {
    const std::string pattern = text_of("ab/**?", 7);
    const std::string text = text_of("ab/", 8);
    ASSERT_EQ(matches(pattern, text), matches_slowly(pattern, text)) << pattern << " and " << text;
  }
}

TEST(Glob, TakesNoLongTimeForManyStars) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += i % 2 == 0 ? "a*" : "a**";
  EXPECT_FALSE(matches(pattern + "b", std::string(5'000, 'a')));
}

TEST(Glob, PrefixEndsAtTheFirstWildcard) {
  EXPECT_EQ(fixed_prefix("s3://bucket/a/b-*.tar"), "s3://bucket/a/b-");
  EXPECT_EQ(fixed_prefix("s3://bucket/a?"), "s3://bucket/a");
  EXPECT_EQ(fixed_prefix("s3://bucket/a"), "s3://bucket/a");
  EXPECT_TRUE(has_wildcard("https://host/[ab].tar"));
}

TEST(Glob, QueriesOfTheWebAreNoWildcards) {
  EXPECT_FALSE(has_wildcard("https://host/a?list=*[x]"));
  EXPECT_FALSE(has_wildcard("HTTPS://host/a?list=*"));
  EXPECT_TRUE(has_wildcard("https://host/*?list"));
  EXPECT_TRUE(has_wildcard("s3://bucket/a?"));
}

}  // namespace
}  // namespace torch_distinput
