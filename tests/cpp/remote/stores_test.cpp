// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/stores.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "support/environment.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

/// What is thrown where `options` make a store for `url`.
std::string refusal(const std::string& url, const StorageOptions& options) {
  try {
    make_store(url, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

std::string url_of(const ObjectStorePtr& store, const std::string& url) {
  return store->get(url, {0, 1}, "", {}).url;
}

TEST(Stores, NameAnOptionThatTheyDoNotTakeAndThoseThatTheyDo) {
  EXPECT_EQ(refusal("https://host", {{"token", "t"}, {"headers.X-A", "1"}, {"anonymous", "true"}}), "none");
  const std::string web = refusal("https://host", {{"bearer", "hidden"}});
  EXPECT_TRUE(has(web, "\"bearer\" is not an option of http"));
  EXPECT_TRUE(has(web, "\"token\", \"headers.<name>\""));
  EXPECT_FALSE(has(web, "hidden"));
  const std::string s3 = refusal("s3://bucket", {{"key", "hidden"}, {"secrets", "hidden"}});
  EXPECT_TRUE(has(s3, "\"secrets\" is not an option of s3"));
  EXPECT_TRUE(has(s3, "\"secret\", \"session_token\""));
  EXPECT_FALSE(has(s3, "hidden"));
}

TEST(Stores, NameTheRuleThatAValueBreaks) {
  EXPECT_TRUE(has(refusal("s3://bucket", {{"addressing_style", "both"}}),
                  "\"addressing_style\" must be \"path\" or \"virtual\", but is \"both\""));
  EXPECT_TRUE(has(refusal("ftp://host/a?hidden", {}), "`ftp://host"));
}

TEST(Stores, TellNoSecretsWhereTheyCannotDoWhatIsAsked) {
  const auto web = make_store("https://me:hidden@host", {{"token", "hidden"}});
  const auto s3 = make_store("s3://bucket", {{"key", "hidden"}, {"secret", "hidden"}});
  const std::string problems =
      message_of_any([&] { web->put("https://me:hidden@host/a?hidden", "hidden", {}); }) +
      message_of_any([&] { web->list("https://me:hidden@host/a?hidden", "hidden", {}); }) +
      message_of_any([&] { s3->get("s3://other/key", {0, 1}, "", {}); });
  EXPECT_TRUE(has(problems, "https://host/a cannot be written to"));
  EXPECT_TRUE(has(problems, "https://host/a cannot be listed"));
  EXPECT_TRUE(has(problems, "s3://other/key is not an object of the bucket bucket"));
  EXPECT_FALSE(has(problems, "hidden"));
}

TEST(Stores, AskTheWebForRangesOfWhatTheUserWrote) {
  const auto store = make_store("https://host", {{"token", "t"}, {"headers.X-A", "1"}});
  const HttpRequest request = store->get("https://host/a b?c=%20", {5, 5}, "\"tag\"", {});
  EXPECT_EQ(request.url, "https://host/a%20b?c=%20");
  EXPECT_EQ(
      request.headers,
      (std::vector<std::pair<std::string, std::string>>{
          {"X-A", "1"}, {"Authorization", "Bearer t"}, {"Range", "bytes=5-9"}, {"If-Match", "\"tag\""}}));
}

TEST(Stores, FindBucketsOfS3ByNameOrPath) {
  const Variable file("AWS_CONFIG_FILE", "/dev/null");
  const Variable no_region("AWS_REGION");
  const Variable no_default("AWS_DEFAULT_REGION");
  const Variable no_endpoint("AWS_ENDPOINT_URL");
  const Variable no_endpoint_s3("AWS_ENDPOINT_URL_S3");
  const StorageOptions nobody{{"anonymous", "true"}};
  const auto with = [&](StorageOptions options) {
    options.insert(nobody.begin(), nobody.end());
    return options;
  };
  EXPECT_EQ(url_of(make_store("s3://b", nobody), "s3://b/a/b c"),
            "https://b.s3.us-east-1.amazonaws.com/a/b%20c");
  EXPECT_EQ(url_of(make_store("s3://b.c", nobody), "s3://b.c/k"), "https://s3.us-east-1.amazonaws.com/b.c/k");
  EXPECT_EQ(url_of(make_store("s3://b", with({{"region", "eu"}, {"addressing_style", "path"}})), "s3://b/k"),
            "https://s3.eu.amazonaws.com/b/k");
  const auto local = make_store("s3://b", with({{"endpoint_url", "http://host:9000/base"}}));
  EXPECT_EQ(url_of(local, "s3://b/k?#%"), "http://host:9000/base/b/k%3F%23%25");
  EXPECT_TRUE(local->get("s3://b/k", {0, 1}, "", {}).headers.size() == 1)
      << "anonymous requests are not signed";
}

TEST(Stores, KnowVersionsByStrongTagsOnly) {
  EXPECT_EQ(strong_etag({.headers = {{"etag", "\"a\""}}}), "\"a\"");
  EXPECT_EQ(strong_etag({.headers = {{"etag", "W/\"a\""}}}), "");
  EXPECT_EQ(strong_etag({}), "");
}

}  // namespace
}  // namespace torch_distinput
