// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/shared_key.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

// As azure-storage-blob 12 signs them.
constexpr const char* kSignedGet = "1S1jU+hv2XyAQJX/Yl0lw8Wq4ELdg4MTiMl4rgU0lWU=";
constexpr const char* kSignedList = "oYNv8SZTSesC9/lHJTmGdUi+tL6ANGFtPyjxc+ykaAg=";
constexpr const char* kSecret = "the rig's secret: 0123456789";
constexpr std::chrono::seconds kSignedAt{1782864000};

HttpRequest request_at(SigningTime time) {
  HttpRequest request;
  request.headers = {{"x-ms-version", "2023-11-03"}, {"x-ms-date", http_date(time)}};
  return request;
}

std::string signature_of(HttpRequest request, const AzureRequest& what) {
  sign_shared_key(request, what, kSecret);
  return request.headers.back().second;
}

TEST(SharedKey, SignsAsAzuresClient) {
  const SigningTime time{kSignedAt};
  HttpRequest get = request_at(time);
  get.headers.emplace_back("x-ms-range", "bytes=2-4");
  EXPECT_EQ(signature_of(get, {"rigaccount", "/rigaccount/box/x"}),
            std::string("SharedKey rigaccount:") + kSignedGet);
  const AzureRequest list{
      "rigaccount",
      "/rigaccount/box",
      {{"restype", "container"}, {"comp", "list"}, {"prefix", "a b/c"}, {"maxresults", "2"}}};
  EXPECT_EQ(signature_of(request_at(time), list), std::string("SharedKey rigaccount:") + kSignedList);
}

// "Authorize with Shared Key" in the reference of Azure Storage has texts of this form.
TEST(SharedKey, PutsHeadersInTheirPlaces) {
  HttpRequest put{.method = "PUT", .body = "12345"};
  put.headers = {{"x-ms-version", " 2015-02-21 "}, {"Content-Type", "text/plain"},  {"Range", "bytes=0-4"},
                 {"If-Match", "\"0x1\""},          {"x-ms-blob-type", "BlockBlob"}, {"User-Agent", "other"}};
  EXPECT_EQ(shared_key_text(put, {"acme", "/c/b%20c", {{"b", "2"}, {"a", "z"}, {"a", "y"}}}),
            "PUT\n\n\n5\n\ntext/plain\n\n\n\"0x1\"\n\n\nbytes=0-4\n"
            "x-ms-blob-type:BlockBlob\nx-ms-version:2015-02-21\n/acme/c/b%20c\na:y,z\nb:2");
}

TEST(SharedKey, WritesDatesInEnglish) {
  EXPECT_EQ(http_date(SigningTime{kSignedAt}), "Wed, 01 Jul 2026 00:00:00 GMT");
  EXPECT_EQ(http_date(SigningTime{std::chrono::seconds{951827696}}), "Tue, 29 Feb 2000 12:34:56 GMT");
}

}  // namespace
}  // namespace torch_distinput
