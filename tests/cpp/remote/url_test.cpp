// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/url.h"

#include <random>
#include <stdexcept>

#include <gtest/gtest.h>

#include "support/mutations.h"

namespace torch_distinput {
namespace {

TEST(Url, HasItsPartsAsTheyWereWritten) {
  const Url web = parse_url("HTTPS://me:pw@Host:8080/a%20b/c?x=1&y=%2F#part");
  EXPECT_EQ(web.scheme, "https");
  EXPECT_EQ(web.authority, "me:pw@Host:8080");
  EXPECT_EQ(web.path, "/a%20b/c");
  EXPECT_EQ(web.query, "x=1&y=%2F");
  EXPECT_EQ(parse_url("http://host?x").path, "");
  EXPECT_EQ(parse_url("http://host?a/b").query, "a/b");
}

TEST(Url, KeysOfObjectsMayHaveAnyBytes) {
  const Url object = parse_url("s3://bucket/what?/50%#1 //..");
  EXPECT_EQ(object.authority, "bucket");
  EXPECT_EQ(object.path, "/what?/50%#1 //..");
  EXPECT_EQ(object.query, "");
}

TEST(Url, IsRefusedWithoutSchemeOrHost) {
  for (const char* text : {"", "host/path", "://host", "http://", "http:///path", "s3:///key", "https://?q"})
    EXPECT_THROW(parse_url(text), std::invalid_argument) << text;
}

TEST(Url, IsToldFromNamesOfFilesByItsScheme) {
  for (const char* name :
       {"http://a", "HTTPS://a", "s3://b/k", "gs://b", "az://c", "hf://o/r", "a1+b-c.d://x"})
    EXPECT_TRUE(is_url(name)) << name;
  for (const char* name : {"", "/a/b", "a", "s3:/a", "a/http://b", "1a://b", "://"})
    EXPECT_FALSE(is_url(name)) << name;
}

TEST(Url, IsShownWithoutWhatMayBeSecret) {
  EXPECT_EQ(shown_url("https://me:secret@host/a?token=secret"), "https://host/a");
  EXPECT_EQ(shown_url("https://host?token=secret"), "https://host");
  EXPECT_EQ(shown_url("https://a:b@c@host/x@y#secret"), "https://host/x@y");
  EXPECT_EQ(shown_url("s3://bucket/a@b?c"), "s3://bucket/a@b?c");
  for (const char* text : {"http://?secret", "http:///a?secret", "me:secret@host/a?secret"}) {
    try {
      parse_url(text);
      ADD_FAILURE() << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
    }
  }
}

TEST(Url, LosesItsQueryWhereItMayHaveOne) {
  EXPECT_EQ(without_query("https://me@host/a?b=c/d#e"), "https://me@host/a");
  EXPECT_EQ(without_query("https://host/a#e?f"), "https://host/a");
  EXPECT_EQ(without_query("s3://bucket/what?/50%#1"), "s3://bucket/what?/50%#1");
  EXPECT_EQ(without_query("/a/b?c"), "/a/b?c");
}

TEST(Url, IsResolvedAsRfc3986Has) {
  const std::string base = "https://host:1/a/b/c?q";
  EXPECT_EQ(resolve_url(base, "http://other/x?y"), "http://other/x?y");
  EXPECT_EQ(resolve_url(base, "//other/x"), "https://other/x");
  EXPECT_EQ(resolve_url(base, "/x?y=a://b"), "https://host:1/x?y=a://b");
  EXPECT_EQ(resolve_url(base, "?y"), "https://host:1/a/b/c?y");
  EXPECT_EQ(resolve_url(base, "d?y=../z"), "https://host:1/a/b/d?y=../z");
  EXPECT_EQ(resolve_url(base, "../d/./e"), "https://host:1/a/d/e");
  EXPECT_EQ(resolve_url(base, "../../../../d"), "https://host:1/d");
  EXPECT_EQ(resolve_url(base, ".."), "https://host:1/a/");
  EXPECT_EQ(resolve_url(base, "."), "https://host:1/a/b/");
  EXPECT_EQ(resolve_url("https://host", "d"), "https://host/d");
}

TEST(Url, ResolvesWhateverAServerNames) {
  std::mt19937_64 random(1);
  for (int turn = 0; turn < mutations_testing::kMutations; ++turn) {
    const std::string location = mutations_testing::mutated("https://h/a/../../b/./c?x#y", random);
    EXPECT_LE(resolve_url("https://host/a/b?q", location).size(), location.size() + 20);
    static_cast<void>(shown_url(location));
  }
}

TEST(PercentEncoding, KeepsLettersDigitsAndFourMarks) {
  EXPECT_EQ(percent_encode("aZ09-._~", false), "aZ09-._~");
  EXPECT_EQ(percent_encode("a/b c+\xC3\xA4%", false), "a%2Fb%20c%2B%C3%A4%25");
  EXPECT_EQ(percent_encode("a/b", true), "a/b");
  EXPECT_EQ(percent_encode(std::string(1, '\0'), true), "%00");
}

TEST(PercentEncoding, IsUndone) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(percent_decode(percent_encode(all, false)), all);
  EXPECT_EQ(percent_decode("%41%4a%4A"), "AJJ");
  for (const char* text : {"%", "%4", "%4g", "%g4", "a%", "+"}) EXPECT_EQ(percent_decode(text), text);
}

}  // namespace
}  // namespace torch_distinput
