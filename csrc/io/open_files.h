// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fork_guard.h"
#include "io/cache_file.h"

namespace torch_distinput {

/// The files of a cache that were read last stay open, as rows are often smaller than files, until somebody
/// removes them, as they would take room. Safe from any thread.
class OpenFiles {
 public:
  /// Keeps at most `most` of them open, and besides, for each thread that reads, as many as it knows, at most
  /// `most_of_thread`. REQUIRES: both are at least 1.
  OpenFiles(std::size_t most, std::size_t most_of_thread);

  /// The file, if it is open and was not removed; else null.
  CacheFilePtr get(const CacheKey& key, std::uint64_t number);
  void put(const CacheKey& key, CacheFilePtr file);
  void remove(const CacheKey& key, std::uint64_t number);
  /// What `CacheFile::read_checked` returns; false where the file is not open.
  bool read_checked(const CacheKey& key, std::uint64_t number, std::span<char> into, std::uint64_t offset);

 private:
  using Name = std::pair<std::uint64_t, Sha256>;  ///< number, and of the object
  struct Hash {
    std::size_t operator()(const Name& name) const noexcept;
  };
  /// The files that a thread has read last, one for each remainder of their hash. They are found without
  /// writing to memory that other threads read, which takes longer than all the rest.
  struct OfThread {
    struct Entry {
      Name name;
      CacheFilePtr file;
    };
    std::uint64_t owner = 0;
    ForkGuard guard;
    std::vector<Entry> entries;
    std::size_t looked_at = 0;

    Entry& place_of(const Name& name) { return entries[Hash()(name) % entries.size()]; }
    void drop_if_removed();
  };
  struct Entry {
    CacheFilePtr file;
    std::uint64_t used = 0;  ///< grows with each use of any file of the part
  };
  using Entries = std::unordered_map<Name, Entry, Hash>;
  /// Files that share a lock.
  struct alignas(64) Part {
    std::mutex mutex;
    std::uint64_t uses = 0;
    Entries entries;
  };

  Part& part_of(const Name& name);
  OfThread& of_thread();

  const std::uint64_t id_;
  const std::size_t most_of_thread_;
  std::vector<Part> parts_;  ///< so that threads that read seldom wait for each other
  const std::size_t most_;   ///< of a part
};

}  // namespace torch_distinput
