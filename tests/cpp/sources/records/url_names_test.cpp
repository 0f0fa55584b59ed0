// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/url_names.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using Names = std::vector<std::string>;

TEST(UrlNames, BracesStandForNamesInTheirOrder) {
  EXPECT_EQ(urls_of("s3://b/{2..0}-{a,b}", "op"),
            (Names{"s3://b/2-a", "s3://b/2-b", "s3://b/1-a", "s3://b/1-b", "s3://b/0-a", "s3://b/0-b"}));
}

TEST(UrlNames, AQueryIsNoPattern) {
  EXPECT_EQ(urls_of("https://h/{a,b}?x={1,2}*", "op"),
            (Names{"https://h/a?x={1,2}*", "https://h/b?x={1,2}*"}));
  EXPECT_EQ(urls_of("HTTP://h/a?x=*", "op"), (Names{"HTTP://h/a?x=*"}));
}

TEST(UrlNames, OnlyUrlsAreExpanded) {
  EXPECT_EQ(expand_urls({"a{0,1}*", "gs://b/{0,1}"}, "op"), (Names{"a{0,1}*", "gs://b/0", "gs://b/1"}));
}

TEST(UrlNames, ErrorsNameTheOp) {
  try {
    urls_of("s3://b/{0", "TheOp");
    FAIL();
  } catch (const InvalidArgumentError& error) {
    EXPECT_EQ(std::string(error.what_without_backtrace()),
              "TheOp: braces in the pattern `s3://b/{0` must come in pairs and must not be nested.");
  }
}

TEST(UrlNames, MessagesShowNoQuery) {
  EXPECT_EQ(shown_name("https://me:word@h/a?signature=secret"), "https://h/a");
  EXPECT_EQ(shown_name("a?b"), "a?b");
}

}  // namespace
}  // namespace torch_distinput
