// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <utility>

#include "remote/credentials.h"
#include "remote/fault_text.h"
#include "remote/google_user.h"
#include "remote/json_reader.h"
#include "remote/signing_v4.h"
#include "remote/stores.h"
#include "remote/text.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

bool is_generation(std::string_view tag) {
  return !tag.empty() && tag.find_first_not_of("0123456789") == std::string_view::npos;
}

/// {"error": {"message": ..., "errors": [{"reason": ...}]}}, or a sentence where bytes were asked for.
void read_google_fault(ServiceFault& fault, const HttpHead& head, std::string_view body) {
  if (!head.header("content-type").starts_with("application/json")) {
    if (!trimmed(body).starts_with('<')) fault.message = plain_text(body);
    return;
  }
  try {
    read_json(body, [&](const JsonPath& path, const std::string& value) {
      if (path == JsonPath{"error", "message"}) fault.message = plain_text(value);
      if (path == JsonPath{"error", "errors", "[]", "reason"}) fault.code = plain_text(value);
    });
  } catch (const std::runtime_error&) {
    // What was read before the damage is good enough for a message.
  }
}

/// Google Cloud Storage's JSON interface. Names of objects are as the user writes them, not encoded.
class GsStore final : public ObjectStore {
 public:
  GsStore(const std::string& url, std::string endpoint, Credentials::Find find, CredentialCallback callback)
      : bucket_(parse_url(url).authority),
        endpoint_(std::move(endpoint)),
        objects_("/storage/v1/b/" + percent_encode(bucket_, false) + "/o"),
        credentials_(std::move(find), std::move(callback), url) {}

  HttpRequest get(const std::string& url, ByteRange range, const std::string& tag,
                  SigningTime) const override {
    HttpRequest request{.url =
                            endpoint_ + objects_ + "/" + percent_encode(name_of(url), false) + "?alt=media"};
    request.headers.emplace_back("Range", range_header(range));
    // Bytes as they are stored: those of objects with Content-Encoding: gzip would come unpacked, without
    // regard to the range.
    request.headers.emplace_back("Accept-Encoding", "gzip");
    if (is_generation(tag)) {
      request.url += "&ifGenerationMatch=" + tag;
    } else if (!tag.empty()) {
      request.headers.emplace_back("If-Match", tag);
    }
    add_bearer(request, credentials_.get("token"));
    return request;
  }
  HttpRequest put(const std::string& url, std::string body, SigningTime) const override {
    const std::string query = canonical_query({{"uploadType", "media"}, {"name", name_of(url)}});
    HttpRequest request{
        .method = "POST", .url = endpoint_ + "/upload" + objects_ + "?" + query, .body = std::move(body)};
    request.headers.emplace_back("Content-Type", "application/octet-stream");
    add_bearer(request, credentials_.get("token"));
    return request;
  }
  HttpRequest list(const std::string& prefix, const std::string& continuation, SigningTime) const override {
    std::vector<std::pair<std::string, std::string>> query{
        {"prefix", name_of(prefix)}, {"fields", "items(name,size,generation),nextPageToken"}};
    if (!continuation.empty()) query.emplace_back("pageToken", continuation);
    HttpRequest request{.url = endpoint_ + objects_ + "?" + canonical_query(std::move(query))};
    add_bearer(request, credentials_.get("token"));
    return request;
  }
  ListPage read_list(const std::string&, const HttpHead&, std::string_view body) const override {
    ListPage page;
    if (!trimmed(body).starts_with('{')) throw std::runtime_error("the answer is not a list of objects");
    ListedTexts object;
    read_json(
        body,
        [&](const JsonPath& path, const std::string& value) {
          if (path == JsonPath{"nextPageToken"}) page.continuation = value;
          if (path.size() != 3 || path[0] != "items" || path[1] != "[]") return;
          if (path[2] == "name") object.name = value;
          if (path[2] == "generation" && is_generation(value)) object.tag = value;
          if (path[2] == "size") object.size = value;
        },
        [&](const JsonPath& path) {
          if (path == JsonPath{"items", "[]"})
            add_listed(page, "gs://" + bucket_ + "/", std::exchange(object, {}));
        });
    return page;
  }

  std::string tag_of(const HttpHead& head) const override {
    const std::string generation = head.header("x-goog-generation");
    return is_generation(generation) ? generation : strong_etag(head);
  }
  ServiceFault fault_of(const HttpHead& head, std::string_view body) const override {
    ServiceFault fault;
    read_google_fault(fault, head, body);
    fault.request_id = request_id(head);
    fault.is_throttled = says_throttled(fault.code);
    fault.is_expired = head.status == 401 && !credentials_.get()->empty();
    return fault;
  }
  void prepare(SigningTime now) const override { credentials_.prepare(now); }
  bool refresh() const override { return credentials_.refresh(); }

 private:
  std::string name_of(const std::string& url) const { return name_in_bucket(url, "gs", bucket_); }

  std::string bucket_;
  std::string endpoint_;
  std::string objects_;  ///< the path that all of the bucket lie below
  Credentials credentials_;
};

/// The value of STORAGE_EMULATOR_HOST as a URL; "" where it is not set.
std::string emulator() {
  const std::string host = environment("STORAGE_EMULATOR_HOST");
  return host.empty() || host.find("://") != std::string::npos ? host : "http://" + host;
}

std::string endpoint_of(const StorageOptions& options) {
  std::string endpoint =
      first_of({option(options, "endpoint_url"), emulator(), "https://storage.googleapis.com"});
  static_cast<void>(parse_url(endpoint));
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

/// Options by these names, where all of them are given.
StorageOptions taken(const StorageOptions& options, std::initializer_list<const char*> names) {
  StorageOptions result;
  for (const char* name : names) {
    if (option(options, name).empty()) return {};
    result[name] = option(options, name);
  }
  return result;
}

/// Asks `first`, where it is not empty, else `second`.
CredentialCallback either(CredentialCallback first, CredentialCallback second) {
  return first ? std::move(first) : std::move(second);
}

}  // namespace

ObjectStorePtr make_gs_store(const std::string& url, const StorageOptions& options,
                             CredentialCallback callback) {
  check_options(options, "gs", {"token", "expires", "key", "secret", "endpoint_url", "anonymous"});
  check_keys(options);
  const std::string endpoint = endpoint_of(options);
  const bool anonymous = option(options, "anonymous") == "true";
  // HMAC keys are good for the interface that is like S3's only.
  if (StorageOptions keys = taken(options, {"key", "secret"}); !keys.empty() && !anonymous) {
    return make_s3_store(url, S3Server{.scheme = "gs", .region = "auto", .endpoint = endpoint},
                         [keys = std::move(keys)] { return keys; }, {});
  }
  StorageOptions token = taken(options, {"token", "expires"});
  if (token.empty()) token = taken(options, {"token"});
  const bool emulated = !emulator().empty() && option(options, "endpoint_url").empty();
  if (anonymous) token = {};
  if (anonymous || emulated) {
    callback = {};
  } else if (token.empty()) {
    callback = either(google_user(), std::move(callback));
  }
  return std::make_shared<GsStore>(url, endpoint, [token] { return token; }, std::move(callback));
}

}  // namespace torch_distinput
