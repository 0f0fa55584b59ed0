// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
// The limit of reading TFRecords of one size, for benchmarks/python/records.py: bare reads in pieces that
// stay in the processor's cache, with the checksum of each record, in one thread.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "io/crc32c.h"

/// Returns the number of records with a wrong checksum; -1 if the file cannot be read.
extern "C" std::int64_t limit_records(const char* path, std::int64_t records, std::int64_t record_bytes) {
  const std::int64_t framed = record_bytes + 16;
  const std::int64_t together = std::max<std::int64_t>(1, (std::int64_t{256} << 10) / framed);
  std::vector<char> piece(static_cast<std::size_t>(together * framed));
  const int file = ::open(path, O_RDONLY);
  if (file < 0) return -1;
  std::int64_t bad = 0;
  for (std::int64_t first = 0; first < records; first += together) {
    const std::int64_t count = std::min(together, records - first);
    const auto bytes = static_cast<std::size_t>(count * framed);
    if (::pread(file, piece.data(), bytes, first * framed) != static_cast<ssize_t>(bytes)) bad = -1;
    for (std::int64_t i = 0; i < count && bad >= 0; ++i) {
      const char* const record = piece.data() + i * framed;
      std::uint32_t stored;
      std::memcpy(&stored, record + framed - 4, sizeof(stored));
      const std::span data(record + 12, static_cast<std::size_t>(record_bytes));
      bad += torch_distinput::mask_crc(torch_distinput::crc32c(data)) != stored ? 1 : 0;
    }
    if (bad < 0) break;
  }
  ::close(file);
  return bad;
}
