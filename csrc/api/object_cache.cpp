// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include <c10/util/Exception.h>

#include "io/cache_walk.h"
#include "io/disk_cache.h"
#include "torch_distinput/error.h"
#include "torch_distinput/storage.h"

namespace torch_distinput {
namespace {

void warn_of(const std::string& line) { TORCH_WARN("torch_distinput: ", line, "."); }

[[maybe_unused]] const bool tells_troubles = (DiskCache::tell_troubles(&warn_of), true);

/// The cache in `folder`, which must be there.
CacheRootPtr open_cache(const std::string& folder) {
  try {
    return CacheRoot::open(std::filesystem::absolute(folder).string(), /*make=*/false);
  } catch (const std::runtime_error& problem) {
    throw InvalidArgumentError(std::string("cache: ") + problem.what() + ".");
  }
}

}  // namespace

std::vector<CachedObjectInfo> list_object_cache(const std::string& folder) {
  const CacheRootPtr root = open_cache(folder);
  std::vector<CachedObjectInfo> found;
  for (const CachedVersion& version : walk_cache(root->number())) {
    const CacheKey of = owner_of(root->number(), version.folder).value_or(FileOwner()).key;
    found.push_back(
        {.url = of.url, .tag = of.tag, .size = of.size, .bytes = version.bytes, .used = version.used});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.used > b.used; });
  return found;
}

std::uint64_t trim_object_cache(const std::string& folder, std::uint64_t bytes) {
  const CacheRootPtr root = open_cache(folder);
  return trim_room(*root, bytes);
}

}  // namespace torch_distinput
