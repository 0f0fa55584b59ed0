// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/record_scan.h"

/// \file
/// Tar archives in WebDataset's layout: consecutive members whose names are equal up to the first dot of
/// their last part are one record, a group. ustar, GNU (long names) and pax headers are read. Inputs may hold
/// any bytes. All functions are safe from any thread.

namespace torch_distinput {

/// Bytes of a head; contents are padded to a multiple of it.
inline constexpr std::uint64_t kTarBlock = 512;

/// All heads of one entry have fewer bytes.
inline constexpr std::uint64_t kTarMostHeads = std::uint64_t{1} << 20;

/// What was found at the start of a piece of an archive.
struct TarEntry {
  /// The result of the scan.
  enum class Found {
    kMember,   ///< a file, or what stands in the place of one
    kOther,    ///< a folder, or a head for the whole archive
    kMore,     ///< an incomplete head: scan again with a piece of at least `bytes` bytes
    kEnd,      ///< the end mark of the archive
    kDamaged,  ///< no tar head, or a member that cannot be read; `problem` says why
  };
  Found found;
  std::uint64_t bytes = 0;  ///< of the entry, heads and padding included, which the piece need not hold
  std::string name = {};    ///< for kMember and kDamaged, as far as it is known
  std::uint64_t data = 0;   ///< where the contents begin in the piece
  std::uint64_t size = 0;   ///< bytes of the contents
  /// For kDamaged; for kMember, why it cannot be read (a link) although what comes after it can.
  std::string problem = {};
};

/// Finds the first entry of `piece`. `whole` means that the archive ends with the piece. Of the entry, only
/// the heads must be in the piece.
TarEntry scan_tar_entry(std::span<const char> piece, bool whole);

/// Splits a member's name into the key and the suffix in lower case: `a/b.seg.PNG` into `a/b` and `seg.png`.
/// Returns false for a name without a suffix, which belongs to no group.
bool split_member_name(std::string_view name, std::string_view& key, std::string& suffix);

/// Finds the first group of `piece`, as `scan_record`.
RecordScan scan_tar_group(std::span<const char> piece, bool whole);

/// Writes the group `raw` in a compact form to `to`, as `extract_contents`. Throws FileError for a member
/// whose name leads out of the archive or is not UTF-8, and for one that occurs twice.
std::uint64_t extract_tar_group(std::span<const char> raw, char* to, const std::string& file,
                                std::uint64_t offset);

/// A group in its compact form, as views of it.
struct TarGroup {
  /// One member.
  struct Member {
    std::string_view suffix;
    std::string_view data;
  };
  std::string_view key;
  std::vector<Member> members;  ///< in the order of the archive
};
/// Reads what `extract_tar_group` wrote.
TarGroup read_tar_group(std::string_view contents);

}  // namespace torch_distinput
