// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "io/file_error.h"
#include "io/inflater.h"
#include "sources/arrays/array_file.h"

namespace torch_distinput {
namespace {

// Offsets, sizes and signatures of APPNOTE.TXT, the specification of zip archives.
constexpr std::uint64_t kEndRecord = 22;
constexpr std::uint64_t kMaxComment = 65535;
constexpr std::uint64_t kEntryHead = 46;
constexpr std::uint64_t kLocalHead = 30;
constexpr std::string_view kEndSignature{"PK\5\6", 4};
constexpr std::string_view kWideEndSignature{"PK\6\6", 4};
constexpr std::string_view kWideLocatorSignature{"PK\6\7", 4};
constexpr std::string_view kEntrySignature{"PK\1\2", 4};
constexpr std::string_view kLocalSignature{"PK\3\4", 4};
constexpr std::uint16_t kWideExtra = 1;
constexpr std::uint16_t kMethodStored = 0;
constexpr std::uint16_t kMethodDeflated = 8;
constexpr std::uint64_t kMaxDirectory = std::uint64_t{1} << 30;
/// Deflate cannot shrink bytes more than this, so a member that claims more is damaged.
constexpr std::uint64_t kMaxInflation = 1032;
constexpr std::string_view kNpySuffix = ".npy";

template <class T>
T zip_number(std::string_view bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

/// An entry of the archive's directory.
struct Member {
  std::string name;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0;    ///< bytes in the archive
  std::uint64_t unpacked = 0;  ///< bytes that they stand for
  std::uint64_t local = 0;     ///< where its local header begins
};

/// Where the directory lies.
struct Directory {
  std::uint64_t offset;
  std::uint64_t size;
};

Directory find_directory(const Stretch& bytes) {
  const std::uint64_t tail_size = std::min(bytes.size(), kEndRecord + kMaxComment);
  const std::uint64_t tail_begin = bytes.size() - tail_size;
  const std::string tail = bytes.read(tail_begin, tail_size);
  const std::size_t end = tail.rfind(kEndSignature);
  if (end == std::string::npos || tail.size() - end < kEndRecord)
    bytes.damaged(bytes.size(), "this is no zip archive (.npz), or it was cut");
  Directory directory{zip_number<std::uint32_t>(tail, end + 16), zip_number<std::uint32_t>(tail, end + 12)};
  const std::uint64_t end_at = tail_begin + end;
  const bool wide = directory.offset == 0xFFFFFFFF || directory.size == 0xFFFFFFFF ||
                    zip_number<std::uint16_t>(tail, end + 10) == 0xFFFF;
  if (wide && end_at >= 20) {
    const std::string locator = bytes.read(end_at - 20, 20);
    if (locator.starts_with(kWideLocatorSignature)) {
      const auto record_at = zip_number<std::uint64_t>(locator, 8);
      const std::string record = bytes.read(record_at, 56);
      if (!record.starts_with(kWideEndSignature))
        bytes.damaged(record_at, "the archive's end record is damaged");
      directory = {zip_number<std::uint64_t>(record, 48), zip_number<std::uint64_t>(record, 40)};
    }
  }
  if (directory.size > kMaxDirectory) bytes.damaged(end_at, "the archive's directory is too large to be one");
  return directory;
}

/// Replaces the sizes and the offset that do not fit in 32 bits by those in the extra field.
void widen(Member& member, std::string_view extra, const Stretch& bytes, std::uint64_t place) {
  while (extra.size() >= 4) {
    const auto kind = zip_number<std::uint16_t>(extra, 0);
    const auto size = zip_number<std::uint16_t>(extra, 2);
    std::string_view body = extra.substr(4, size);
    extra.remove_prefix(std::min<std::size_t>(extra.size(), 4 + std::size_t{size}));
    if (kind != kWideExtra) continue;
    for (std::uint64_t* const field : {&member.unpacked, &member.packed, &member.local}) {
      if (*field != 0xFFFFFFFF) continue;
      if (body.size() < 8) bytes.damaged(place, "the sizes of member '" + member.name + "' are damaged");
      *field = zip_number<std::uint64_t>(body, 0);
      body.remove_prefix(8);
    }
  }
}

std::vector<Member> read_directory(const Stretch& bytes) {
  const Directory directory = find_directory(bytes);
  const std::string all = bytes.read(directory.offset, directory.size);
  std::vector<Member> members;
  std::string_view rest = all;
  while (!rest.empty()) {
    const std::uint64_t place = directory.offset + (all.size() - rest.size());
    if (rest.size() < kEntryHead || !rest.starts_with(kEntrySignature))
      bytes.damaged(place, "the archive's directory is damaged");
    const auto name_size = zip_number<std::uint16_t>(rest, 28);
    const auto extra_size = zip_number<std::uint16_t>(rest, 30);
    const std::uint64_t size = kEntryHead + name_size + extra_size + zip_number<std::uint16_t>(rest, 32);
    if (size > rest.size()) bytes.damaged(place, "the archive's directory is damaged");
    Member& member = members.emplace_back();
    member = {.name = std::string(rest.substr(kEntryHead, name_size)),
              .method = zip_number<std::uint16_t>(rest, 10),
              .crc = zip_number<std::uint32_t>(rest, 16),
              .packed = zip_number<std::uint32_t>(rest, 20),
              .unpacked = zip_number<std::uint32_t>(rest, 24),
              .local = zip_number<std::uint32_t>(rest, 42)};
    if ((zip_number<std::uint16_t>(rest, 8) & 1) != 0)
      bytes.damaged(place, "member '" + member.name + "' is encrypted");
    widen(member, rest.substr(kEntryHead + name_size, extra_size), bytes, place);
    rest.remove_prefix(static_cast<std::size_t>(size));
  }
  return members;
}

/// Where the bytes of `member` begin.
std::uint64_t data_of(const Member& member, const Stretch& bytes) {
  const std::string head = bytes.read(member.local, kLocalHead);
  if (!head.starts_with(kLocalSignature))
    bytes.damaged(member.local, "member '" + member.name + "' does not begin here");
  const std::uint64_t begin =
      member.local + kLocalHead + zip_number<std::uint16_t>(head, 26) + zip_number<std::uint16_t>(head, 28);
  if (begin > bytes.size() || member.packed > bytes.size() - begin)
    bytes.damaged(begin, "member '" + member.name + "' does not fit in the file");
  return begin;
}

/// Unpacks a member. A deflated stream becomes a gzip file by a header, and by a trailer of the member's
/// checksum and size, so the inflater checks both.
std::vector<char> inflate_member(const Member& member, const std::string& packed, const Stretch& bytes,
                                 const std::function<void()>& look) {
  if (member.unpacked / kMaxInflation > member.packed + 1)
    bytes.damaged(member.local, "member '" + member.name + "' cannot unpack to " +
                                    std::to_string(member.unpacked) + " bytes");
  std::string stream("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  stream += packed;
  const auto size = static_cast<std::uint32_t>(member.unpacked);
  stream.append(reinterpret_cast<const char*>(&member.crc), 4)
      .append(reinterpret_cast<const char*>(&size), 4);
  std::vector<char> unpacked(static_cast<std::size_t>(member.unpacked) + 1);  // one more, to see a surplus
  Inflater inflater(Compression::kGzip);
  std::size_t used = 0;
  std::size_t made = 0;
  while (made < unpacked.size()) {
    if (look) look();
    constexpr std::size_t kStep = std::size_t{16} << 20;
    const auto step =
        inflater.step(std::span(stream).subspan(used),
                      std::span(unpacked).subspan(made).first(std::min(kStep, unpacked.size() - made)));
    if (!step.problem.empty()) bytes.damaged(member.local, "member '" + member.name + "': " + step.problem);
    used += step.used;
    made += step.made;
    if (step.used == 0 && step.made == 0) break;
  }
  if (made != member.unpacked) {
    bytes.damaged(member.local, "member '" + member.name + "' does not unpack to " +
                                    std::to_string(member.unpacked) + " bytes");
  }
  unpacked.pop_back();
  return unpacked;
}

StoredArray read_member(const Member& member, const File& file, const Stretch& bytes,
                        const std::function<void()>& look) {
  const std::uint64_t begin = data_of(member, bytes);
  StoredArray array;
  if (member.method == kMethodStored) {
    array = read_npy(Stretch(file, begin, member.packed));
    array.offset += begin;
  } else if (member.method == kMethodDeflated) {
    auto unpacked = std::make_shared<const std::vector<char>>(
        inflate_member(member, bytes.read(begin, member.packed), bytes, look));
    array = read_npy(Stretch(file, *unpacked));
    array.unpacked = std::move(unpacked);
  } else {
    bytes.damaged(member.local, "member '" + member.name + "' is compressed by method " +
                                    std::to_string(member.method) + ", which numpy does not write");
  }
  array.name = member.name.substr(0, member.name.size() - kNpySuffix.size());
  return array;
}

}  // namespace

std::vector<StoredArray> read_npz(const File& file, std::uint64_t size, const std::function<void()>& look) {
  const Stretch bytes(file, 0, size);
  std::vector<StoredArray> arrays;
  for (const Member& member : read_directory(bytes)) {
    if (!member.name.ends_with(kNpySuffix))
      bytes.damaged(member.local, "member '" + member.name + "' is no array (.npy)");
    arrays.push_back(read_member(member, file, bytes, look));
  }
  return arrays;
}

}  // namespace torch_distinput
