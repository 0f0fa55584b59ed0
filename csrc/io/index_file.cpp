// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/index_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "io/crc32c.h"
#include "io/stored_file.h"

namespace torch_distinput {
namespace {

static_assert(std::endian::native == std::endian::little, "stored indexes are little-endian");

constexpr std::string_view kMagic = "TDIINDEX";
constexpr std::uint32_t kVersion = 1;

/// The head of a stored index; the offsets follow it. It is written as raw bytes, so it must have no padding.
struct Head {
  std::array<char, 8> magic{};
  std::uint32_t version = kVersion;
  std::uint32_t kind = 0;
  std::uint64_t record_bytes = 0;
  std::uint64_t header_bytes = 0;
  std::uint64_t footer_bytes = 0;
  std::uint64_t file_size = 0;
  std::int64_t file_mtime = 0;
  std::uint64_t offsets = 0;
  std::uint64_t bases = 0;
  std::uint64_t distances = 0;

  bool operator==(const Head&) const = default;
};
static_assert(std::has_unique_object_representations_v<Head>);

Head head_of(const RecordFormat& format, const FileStamp& stamp) {
  Head head;
  kMagic.copy(head.magic.data(), head.magic.size());
  head.kind = static_cast<std::uint32_t>(format.kind);
  head.record_bytes = format.record_bytes;
  head.header_bytes = format.header_bytes;
  head.footer_bytes = format.footer_bytes;
  head.file_size = stamp.size;
  head.file_mtime = stamp.mtime;
  return head;
}

template <class T>
void append(std::vector<char>& bytes, std::span<const T> items) {
  const auto* data = reinterpret_cast<const char*>(items.data());
  bytes.insert(bytes.end(), data, data + items.size_bytes());
}

template <class T>
std::vector<T> take(std::span<const char>& bytes, std::uint64_t count) {
  std::vector<T> items(static_cast<std::size_t>(count));
  if (count > 0) std::memcpy(items.data(), bytes.data(), items.size() * sizeof(T));
  bytes = bytes.subspan(items.size() * sizeof(T));
  return items;
}

/// The part of the name that tells formats apart: the same file may be read as lines and as records by turns.
std::string format_name(const RecordFormat& format) {
  if (format.kind == RecordKind::kTarGroups) return "groups";
  return format.kind == RecordKind::kTextLines ? "lines" : "records";
}

}  // namespace

std::vector<char> encode_index(const RecordIndex& index) {
  const RecordOffsets& offsets = index.offsets();
  Head head = head_of(index.format(), index.stamp());
  head.offsets = offsets.size();
  head.bases = offsets.bases().size();
  head.distances = offsets.distances().size();
  std::vector<char> bytes;
  bytes.reserve(sizeof(head) + offsets.bases().size_bytes() + offsets.distances().size_bytes() + 4);
  append(bytes, std::span<const Head>(&head, 1));
  append(bytes, offsets.bases());
  append(bytes, offsets.distances());
  const std::uint32_t crc = crc32c(bytes);
  append(bytes, std::span<const std::uint32_t>(&crc, 1));
  return bytes;
}

std::optional<RecordIndex> decode_index(std::span<const char> bytes, const RecordFormat& format,
                                        const FileStamp& stamp) {
  Head head;
  std::uint32_t crc = 0;
  if (bytes.size() < sizeof(head) + sizeof(crc)) return std::nullopt;
  std::memcpy(&crc, bytes.data() + bytes.size() - sizeof(crc), sizeof(crc));
  bytes = bytes.first(bytes.size() - sizeof(crc));
  if (crc32c(bytes) != crc) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof(head));
  bytes = bytes.subspan(sizeof(head));
  Head wanted = head_of(format, stamp);
  wanted.offsets = head.offsets;
  wanted.bases = head.bases;
  wanted.distances = head.distances;
  if (head != wanted) return std::nullopt;
  const std::uint64_t most = bytes.size() / sizeof(std::uint32_t);
  if (head.bases > most || head.distances > most ||
      head.bases * sizeof(std::uint64_t) + head.distances * sizeof(std::uint32_t) != bytes.size()) {
    return std::nullopt;
  }
  try {
    auto bases = take<std::uint64_t>(bytes, head.bases);
    auto distances = take<std::uint32_t>(bytes, head.distances);
    return RecordIndex(format, stamp, RecordOffsets(head.offsets, std::move(bases), std::move(distances)));
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

std::string index_kind(const RecordFormat& format) {
  return format_name(format) + " index " + std::to_string(kVersion);
}

std::uint64_t most_index_bytes(const RecordFormat& format, const FileStamp& stamp) {
  // Offsets of the shortest records, in their wide form.
  const std::uint64_t offsets = stamp.size / least_bytes(format) + 1;
  return sizeof(Head) + offsets * sizeof(std::uint64_t) + sizeof(std::uint32_t);
}

std::vector<std::string> index_places(const std::string& path, const RecordFormat& format) {
  return stored_places(path, format_name(format));
}

std::optional<RecordIndex> load_index(const File& file, const RecordFormat& format, const FileStamp& stamp) {
  std::optional<RecordIndex> index;
  load_stored(file.path(), format_name(format), most_index_bytes(format, stamp),
              [&](std::span<const char> bytes) {
                index = decode_index(bytes, format, stamp);
                if (index && !ends_with_file(*index, file)) index.reset();
                return index.has_value();
              });
  return index;
}

void store_index(const std::string& path, const RecordIndex& index) noexcept {
  try {
    store_beside(path, format_name(index.format()), encode_index(index));
  } catch (...) {
    // As for what cannot be written: the next run builds the index again.
  }
}

}  // namespace torch_distinput
