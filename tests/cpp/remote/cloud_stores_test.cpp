// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "remote/stores.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

constexpr const char* kEndpoint = "http://host:1";
constexpr const char* kHubUrl = "hf://datasets/o/n@v 1/d/a b?";

ObjectStorePtr gs_store() { return make_store("gs://b", {{"token", "hidden"}, {"endpoint_url", kEndpoint}}); }
ObjectStorePtr az_store() { return make_store("az://b", {{"token", "hidden"}, {"endpoint_url", kEndpoint}}); }
ObjectStorePtr hf_store() { return make_store(kHubUrl, {{"token", "hidden"}, {"endpoint_url", kEndpoint}}); }

std::string value_in(const HttpRequest& request, const std::string& name) {
  std::string values;
  for (const auto& [other, value] : request.headers) values += other == name ? value : "";
  return values;
}

HttpHead head_of(int status, std::map<std::string, std::string> headers = {}) {
  return {.status = status, .headers = std::move(headers)};
}

TEST(CloudStores, EncodeNamesAndKeepTokensOutOfUrls) {
  const HttpRequest gs = gs_store()->get("gs://b/d/a b?", {5, 5}, "12", {});
  EXPECT_EQ(gs.url, "http://host:1/storage/v1/b/b/o/d%2Fa%20b%3F?alt=media&ifGenerationMatch=12");
  const HttpRequest az = az_store()->get("az://b/d/a b?", {5, 5}, "\"0x1\"", {});
  EXPECT_EQ(az.url, "http://host:1/b/d/a%20b%3F");
  EXPECT_EQ(value_in(az, "If-Match"), "\"0x1\"");
  const HttpRequest hf = hf_store()->get(kHubUrl, {5, 5}, "\"x\"", {});
  EXPECT_EQ(hf.url, "http://host:1/datasets/o/n/resolve/v%201/d/a%20b%3F");
  for (const HttpRequest& request : {gs, az, hf}) {
    EXPECT_EQ(value_in(request, "Range"), "bytes=5-9");
    EXPECT_EQ(value_in(request, "Authorization"), "Bearer hidden");
  }
}

TEST(CloudStores, SendASignatureOfAzureAsItCame) {
  const auto store = make_store("az://b", {{"sas_token", "?a=1&sig=x%2F"}, {"endpoint_url", kEndpoint}});
  EXPECT_EQ(store->get("az://b/x", {0, 1}, "", {}).url, "http://host:1/b/x?a=1&sig=x%2F");
  const HttpRequest list = store->list("az://b/d", "m&", {});
  EXPECT_EQ(list.url, "http://host:1/b?comp=list&marker=m%26&prefix=d&restype=container&a=1&sig=x%2F");
  EXPECT_EQ(value_in(list, "Authorization"), "");
}

TEST(CloudStores, FindTheEndpointOfAnAccount) {
  const auto store = make_store("az://b", {{"account", "acme"}, {"token", "hidden"}});
  EXPECT_EQ(store->get("az://b/x", {0, 1}, "", {}).url, "https://acme.blob.core.windows.net/b/x");
}

TEST(CloudStores, KnowVersionsByGenerationsAndStrongTags) {
  EXPECT_EQ(gs_store()->tag_of(head_of(206, {{"x-goog-generation", "17"}, {"etag", "\"a\""}})), "17");
  EXPECT_EQ(gs_store()->tag_of(head_of(206, {{"x-goog-generation", "17&x=1"}, {"etag", "\"a\""}})), "\"a\"");
  EXPECT_EQ(az_store()->tag_of(head_of(206, {{"etag", "W/\"a\""}})), "");
  EXPECT_EQ(hf_store()->tag_of(head_of(206, {{"etag", "\"a\""}})), "\"a\"");
  EXPECT_EQ(hf_store()->linked_tag_of(head_of(302, {{"x-linked-etag", "\"b\""}, {"etag", "\"a\""}})),
            "\"b\"");
  EXPECT_EQ(hf_store()->linked_tag_of(head_of(302, {{"x-linked-etag", "W/\"b\""}})), "");
}

TEST(CloudStores, TakeA401ForAnExpiredTokenWhereThereIsOne) {
  const auto web = make_store("http://host", {{"token", "hidden"}});
  for (const auto& store : {web, gs_store(), az_store(), hf_store()}) {
    EXPECT_TRUE(store->fault_of(head_of(401), "").is_expired);
    EXPECT_FALSE(store->fault_of(head_of(403), "").is_expired);
  }
  const auto nobody = make_store("gs://b", {{"anonymous", "true"}, {"endpoint_url", kEndpoint}});
  EXPECT_FALSE(nobody->fault_of(head_of(401), "").is_expired);
  EXPECT_FALSE(hf_store()->fault_of(head_of(401, {{"x-error-code", "RepoNotFound"}}), "").is_expired);
}

