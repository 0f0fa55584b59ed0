// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "remote/range_transfer.h"
#include "remote/sha256.h"

namespace torch_distinput {

/// Names a version of an object in a cache. URLs of messages are kept, as others may hold secrets; the digest
/// is of the whole URL.
struct CacheKey {
  std::string url;         ///< without its query, its first 1,024 bytes
  std::string tag;         ///< its first 256 bytes
  std::uint64_t size = 0;  ///< bytes of the object
  Sha256 digest{};         ///< of URL, tag and size
  std::string folder;      ///< "ab/" and 32 hexadecimal digits: half of them of the URL alone
};

/// REQUIRES: the tag of `version` is not empty.
CacheKey cache_key(const std::string& url, const ObjectVersion& version);

/// The part of the folder of a key that its versions share.
inline std::string_view url_part(std::string_view folder) { return folder.substr(0, 19); }

}  // namespace torch_distinput
