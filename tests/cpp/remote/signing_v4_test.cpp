// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/signing_v4.h"

#include <chrono>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace torch_distinput {
namespace {

using namespace std::chrono_literals;

// The examples of docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html that sign the headers
// that we sign.
const AwsKeys kExampleKeys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
constexpr SigningTime kExampleTime{1369353600s};  // 24 May 2013

std::string header_of(const HttpRequest& request, const std::string& name) {
  for (const auto& [other, value] : request.headers) {
    if (other == name) return value;
  }
  return "none";
}

std::string example_authorization(std::vector<std::pair<std::string, std::string>> query) {
  HttpRequest request;
  sign_v4(request, {"examplebucket.s3.amazonaws.com", "/", std::move(query)}, kExampleKeys, "us-east-1", "s3",
          kExampleTime);
  EXPECT_EQ(header_of(request, "x-amz-date"), "20130524T000000Z");
  EXPECT_EQ(header_of(request, "x-amz-content-sha256"),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  return header_of(request, "Authorization");
}

TEST(SigningV4, SignsTheExamplesOfItsDocument) {
  const std::string begin =
      "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
      "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=";
  EXPECT_EQ(example_authorization({{"lifecycle", ""}}),
            begin + "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(example_authorization({{"prefix", "J"}, {"max-keys", "2"}}),
            begin + "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(SigningV4, SignsTheTokenOfASessionToo) {
  HttpRequest request{.method = "PUT", .body = "body"};
  sign_v4(request, {"host:9000", "/a%20b"}, {"key", "secret", "token"}, "eu-west-1", "s3", kExampleTime);
  EXPECT_EQ(header_of(request, "x-amz-security-token"), "token");
  EXPECT_TRUE(has(header_of(request, "Authorization"),
                  "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token"));
  EXPECT_EQ(header_of(request, "host"), "none") << "libcurl writes it";
}

TEST(SigningV4, SortsQueriesByTheirEncodedNames) {
  EXPECT_EQ(canonical_query({}), "");
  EXPECT_EQ(canonical_query({{"b", "1"}, {"a", "/ +~"}, {"a", "%"}, {"A", ""}}), "A=&a=%25&a=%2F%20%2B~&b=1");
}

}  // namespace
}  // namespace torch_distinput
