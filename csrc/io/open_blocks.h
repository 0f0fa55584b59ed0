// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "io/cache_block.h"

namespace torch_distinput {

/// The blocks of a cache that were read last stay open: rows are often smaller than blocks. Safe from any
/// thread.
class OpenBlocks {
 public:
  /// Keeps at most `most` of them open.
  explicit OpenBlocks(std::size_t most) : most_(most) {}

  /// The block, if it is open; null: it is not.
  CacheBlockPtr get(const CacheKey& key, std::uint64_t number);
  void put(const CacheKey& key, CacheBlockPtr block);
  void remove(const CacheKey& key, std::uint64_t number);

 private:
  using Name = std::pair<Sha256, std::uint64_t>;  ///< of the object, and number
  using Entry = std::pair<Name, CacheBlockPtr>;
  struct Hash {
    std::size_t operator()(const Name& name) const noexcept;
  };

  const std::size_t most_;
  std::mutex mutex_;
  std::list<Entry> used_;  ///< the most recently used one first
  std::unordered_map<Name, std::list<Entry>::iterator, Hash> places_;
};

}  // namespace torch_distinput