TEST(CloudStores, ReadTheFaultsOfGoogle) {
  const std::string text =
      R"({"error": {"code": 403, "message": "Too\u001b many", "errors": [{"reason": "userRateLimitExceeded"}]}})";
  const HttpHead head = head_of(403, {{"content-type", "application/json; charset=UTF-8"}});
  const ServiceFault fault = gs_store()->fault_of(head, text);
  EXPECT_EQ(fault.code, "userRateLimitExceeded");
  EXPECT_EQ(fault.message, "Too  many");
  EXPECT_TRUE(fault.is_throttled);
  EXPECT_EQ(gs_store()->fault_of(head, text.substr(0, 60)).message, "Too  many");
  EXPECT_EQ(gs_store()->fault_of(head_of(404), "No such object: b/x").message, "No such object: b/x");
  EXPECT_EQ(gs_store()->fault_of(head_of(502), " <html>").message, "");
}

TEST(CloudStores, ReadTheFaultsOfAzure) {
  const std::string text =
      "\xEF\xBB\xBF<?xml version=\"1.0\"?><Error><Code>AuthenticationFailed</Code><Message>Server failed.\n"
      "RequestId:1</Message><AuthenticationErrorDetail>Signature not valid in the specified time frame"
      "</AuthenticationErrorDetail></Error>";
  const ServiceFault fault = az_store()->fault_of(head_of(403, {{"x-ms-request-id", "1"}}), text);
  EXPECT_EQ(fault.code, "AuthenticationFailed");
  EXPECT_EQ(fault.message, "Server failed.");
  EXPECT_EQ(fault.request_id, "1");
  EXPECT_TRUE(fault.is_expired);
  EXPECT_EQ(az_store()->fault_of(head_of(404, {{"x-ms-error-code", "BlobNotFound"}}), "").code,
            "BlobNotFound");
}

TEST(CloudStores, FollowTheLinkToTheNextPageAtTheSameServerOnly) {
  const auto continuation = [](const std::string& link) {
    return hf_store()->read_list(kHubUrl, head_of(200, {{"link", link}}), "[]").continuation;
  };
  EXPECT_EQ(continuation("<http://host:1/a?b=%3C,>; rel=\"next\""), "http://host:1/a?b=%3C,");
  EXPECT_EQ(continuation("</first>; rel=\"first\", </a>; rel=\"next\""), "http://host:1/a");
  for (const char* none : {"", "</a>; rel=\"prev\"", "</a>", "</a", "rel=\"next\"", "<>"})
    EXPECT_EQ(continuation(none), "") << none;
  for (const char* other : {"<http://host:2/a>; rel=\"next\"", "<https://host:1/a>; rel=\"next\"",
                            "<//other/a>; rel=\"next\"", "<http://host:1@other/a>; rel=\"next\""})
    EXPECT_THROW(continuation(other), std::runtime_error) << other;
}

TEST(CloudStores, ListFilesOfTheHubByTheirContents) {
  const ListPage page =
      hf_store()->read_list(kHubUrl, head_of(200),
                            R"([{"type": "directory", "path": "d/a b?", "size": 0, "oid": "1"},
          {"type": "file", "path": "d/a b?/x", "size": 3, "oid": "2", "lfs": {"oid": "3", "size": 3}},
          {"type": "file", "path": "d/a b?y", "size": 4, "oid": "5"},
          {"type": "file", "path": "d/other", "size": 4, "oid": "6"}])");
  ASSERT_EQ(page.objects.size(), 2U);
  EXPECT_EQ(page.objects[0].url, std::string(kHubUrl) + "/x");
  EXPECT_EQ(page.objects[0].tag, "\"3\"");
  EXPECT_EQ(page.objects[1].url, std::string(kHubUrl) + "y");
  EXPECT_EQ(page.objects[1].tag, "\"5\"");
}

TEST(CloudStores, DropATagThatNoHeaderCarries) {
  const ListPage page = az_store()->read_list(
      "az://b/", head_of(200),
      "<EnumerationResults><Blobs><Blob><Name>x</Name><Properties><Etag>1&#13;&#10;Authorization: x</Etag>"
      "<Content-Length>3</Content-Length></Properties></Blob></Blobs></EnumerationResults>");
  ASSERT_EQ(page.objects.size(), 1U);
  EXPECT_EQ(page.objects[0].tag, "");
}

}  // namespace
}  // namespace torch_distinput
