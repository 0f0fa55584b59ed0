// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "io/file_error.h"
#include "io/inflater.h"
#include "io/utf8.h"
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
  std::uint64_t data = 0;      ///< where its bytes begin
};

/// `member`, for messages.
std::string shown(const Member& member) { return "member '" + escape_non_utf8(member.name) + "'"; }

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
    bytes.damaged(bytes.size(), "this is not a zip archive (.npz), or it was cut");
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
      if (body.size() < 8) bytes.damaged(place, "the sizes of " + shown(member) + " are damaged");
      *field = zip_number<std::uint64_t>(body, 0);
      body.remove_prefix(8);
    }
  }
}

std::vector<Member> read_directory(const Directory& directory, const Stretch& bytes) {
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
    if (utf8_prefix(member.name) != member.name.size())
      bytes.damaged(place, "the name of " + shown(member) + " is not UTF-8");
    if (!member.name.ends_with(kNpySuffix)) bytes.damaged(place, shown(member) + " is not an array (.npy)");
    if ((zip_number<std::uint16_t>(rest, 8) & 1) != 0) bytes.damaged(place, shown(member) + " is encrypted");
    widen(member, rest.substr(kEntryHead + name_size, extra_size), bytes, place);
    rest.remove_prefix(static_cast<std::size_t>(size));
  }
  return members;
}

/// Finds where the bytes of `member` begin.
void find_data(Member& member, const Stretch& bytes) {
  const std::string head = bytes.read(member.local, kLocalHead);
  if (!head.starts_with(kLocalSignature)) bytes.damaged(member.local, shown(member) + " does not begin here");
  const auto name_size = zip_number<std::uint16_t>(head, 26);
  const std::string name = bytes.read(member.local + kLocalHead, name_size);
  if (name != member.name) {
    bytes.damaged(member.local, shown(member) + " of the directory has the name '" + escape_non_utf8(name) +
                                    "' where it begins");
  }
  member.data = member.local + kLocalHead + name_size + zip_number<std::uint16_t>(head, 28);
  if (member.data > bytes.size() || member.packed > bytes.size() - member.data)
    bytes.damaged(member.data, shown(member) + " does not fit in the file");
}

/// Throws unless members lie one after the other before the directory: those that share bytes would unpack
/// them several times.
void check_places(const std::vector<Member>& members, const Directory& directory, const Stretch& bytes) {
  std::vector<const Member*> in_order;
  for (const Member& member : members) in_order.push_back(&member);
  std::sort(in_order.begin(), in_order.end(),
            [](const Member* a, const Member* b) { return a->local < b->local; });
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    const Member& member = *in_order[i];
    const bool last = i + 1 == in_order.size();
    const std::uint64_t next = last ? directory.offset : in_order[i + 1]->local;
    if (member.data <= next && member.packed <= next - member.data) continue;
    bytes.damaged(member.local, shown(member) + " overlaps " +
                                    (last ? "the archive's directory" : shown(*in_order[i + 1])) +
                                    ", but members must not share bytes (it could be a decompression bomb)");
  }
}

std::uint64_t memory_of_this_machine() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Throws unless the sizes of what is to be unpacked can be true, and fit in memory.
void check_sizes(const std::vector<Member>& members, const Stretch& bytes) {
  std::uint64_t left = memory_of_this_machine();
  for (const Member& member : members) {
    if (member.method == kMethodStored && member.packed != member.unpacked) {
      bytes.damaged(member.local, shown(member) + " is stored in " + std::to_string(member.packed) +
                                      " bytes, but has a size of " + std::to_string(member.unpacked));
    }
    if (member.method != kMethodDeflated) continue;
    if (member.unpacked / kMaxInflation > member.packed + 1) {
      bytes.damaged(member.local,
                    shown(member) + " cannot unpack to " + std::to_string(member.unpacked) + " bytes");
    }
    if (member.unpacked > left) {
      bytes.damaged(member.local, shown(member) + " unpacks to " + std::to_string(member.unpacked) +
                                      " bytes, for which this machine has no memory; save the arrays with "
                                      "numpy.savez, whose rows are read where they lie");
    }
    left -= member.unpacked;
  }
}

