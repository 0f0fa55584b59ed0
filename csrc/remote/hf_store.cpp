// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <stdexcept>
#include <utility>

#include "remote/credentials.h"
#include "remote/fault_text.h"
#include "remote/hub_path.h"
#include "remote/json_reader.h"
#include "remote/place.h"
#include "remote/stores.h"
#include "remote/text.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

/// The first line of the file that huggingface_hub keeps the user's token in; "" where there is none.
std::string token_of_file() {
  const std::string cache = first_of({environment("XDG_CACHE_HOME"), environment("HOME") + "/.cache"});
  const std::string home = first_of({environment("HF_HOME"), cache + "/huggingface"});
  std::ifstream file(first_of({environment("HF_TOKEN_PATH"), home + "/token"}));
  std::string line;
  std::getline(file, line);
  return std::string(trimmed(line));
}

StorageOptions find_token(const StorageOptions& options) {
  if (option(options, "anonymous") == "true") return {};
  const std::string given = first_of({option(options, "token"), environment("HF_TOKEN")});
  const std::string token = given.empty() ? token_of_file() : given;
  return token.empty() ? StorageOptions{} : StorageOptions{{"token", token}};
}

/// The URL of the next page in "<url>; rel="next", <url>; rel="last"", a Link header; "" where there is none.
std::string next_link(std::string_view links) {
  while (links.find('<') != std::string_view::npos) {
    links.remove_prefix(links.find('<') + 1);
    const std::size_t end = links.find('>');
    if (end == std::string_view::npos) break;
    const std::string_view behind = links.substr(end, links.find('<', end) - end);
    if (behind.find("rel=\"next\"") != std::string_view::npos) return std::string(links.substr(0, end));
  }
  return {};
}

/// The Hugging Face Hub: files of data sets, models and spaces. Files lie on other servers, mostly, to which
/// it redirects.
class HfStore final : public ObjectStore {
 public:
  HfStore(const std::string& url, const StorageOptions& options, CredentialCallback callback)
      : endpoint_(first_of(
            {option(options, "endpoint_url"), environment("HF_ENDPOINT"), "https://huggingface.co"})),
        credentials_([options] { return find_token(options); }, std::move(callback), url) {
    static_cast<void>(parse_url(endpoint_));
    while (endpoint_.ends_with('/')) endpoint_.pop_back();
  }

  /// `tag` is compared with what the answers tell: the Hub takes no conditions.
  HttpRequest get(const std::string& url, ByteRange range, const std::string&, SigningTime) const override {
    const HubPath place = parse_hub_path(url);
    HttpRequest request = asked("/" + place.repository + "/resolve/" + percent_encode(place.revision, false) +
                                "/" + percent_encode(place.path, true));
    request.headers.emplace_back("Range", range_header(range));
    return request;
  }
  HttpRequest put(const std::string& url, std::string, SigningTime) const override {
    throw std::invalid_argument(shown_url(url) +
                                " cannot be written to: the Hub takes commits, by huggingface_hub");
  }
  /// `continuation` is the URL of the page.
  HttpRequest list(const std::string& prefix, const std::string& continuation, SigningTime) const override {
    const HubPath place = parse_hub_path(prefix);
    const std::string folder = place.path.substr(0, place.path.rfind('/') + 1);  // of "a/b", "a/"
    const std::string inside = folder.empty() ? "" : "/" + folder.substr(0, folder.size() - 1);
    HttpRequest request =
        asked("/api/" + (is_model(place) ? "models/" : std::string()) + place.repository + "/tree/" +
              percent_encode(place.revision, false) + percent_encode(inside, true) + "?recursive=true");
    if (!continuation.empty()) request.url = continuation;
    return request;
  }
  ListPage read_list(const std::string& prefix, const HttpHead& head, std::string_view body) const override {
    if (!trimmed(body).starts_with('[')) throw std::runtime_error("the answer is not a list of files");
    ListPage page;
    ListedTexts file;
    std::string kind;
    std::string content;  // names what a file of LFS has
    const HubPath place = parse_hub_path(prefix);
    read_json(
        body,
        [&](const JsonPath& path, const std::string& value) {
          if (path == JsonPath{"[]", "type"}) kind = value;
          if (path == JsonPath{"[]", "path"}) file.name = value;
          if (path == JsonPath{"[]", "size"}) file.size = value;
          if (path == JsonPath{"[]", "oid"}) file.tag = in_quotes(value);
          if (path == JsonPath{"[]", "lfs", "oid"}) content = in_quotes(value);
        },
        [&](const JsonPath& path) {
          if (path != JsonPath{"[]"}) return;
          ListedTexts whole = std::exchange(file, {});
          if (const std::string tag = std::exchange(content, {}); !tag.empty()) whole.tag = tag;
          if (std::exchange(kind, {}) == "file" && whole.name.starts_with(place.path))
            add_listed(page, place.front, whole);
        });
    page.continuation = next_page(head);
    return page;
  }

  std::string tag_of(const HttpHead& head) const override {
    const std::string linked = linked_tag_of(head);
    return linked.empty() ? strong_etag(head) : linked;
  }
  std::string linked_tag_of(const HttpHead& head) const override {
    const std::string tag = head.header("x-linked-etag");
    return tag.starts_with("W/") ? std::string() : tag;
  }
  ServiceFault fault_of(const HttpHead& head, std::string_view) const override {
    ServiceFault fault;
    fault.code = plain_text(head.header("x-error-code"));
    fault.message = plain_text(head.header("x-error-message"));
    fault.request_id = request_id(head);
    // A repository that the user may not see is 401, too.
    const bool is_about_it = fault.code == "RepoNotFound" || fault.code == "GatedRepo";
    fault.is_expired = head.status == 401 && !is_about_it && !credentials_.get()->empty();
    return fault;
  }
  void prepare(SigningTime now) const override { credentials_.prepare(now); }
  bool refresh() const override { return credentials_.refresh(); }

 private:
  static bool is_model(const HubPath& place) {
    return !place.repository.starts_with("datasets/") && !place.repository.starts_with("spaces/");
  }

  HttpRequest asked(const std::string& path) const {
    HttpRequest request{.url = endpoint_ + path};
    add_bearer(request, credentials_.get("token"));
    return request;
  }

  /// The next page lies on the same server: the token goes there.
  std::string next_page(const HttpHead& head) const {
    const std::string link = next_link(head.header("link"));
    if (link.empty()) return {};
    std::string next = resolve_url(endpoint_, link);
    if (origin_of(next) != origin_of(endpoint_))
      throw std::runtime_error("the next page of its list of files lies on another server");
    return next;
  }

  std::string endpoint_;
  Credentials credentials_;
};

}  // namespace

ObjectStorePtr make_hf_store(const std::string& url, const StorageOptions& options,
                             CredentialCallback callback) {
  check_options(options, "hf", {"token", "endpoint_url", "anonymous"});
  if (option(options, "anonymous") == "true") callback = {};
  return std::make_shared<HfStore>(url, options, std::move(callback));
}

}  // namespace torch_distinput
