// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_key.h"

#include "remote/url.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kMostUrl = 1024;
constexpr std::size_t kMostTag = 256;
constexpr std::size_t kDigits = 16;

}  // namespace

CacheKey cache_key(const std::string& url, const ObjectVersion& version) {
  using namespace std::string_literals;
  CacheKey key{.url = shown_url(url).substr(0, kMostUrl),
               .tag = version.tag.substr(0, kMostTag),
               .size = version.size,
               .digest = sha256(url + "\0"s + version.tag + "\0"s + std::to_string(version.size)),
               .folder = {}};
  const std::string of_url = hex_of(bytes_of(sha256(url))).substr(0, kDigits);
  const std::string of_all = hex_of(bytes_of(key.digest)).substr(0, kDigits);
  key.folder = of_url.substr(0, 2) + "/" + of_url + of_all;
  return key;
}

}  // namespace torch_distinput
