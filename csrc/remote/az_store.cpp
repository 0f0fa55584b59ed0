// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <utility>

#include "remote/base64.h"
#include "remote/credentials.h"
#include "remote/fault_text.h"
#include "remote/shared_key.h"
#include "remote/signing_v4.h"
#include "remote/stores.h"
#include "remote/text.h"
#include "remote/url.h"
#include "remote/xml_reader.h"

namespace torch_distinput {
namespace {

/// The last version whose lists have all names as they are: later ones encode some of them.
constexpr const char* kAzureVersion = "2020-12-06";

/// The parts of "Name=value;Other=value", by their names in lower case.
StorageOptions connection_parts(std::string_view text) {
  StorageOptions parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    parts[lower(trimmed(part.substr(0, equals)))] = trimmed(part.substr(equals + 1));
  }
  return parts;
}

/// Which account is asked, where.
struct AzureAccount {
  std::string name;
  std::string endpoint;  ///< a URL without a slash at its end
};

AzureAccount account_of(const StorageOptions& options) {
  StorageOptions connection = connection_parts(environment("AZURE_STORAGE_CONNECTION_STRING"));
  AzureAccount account;
  account.name =
      first_of({option(options, "account"), environment("AZURE_STORAGE_ACCOUNT"), connection["accountname"]});
  account.endpoint = first_of({option(options, "endpoint_url"), connection["blobendpoint"]});
  if (account.endpoint.empty() && account.name.empty()) {
    throw std::invalid_argument(
        "storage_options: az needs \"account\", the name of the storage account, or \"endpoint_url\"; the "
        "variables AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_CONNECTION_STRING are not set either");
  }
  if (account.endpoint.empty()) {
    account.endpoint = first_of({connection["defaultendpointsprotocol"], "https"}) + "://" + account.name +
                       ".blob." + first_of({connection["endpointsuffix"], "core.windows.net"});
  }
  static_cast<void>(parse_url(account.endpoint));
  while (account.endpoint.ends_with('/')) account.endpoint.pop_back();
  return account;
}

/// {"key": ...}, decoded; {"sas_token": ...}, without "?"; or {"token": ...}; nothing where none is given.
StorageOptions one_of(const std::string& token, const std::string& sas, const std::string& key) {
  if (!token.empty()) return {{"token", token}};
  if (!sas.empty()) return {{"sas_token", sas.substr(sas.starts_with('?') ? 1 : 0)}};
  if (key.empty()) return {};
  auto bytes = base64_decode(key);
  if (!bytes) throw std::invalid_argument("storage_options: \"key\" of az must be base64");
  return {{"key", *std::move(bytes)}};
}

/// The credentials of the options, else of the environment.
StorageOptions find_credentials(const StorageOptions& options) {
  if (option(options, "anonymous") == "true") return {};
  StorageOptions found =
      one_of(option(options, "token"), option(options, "sas_token"), option(options, "key"));
  if (found.empty())
    found = one_of("", environment("AZURE_STORAGE_SAS_TOKEN"), environment("AZURE_STORAGE_KEY"));
  if (found.empty()) {
    StorageOptions connection = connection_parts(environment("AZURE_STORAGE_CONNECTION_STRING"));
    found = one_of("", connection["sharedaccesssignature"], connection["accountkey"]);
  }
  if (const std::string expires = option(options, "expires"); !expires.empty() && !found.empty())
    found["expires"] = expires;
  return found;
}

/// The credentials that a callback returns, in the same form.
CredentialCallback decoding(CredentialCallback callback) {
  if (!callback) return {};
  return [callback = std::move(callback)](const std::string& url) { return find_credentials(callback(url)); };
}

/// Azure Blob Storage. Names of blobs are as the user writes them, not encoded.
class AzStore final : public ObjectStore {
 public:
  AzStore(const std::string& url, const StorageOptions& options, CredentialCallback callback)
      : container_(parse_url(url).authority),
        account_(account_of(options)),
        credentials_([options] { return find_credentials(options); }, std::move(callback), url) {
    if (!credentials_.get("key").empty() && account_.name.empty())
      throw std::invalid_argument("storage_options: the \"key\" of az needs \"account\", too");
  }

