// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/file_handles.h"
#include "io/index_set.h"

namespace torch_distinput {

/// Random access to the records of a list of indexed files. Any thread may call.
class RecordFetcher {
 public:
  /// `indexes`: one for each of `files`.
  RecordFetcher(std::vector<std::string> files, std::vector<RecordIndexPtr> indexes);

  /// Records in all files.
  std::int64_t size() const noexcept { return begins_.back(); }

  /// Most bytes that the contents of the records at `positions` have together; positions are in [0, size()).
  std::uint64_t most_bytes(std::span<const std::int64_t> positions) const;
  /// Writes the contents of the records at `positions` to `to`, one after the other, and the bytes of each to
  /// `sizes`, which has as many entries. Returns the bytes in all. Records that lie behind one another in a
  /// file are read together. Throws FileError, also where a file is no longer the one that was indexed.
  std::uint64_t fetch(std::span<const std::int64_t> positions, char* to, std::span<std::int64_t> sizes) const;

 private:
  struct Place {
    std::size_t file;
    RecordIndex::Extent extent;
  };
  Place place_of(std::int64_t position) const noexcept;
  FilePtr open(std::size_t file) const;
  std::uint64_t fetch_one(const File& file, const Place& place, char* to) const;
  std::uint64_t fetch_run(const File& file, std::span<const Place> run, char* to,
                          std::span<std::int64_t> sizes) const;

  std::vector<std::string> files_;
  std::vector<RecordIndexPtr> indexes_;
  std::vector<std::int64_t> begins_;  ///< records before each file, and in all
  std::unique_ptr<FileHandles> handles_;
};

}  // namespace torch_distinput
