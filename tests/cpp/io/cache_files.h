// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "io/block_claim.h"
#include "io/cache_file.h"
#include "io/cache_walk.h"
#include "io/sample_files.h"

/// A cache in a folder that goes with the test.
namespace torch_distinput::files_testing {

inline constexpr CacheLimits kNoLimits{.least_free = 0};

inline std::string random_text(std::size_t size, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class InCache : public ::testing::Test {
 protected:
  static CacheKey key_of(const std::string& name, std::uint64_t size, const std::string& tag = "\"1\"") {
    return cache_key("https://host/" + name, {size, tag});
  }
  static std::string part_of(const std::string& object, std::uint64_t block) {
    const ByteRange range = block_range(block, object.size());
    return object.substr(range.offset, range.size);
  }

  BlockClaim::State take(const CacheKey& key, std::uint64_t block, std::optional<BlockClaim>& claim,
                         const CacheLimits& limits = kNoLimits) {
    return BlockClaim::take(*root_, limits, key, block, claim);
  }
  /// Keeps a block of `object`; false where there is no room.
  bool keep(const CacheKey& key, const std::string& object, std::uint64_t block,
            const CacheLimits& limits = kNoLimits) {
    std::optional<BlockClaim> claim;
    return take(key, block, claim, limits) == BlockClaim::State::kMine &&
           claim->keep(key, part_of(object, block));
  }
  CacheFile::State open(const CacheKey& key, std::uint64_t number, CacheFilePtr& file) const {
    return CacheFile::open(*root_, key, number, file);
  }
  /// Whether the cache has the right bytes of a block.
  bool has(const CacheKey& key, const std::string& object, std::uint64_t block) const {
    CacheFilePtr file;
    const std::string right = part_of(object, block);
    std::string bytes(right.size(), '\0');
    return open(key, file_of(block), file) == CacheFile::State::kThere &&
           file->read(bytes, block_range(block, object.size()).offset) == CacheFile::State::kThere &&
           bytes == right;
  }
  std::string path_of(const CacheKey& key, std::uint64_t number) const {
    return folder_.path("cache/v1/" + file_path(key, number));
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path("cache/v1"))) {
      if (entry.is_regular_file() && entry.path().filename() != "usage")
        found.push_back(entry.path().string());
    }
    return found;
  }
  /// What they take.
  std::uint64_t bytes_of_files() const {
    std::uint64_t bytes = 0;
    for (const CachedVersion& version : walk_cache(root_->number())) bytes += version.bytes;
    return bytes;
  }
  static std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  const Folder folder_;
  CacheRootPtr root_ = CacheRoot::open(folder_.path("cache"), /*make=*/true);
};

}  // namespace torch_distinput::files_testing
