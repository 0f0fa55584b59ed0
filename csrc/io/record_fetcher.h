// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/file_handles.h"
#include "io/index_set.h"

namespace torch_distinput {

/// Random access to the records of a list of indexed files, numbered through all files in order. Safe from
/// any thread.
class RecordFetcher {
 public:
  /// `indexes` holds one index for each of `files`, in the same order. A record may have `max_record_bytes`;
  /// unset: as many as its file.
  RecordFetcher(std::vector<std::string> files, std::vector<RecordIndexPtr> indexes,
                std::optional<std::uint64_t> max_record_bytes = {});

  /// The number of records in all files.
  std::int64_t size() const noexcept { return begins_.back(); }

  /// A record of a file, which is named as the fetcher was given it.
  struct RecordOfFile {
    const std::string& file;
    std::int64_t record;
  };
  /// The file that has the record at `position`, and the number of the record there. Lives as long as the
  /// fetcher. REQUIRES: `position` is in [0, size()).
  RecordOfFile record_of_file(std::int64_t position) const noexcept;

  /// Ranges of records that lie together in a file: about `bytes` bytes of it, with the same number of
  /// records. Returns the first record of each, ascending from 0, and `size()` at the end.
  std::vector<std::int64_t> block_starts(std::uint64_t bytes) const;

  /// Returns an upper bound of the bytes that the contents of the records at `positions` have together.
  /// Throws FileError for a record that is too large. REQUIRES: each position is in [0, size()).
  std::uint64_t most_bytes(std::span<const std::int64_t> positions) const;
  /// Whether a file is read over the network.
  bool is_remote() const noexcept { return is_remote_; }
  /// The records at `positions` will be fetched: servers are asked for them now. Does not wait for their
  /// bytes. Throws FileError.
  void will_fetch(std::span<const std::int64_t> positions) const;
  /// Writes the contents of the records at `positions` to `to`, without gaps, and the byte count of each to
  /// `sizes`, which has as many entries. Returns the total of bytes. Adjacent records of a file are read
  /// together. Throws FileError, also if a file changed after it was indexed. REQUIRES: `to` has room for
  /// `most_bytes(positions)` bytes.
  std::uint64_t fetch(std::span<const std::int64_t> positions, char* to, std::span<std::int64_t> sizes) const;

 private:
  /// Where a record lies: the number of the file, and its bytes there.
  struct Place {
    std::size_t file;
    RecordIndex::Extent extent;
  };
  Place place_of(std::int64_t position) const noexcept;
  std::size_t file_of(std::int64_t position) const noexcept;
  FilePtr open(std::size_t file) const;
  std::uint64_t fetch_one(const File& file, const Place& place, char* to) const;
  std::uint64_t fetch_run(const File& file, std::span<const Place> run, char* to,
                          std::span<std::int64_t> sizes) const;

  std::vector<std::string> files_;
  std::vector<RecordIndexPtr> indexes_;
  std::vector<std::int64_t> begins_;  ///< the number of records before each file; the total comes last
  std::unique_ptr<FileHandles> handles_;
  std::optional<std::uint64_t> most_;
  bool is_remote_;
};

}  // namespace torch_distinput
