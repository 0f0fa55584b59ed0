// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/stores.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

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

std::string range_header(ByteRange range) {
  return "bytes=" + std::to_string(range.offset) + "-" + std::to_string(range.offset + range.size - 1);
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
  throw std::invalid_argument(
      "the scheme of `" + shown_url(url) +
      "` is not one of http, https, s3, gs, az, hf, nor was a file system given for it");
}

}  // namespace torch_distinput
