// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "io/cache_file.h"

namespace torch_distinput {

/// The files of a cache that were read last stay open, as rows are often smaller than files, until somebody
/// removes them, as they would take room. Safe from any thread.
class OpenFiles {
 public:
  /// Keeps at most `most` of them open.
  explicit OpenFiles(std::size_t most) : most_(most) {}

  /// The file, if it is open and was not removed; else null.
  CacheFilePtr get(const CacheKey& key, std::uint64_t number);
  void put(const CacheKey& key, CacheFilePtr file);
  void remove(const CacheKey& key, std::uint64_t number);

 private:
  using Name = std::pair<Sha256, std::uint64_t>;  ///< of the object, and number
  using Entry = std::pair<Name, CacheFilePtr>;
  struct Hash {
    std::size_t operator()(const Name& name) const noexcept;
  };

  using Place = std::list<Entry>::iterator;
  void take_removed(std::list<Entry>& removed);

  const std::size_t most_;
  std::mutex mutex_;
  std::list<Entry> used_;  ///< the most recently used one first
  std::unordered_map<Name, Place, Hash> places_;
};

}  // namespace torch_distinput
