// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <utility>

#include "remote/aws_profile.h"
#include "remote/credentials.h"
#include "remote/fault_text.h"
#include "remote/signing_v4.h"
#include "remote/stores.h"
#include "remote/url.h"
#include "remote/xml_reader.h"

namespace torch_distinput {
namespace {

StorageOptions keys_of(const std::string& key, const std::string& secret, const std::string& token) {
  if (key.empty() || secret.empty()) return {};
  return {{"key", key}, {"secret", secret}, {"session_token", token}};
}

/// The keys of the options, else of the environment, else of the profile.
StorageOptions find_keys(const StorageOptions& options) {
  if (option(options, "anonymous") == "true") return {};
  auto keys = keys_of(option(options, "key"), option(options, "secret"), option(options, "session_token"));
  if (keys.empty()) {
    keys = keys_of(environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
                   environment("AWS_SESSION_TOKEN"));
  }
  if (!keys.empty()) return keys;
  auto profile = aws_profile();
  return keys_of(profile["aws_access_key_id"], profile["aws_secret_access_key"],
                 profile["aws_session_token"]);
}

S3Server server_of(const StorageOptions& options, const std::string& bucket) {
  auto profile = aws_profile();
  S3Server server{.scheme = "s3"};
  server.region = first_of({option(options, "region"), environment("AWS_REGION"),
                            environment("AWS_DEFAULT_REGION"), profile["region"], "us-east-1"});
  const std::string endpoint = first_of({option(options, "endpoint_url"), environment("AWS_ENDPOINT_URL_S3"),
                                         environment("AWS_ENDPOINT_URL"), profile["endpoint_url"]});
  const std::string style = option(options, "addressing_style");
  if (!style.empty() && style != "path" && style != "virtual") {
    throw std::invalid_argument(
        "storage_options: \"addressing_style\" must be \"path\" or \"virtual\", but is \"" + style + "\"");
  }
  const bool has_dots = bucket.find('.') != std::string::npos;
  server.by_path = style.empty() ? !endpoint.empty() || has_dots : style == "path";
  server.endpoint = endpoint.empty() ? "https://s3." + server.region + ".amazonaws.com" : endpoint;
  return server;
}

/// Amazon S3 and what speaks its language. Keys of objects are as the user writes them, not encoded.
class S3Store final : public ObjectStore {
 public:
  S3Store(const std::string& url, const S3Server& server, Credentials::Find find, CredentialCallback callback)
      : scheme_(server.scheme),
        bucket_(parse_url(url).authority),
        region_(server.region),
        credentials_(std::move(find), std::move(callback), url) {
    const Url endpoint = parse_url(server.endpoint);
    origin_ = endpoint.scheme + "://";
    host_ = server.by_path ? endpoint.authority : bucket_ + "." + endpoint.authority;
    folder_ = (endpoint.path == "/" ? "" : endpoint.path) +
              (server.by_path ? "/" + percent_encode(bucket_, false) : "");
  }

  HttpRequest get(const std::string& url, ByteRange range, const std::string& tag,
                  SigningTime now) const override {
    HttpRequest request;
    request.headers.emplace_back("Range", range_header(range));
    if (!tag.empty()) request.headers.emplace_back("If-Match", tag);
    return finished(std::move(request), percent_encode(key_of(url), true), {}, now);
  }
  HttpRequest put(const std::string& url, std::string body, SigningTime now) const override {
    HttpRequest request{.method = "PUT", .body = std::move(body)};
    request.headers.emplace_back("Content-Type", "application/octet-stream");
    return finished(std::move(request), percent_encode(key_of(url), true), {}, now);
  }
  HttpRequest list(const std::string& prefix, const std::string& continuation,
                   SigningTime now) const override {
    std::vector<std::pair<std::string, std::string>> query{{"list-type", "2"}, {"prefix", key_of(prefix)}};
    if (!continuation.empty()) query.emplace_back("continuation-token", continuation);
    return finished({}, "", std::move(query), now);
  }
  ListPage read_list(const std::string&, const HttpHead&, std::string_view body) const override {
    ListPage page;
    ListedTexts object;
    bool is_list = false;
    read_xml(
        body,
        [&](const std::vector<std::string>& path, const std::string& value) {
          if (path.size() == 2 && path[1] == "NextContinuationToken") page.continuation = value;
          if (path.size() != 3 || path[1] != "Contents") return;
          if (path[2] == "Key") object.name = value;
          if (path[2] == "ETag") object.tag = in_quotes(value);
          if (path[2] == "Size") object.size = value;
        },
        [&](const std::vector<std::string>& path) {
          if (path.size() == 1) is_list = path[0] == "ListBucketResult";
          if (path.size() == 2 && path[1] == "Contents")
            add_listed(page, scheme_ + "://" + bucket_ + "/", std::exchange(object, {}));
        });
    if (!is_list) throw std::runtime_error("the answer is not a list of objects");
    return page;
  }

  std::string tag_of(const HttpHead& head) const override { return strong_etag(head); }
  ServiceFault fault_of(const HttpHead& head, std::string_view body) const override {
    ServiceFault fault = xml_fault(head, body);
    const std::string region = head.header("x-amz-bucket-region");
    if (!region.empty() && region != region_ && head.status >= 300 && head.status < 500)
      fault.message +=
          (fault.message.empty() ? "" : "; ") + ("the bucket lies in the region " + plain_text(region));
    return fault;
  }
  void prepare(SigningTime now) const override { credentials_.prepare(now); }
  bool refresh() const override { return credentials_.refresh(); }

 private:
  std::string key_of(const std::string& url) const { return name_in_bucket(url, scheme_, bucket_); }

  HttpRequest finished(HttpRequest request, const std::string& key,
                       std::vector<std::pair<std::string, std::string>> query, SigningTime now) const {
    const std::string path = folder_ + "/" + key;
    const std::string text = canonical_query(query);
    request.url = origin_ + host_ + path + (text.empty() ? "" : "?" + text);
    const auto keys = credentials_.get();
    if (!keys->empty()) {
      sign_v4(request, {host_, path, std::move(query)},
              {option(*keys, "key"), option(*keys, "secret"), option(*keys, "session_token")}, region_, "s3",
              now);
    }
    return request;
  }

  std::string scheme_;
  std::string bucket_;
  std::string region_;
  std::string origin_;  ///< "https://"
  std::string host_;
  std::string folder_;  ///< before the key: the path of the endpoint, and the bucket in path style
  Credentials credentials_;
};

}  // namespace

ObjectStorePtr make_s3_store(const std::string& url, const S3Server& server, Credentials::Find find,
                             CredentialCallback callback) {
  return std::make_shared<S3Store>(url, server, std::move(find), std::move(callback));
}

ObjectStorePtr make_s3_store(const std::string& url, const StorageOptions& options,
                             CredentialCallback callback) {
  check_options(
      options, "s3",
      {"key", "secret", "session_token", "region", "endpoint_url", "addressing_style", "anonymous"});
  check_keys(options);
  if (option(options, "anonymous") == "true") callback = {};
  return make_s3_store(
      url, server_of(options, parse_url(url).authority), [options] { return find_keys(options); },
      std::move(callback));
}

}  // namespace torch_distinput
