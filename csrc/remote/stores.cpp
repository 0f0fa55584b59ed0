// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/stores.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "base/utf8_head.h"
#include "remote/fault_text.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

[[noreturn]] void refuse_option(const std::string& name, std::string_view store,
                                std::initializer_list<std::string_view> known) {
  std::string all;
  for (const std::string_view other : known)
    all.append(all.empty() ? "\"" : ", \"").append(other).append(other.ends_with('.') ? "<name>\"" : "\"");
  throw std::invalid_argument("storage_options: \"" + name + "\" is not an option of " + std::string(store) +
                              "; these are: " + all);
}

}  // namespace

std::string first_of(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) return value;
  }
  return {};
}

std::string option(const StorageOptions& options, const std::string& name) {
  const auto found = options.find(name);
  return found == options.end() ? std::string() : found->second;
}

void check_options(const StorageOptions& options, std::string_view store,
                   std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : options) {
    const bool is_known = std::any_of(known.begin(), known.end(), [&name = name](std::string_view other) {
      return other.ends_with('.') ? name.starts_with(other) : name == other;
    });
    if (!is_known) refuse_option(name, store, known);
  }
}

void check_keys(const StorageOptions& options) {
  if (option(options, "key").empty() == option(options, "secret").empty()) return;
  throw std::invalid_argument("storage_options: \"key\" and \"secret\" must be given together");
}

std::string name_in_bucket(const std::string& url, std::string_view scheme, std::string_view bucket) {
  const Url parts = parse_url(url);
  if (parts.scheme != scheme || parts.authority != bucket)
    throw std::invalid_argument(shown_url(url) + " is not an object of the bucket " + std::string(bucket));
  return parts.path.empty() ? "" : parts.path.substr(1);
}

std::string range_header(ByteRange range) {
  return "bytes=" + std::to_string(range.offset) + "-" + std::to_string(range.offset + range.size - 1);
}

void add_bearer(HttpRequest& request, const std::string& token) {
  if (!token.empty()) request.headers.emplace_back("Authorization", "Bearer " + token);
}

void add_listed(ListPage& page, const std::string& front, const ListedTexts& texts) {
  ListedObject object{.url = front + texts.name};
  const char* const end = texts.size.data() + texts.size.size();
  const auto [read, problem] = std::from_chars(texts.size.data(), end, object.size);
  for (std::string_view rest = texts.name; !rest.empty(); rest.remove_prefix(utf8_head(rest).size)) {
    if (!utf8_head(rest).whole) throw std::runtime_error("the list has a name that is not in UTF-8");
  }
  if (texts.name.empty() || texts.size.empty() || problem != std::errc() || read != end)
    throw std::runtime_error("the list has an object without a name or a size");
  if (texts.tag == plain_text(texts.tag)) object.tag = texts.tag;
  page.objects.push_back(std::move(object));
}

std::string in_quotes(const std::string& tag) {
  return tag.empty() || tag.starts_with('"') ? tag : "\"" + tag + "\"";
}

std::string strong_etag(const HttpHead& head) {
  std::string tag = head.header("etag");
  return tag.starts_with("W/") ? std::string() : tag;
}

ObjectStorePtr make_store(const std::string& url, const StorageOptions& options,
                          CredentialCallback callback) {
  const std::string scheme = parse_url(url).scheme;
  if (scheme == "http" || scheme == "https") return make_http_store(url, options, std::move(callback));
  if (scheme == "s3") return make_s3_store(url, options, std::move(callback));
  if (scheme == "gs") return make_gs_store(url, options, std::move(callback));
  if (scheme == "az") return make_az_store(url, options, std::move(callback));
  if (scheme == "hf") return make_hf_store(url, options, std::move(callback));
  throw std::invalid_argument(
      "the scheme of `" + shown_url(url) +
      "` is not one of http, https, s3, gs, az, hf, nor was a file system given for it");
}

}  // namespace torch_distinput