/// The deflated bytes of a member in pieces, as a gzip file: by a header, and by a trailer of the member's
/// checksum and size, so that the inflater checks both.
class GzipOfMember {
 public:
  GzipOfMember(const Member& member, const Stretch& bytes)
      : member_(member), bytes_(bytes), piece_("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10) {}

  /// What is left of the piece, or the next one; empty at the end.
  std::span<const char> rest() {
    if (used_ == piece_.size()) {
      piece_ = next();
      used_ = 0;
    }
    return std::span(piece_).subspan(used_);
  }
  void use(std::size_t bytes) { used_ += bytes; }

 private:
  std::string next() {
    constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
    const std::uint64_t size = std::min(kPiece, member_.packed - read_);
    if (size > 0) {
      read_ += size;
      return bytes_.read(member_.data + read_ - size, size);
    }
    if (ended_) return {};
    ended_ = true;
    const auto unpacked = static_cast<std::uint32_t>(member_.unpacked);
    std::string trailer(8, '\0');
    std::memcpy(trailer.data(), &member_.crc, 4);
    std::memcpy(trailer.data() + 4, &unpacked, 4);
    return trailer;
  }

  const Member& member_;
  const Stretch& bytes_;
  std::string piece_;
  std::size_t used_ = 0;
  std::uint64_t read_ = 0;
  bool ended_ = false;
};

/// Unpacks a member. Memory is taken as it is filled, not as the directory says.
std::unique_ptr<char[]> inflate_member(const Member& member, const Stretch& bytes,
                                       const std::function<void()>& look) {
  constexpr std::size_t kStep = std::size_t{16} << 20;
  const auto size = static_cast<std::size_t>(member.unpacked);
  auto unpacked = std::make_unique_for_overwrite<char[]>(size);
  GzipOfMember packed(member, bytes);
  Inflater inflater(Compression::kGzip);
  std::size_t made = 0;
  while (true) {
    if (look) look();
    char surplus = 0;  // where everything is there, one more byte is too many
    const std::span<char> out =
        made < size ? std::span(unpacked.get() + made, std::min(kStep, size - made)) : std::span(&surplus, 1);
    const auto step = inflater.step(packed.rest(), out);
    if (!step.problem.empty()) bytes.damaged(member.local, shown(member) + ": " + step.problem);
    packed.use(step.used);
    made += step.made;
    if (made > size || (step.used == 0 && step.made == 0)) break;
  }
  if (made == size) return unpacked;
  bytes.damaged(member.local,
                shown(member) + " does not unpack to " + std::to_string(member.unpacked) + " bytes");
}

StoredArray read_member(const Member& member, const File& file, const Stretch& bytes,
                        const std::function<void()>& look) {
  StoredArray array;
  if (member.method == kMethodStored) {
    array = read_npy(Stretch(file, member.data, member.packed));
    array.offset += member.data;
    array.unchecked = {shown(member), member.data, member.packed, member.crc};
  } else if (member.method == kMethodDeflated) {
    std::shared_ptr<const char[]> unpacked = inflate_member(member, bytes, look);
    array = read_npy(Stretch(file, std::span(unpacked.get(), static_cast<std::size_t>(member.unpacked))));
    array.unpacked = std::move(unpacked);
  } else {
    bytes.damaged(member.local, shown(member) + " is compressed by method " + std::to_string(member.method) +
                                    ", which numpy does not write");
  }
  array.name = member.name.substr(0, member.name.size() - kNpySuffix.size());
  return array;
}

}  // namespace

std::vector<StoredArray> read_npz(const File& file, std::uint64_t size, const std::function<void()>& look) {
  const Stretch bytes(file, 0, size);
  const Directory directory = find_directory(bytes);
  std::vector<Member> members = read_directory(directory, bytes);
  for (Member& member : members) find_data(member, bytes);
  check_places(members, directory, bytes);
  check_sizes(members, bytes);
  std::vector<StoredArray> arrays;
  for (const Member& member : members) arrays.push_back(read_member(member, file, bytes, look));
  return arrays;
}

}  // namespace torch_distinput