  HttpRequest get(const std::string& url, ByteRange range, const std::string& tag,
                  SigningTime now) const override {
    HttpRequest request;
    request.headers.emplace_back("Range", range_header(range));
    if (!tag.empty()) request.headers.emplace_back("If-Match", tag);
    return finished(std::move(request), "/" + percent_encode(name_of(url), true), {}, now);
  }
  HttpRequest put(const std::string& url, std::string body, SigningTime now) const override {
    HttpRequest request{.method = "PUT", .body = std::move(body)};
    request.headers.emplace_back("Content-Type", "application/octet-stream");
    request.headers.emplace_back("x-ms-blob-type", "BlockBlob");
    return finished(std::move(request), "/" + percent_encode(name_of(url), true), {}, now);
  }
  HttpRequest list(const std::string& prefix, const std::string& continuation,
                   SigningTime now) const override {
    std::vector<std::pair<std::string, std::string>> query{
        {"restype", "container"}, {"comp", "list"}, {"prefix", name_of(prefix)}};
    if (!continuation.empty()) query.emplace_back("marker", continuation);
    return finished({}, "", std::move(query), now);
  }
  ListPage read_list(const std::string&, const HttpHead&, std::string_view body) const override {
    ListPage page;
    ListedTexts blob;
    bool is_list = false;
    bool is_folder = false;
    read_xml(
        body,
        [&](const std::vector<std::string>& path, const std::string& value) {
          if (path.size() == 2 && path[1] == "NextMarker") page.continuation = value;
          if (path.size() == 4 && path[2] == "Blob" && path[3] == "Name") blob.name = value;
          if (path.size() != 5 || path[2] != "Blob" || path[3] != "Properties") return;
          if (path[4] == "Content-Length") blob.size = value;
          if (path[4] == "Etag") blob.tag = in_quotes(value);
          if (path[4] == "ResourceType") is_folder = value == "directory";
        },
        [&](const std::vector<std::string>& path) {
          if (path.size() == 1) is_list = path[0] == "EnumerationResults";
          if (path.size() != 3 || path[2] != "Blob") return;
          const ListedTexts whole = std::exchange(blob, {});
          if (!std::exchange(is_folder, false)) add_listed(page, "az://" + container_ + "/", whole);
        });
    if (!is_list) throw std::runtime_error("the answer is not a list of blobs");
    return page;
  }

  std::string tag_of(const HttpHead& head) const override { return strong_etag(head); }
  ServiceFault fault_of(const HttpHead& head, std::string_view body) const override {
    ServiceFault fault = xml_fault(head, body);
    const std::string code = head.header("x-ms-error-code");
    if (!code.empty()) fault.code = plain_text(code);
    const std::string message = xml_value(body, "Message");
    fault.message = plain_text(message.substr(0, message.find('\n')));  // then its number and the time
    const bool is_old = xml_value(body, "AuthenticationErrorDetail").find("time frame") != std::string::npos;
    const bool is_refused = head.status == 401 && !credentials_.get()->empty();
    fault.is_throttled = says_throttled(fault.code);
    fault.is_expired = is_refused || is_old;
    return fault;
  }
  void prepare(SigningTime now) const override { credentials_.prepare(now); }
  bool refresh() const override { return credentials_.refresh(); }

 private:
  std::string name_of(const std::string& url) const { return name_in_bucket(url, "az", container_); }

  /// `request` for what lies at `path` in the container, with the credentials.
  HttpRequest finished(HttpRequest request, const std::string& path,
                       std::vector<std::pair<std::string, std::string>> query, SigningTime now) const {
    const auto known = credentials_.get();
    request.url = account_.endpoint + "/" + percent_encode(container_, false) + path;
    const std::string place = parse_url(request.url).path;
    const std::string asked = canonical_query(query);
    const std::string sas = option(*known, "sas_token");
    const std::string text = asked + (asked.empty() || sas.empty() ? "" : "&") + sas;
    if (!text.empty()) request.url += "?" + text;
    request.headers.emplace_back("x-ms-version", kAzureVersion);
    request.headers.emplace_back("x-ms-date", http_date(now));
    add_bearer(request, option(*known, "token"));
    if (const std::string key = option(*known, "key"); !key.empty())
      sign_shared_key(request, {account_.name, place, std::move(query)}, key);
    return request;
  }

  std::string container_;
  AzureAccount account_;
  Credentials credentials_;
};

}  // namespace

ObjectStorePtr make_az_store(const std::string& url, const StorageOptions& options,
                             CredentialCallback callback) {
  check_options(options, "az",
                {"account", "key", "sas_token", "token", "expires", "endpoint_url", "anonymous"});
  if (option(options, "anonymous") == "true") callback = {};
  return std::make_shared<AzStore>(url, options, decoding(std::move(callback)));
}

}  // namespace torch_distinput
