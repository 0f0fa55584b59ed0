// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <utility>

#include "remote/credentials.h"
#include "remote/fault_text.h"
#include "remote/stores.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

constexpr std::string_view kHeaderOption = "headers.";

/// A web server: objects are what it has at their URLs. It cannot list them.
class HttpStore final : public ObjectStore {
 public:
  HttpStore(const std::string& url, const StorageOptions& options, CredentialCallback callback)
      : credentials_(
            [token = option(options, "token")] {
              return token.empty() ? StorageOptions{} : StorageOptions{{"token", token}};
            },
            std::move(callback), url) {
    check_options(options, "http", {"token", "headers.", "anonymous"});
    for (const auto& [name, value] : options) {
      if (name.starts_with(kHeaderOption)) headers_.emplace_back(name.substr(kHeaderOption.size()), value);
    }
  }

  HttpRequest get(const std::string& url, ByteRange range, const std::string& tag,
                  SigningTime) const override {
    HttpRequest request{.url = encoded(url), .headers = headers_};
    add_bearer(request, credentials_.get("token"));
    request.headers.emplace_back("Range", range_header(range));
    if (!tag.empty()) request.headers.emplace_back("If-Match", tag);
    return request;
  }
  HttpRequest put(const std::string& url, std::string, SigningTime) const override {
    throw std::invalid_argument(shown_url(url) + " cannot be written to: it lies on a web server");
  }
  HttpRequest list(const std::string& prefix, const std::string&, SigningTime) const override {
    throw std::invalid_argument("the objects below " + shown_url(prefix) +
                                " cannot be listed: web servers have no lists; give the URLs themselves");
  }
  ListPage read_list(const std::string&, const HttpHead&, std::string_view) const override { return {}; }
  std::string tag_of(const HttpHead& head) const override { return strong_etag(head); }
  ServiceFault fault_of(const HttpHead& head, std::string_view) const override {
    ServiceFault fault;
    fault.is_expired = head.status == 401 && !credentials_.get()->empty();
    fault.request_id = request_id(head);
    return fault;
  }
  void prepare(SigningTime now) const override { credentials_.prepare(now); }
  bool refresh() const override { return credentials_.refresh(); }

 private:
  /// Spaces and bytes beyond ASCII are encoded; the rest is as the user wrote it.
  static std::string encoded(const std::string& url) {
    std::string result;
    for (const char c : url) {
      result += c <= ' ' || c > '~' ? percent_encode({&c, 1}, false) : std::string(1, c);
    }
    return result;
  }

  std::vector<std::pair<std::string, std::string>> headers_;
  Credentials credentials_;
};

}  // namespace

ObjectStorePtr make_http_store(const std::string& url, const StorageOptions& options,
                               CredentialCallback callback) {
  return std::make_shared<HttpStore>(url, options, std::move(callback));
}

}  // namespace torch_distinput
