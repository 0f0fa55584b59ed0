// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/tar_format.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace torch_distinput {
namespace {

/// Long names and pax records beyond this size are taken for damage.
constexpr std::uint64_t kMaxExtension = std::uint64_t{128} << 10;
/// Contents beyond this size are taken for damage; sums of sizes stay far below 2^64.
constexpr std::uint64_t kMaxData = std::uint64_t{1} << 50;

/// A field of the head of an entry (POSIX.1-1988 ustar).
struct TarField {
  std::size_t offset;
  std::size_t size;
};
constexpr TarField kName{0, 100};
constexpr TarField kSize{124, 12};
constexpr TarField kChecksum{148, 8};
constexpr std::size_t kType = 156;
constexpr TarField kUstarMagic{257, 5};
constexpr TarField kPrefix{345, 155};

std::string_view field_of(const char* head, TarField field) { return {head + field.offset, field.size}; }

/// The text of a field, which ends at the first NUL.
std::string_view text_of(std::string_view field) {
  return field.substr(0, std::min(field.find('\0'), field.size()));
}

/// A number in octal digits, or in GNU's base 256; nullopt for anything else.
std::optional<std::uint64_t> number_of(std::string_view field) {
  if (static_cast<unsigned char>(field[0]) == 0x80) {
    std::uint64_t number = 0;
    for (const char byte : field.substr(1)) {
      if (number >> 56 != 0) return std::nullopt;
      number = number << 8 | static_cast<unsigned char>(byte);
    }
    return number;
  }
  const std::size_t first = std::min(field.find_first_not_of(' '), field.size());
  std::string_view digits = text_of(field.substr(first));
  digits = digits.substr(0, std::min(digits.find(' '), digits.size()));
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 8);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

/// Whether the checksum of a head is right, as a sum of unsigned or, in old archives, of signed bytes.
bool has_right_checksum(const char* head) {
  const auto stored = number_of(field_of(head, kChecksum));
  if (!stored) return false;
  std::int64_t sum = 0;
  std::int64_t signed_sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const bool blank = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    const char byte = blank ? ' ' : head[i];
    sum += static_cast<unsigned char>(byte);
    signed_sum += static_cast<signed char>(byte);
  }
  const auto wanted = static_cast<std::int64_t>(std::min<std::uint64_t>(*stored, std::uint64_t{1} << 40));
  return wanted == sum || wanted == signed_sum;
}

std::uint64_t padded(std::uint64_t size) { return (size + kTarBlock - 1) / kTarBlock * kTarBlock; }

/// What pax records and GNU long names say about the next entry.
struct TarExtension {
  std::optional<std::string> name = {};
  std::optional<std::uint64_t> size = {};
  bool sparse = false;
};

/// Reads records of the form "<length> <key>=<value>\n". Returns false for malformed ones.
bool read_pax(std::string_view records, TarExtension& extension) {
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto head = static_cast<std::size_t>(end - records.data()) + 1;
    if (error != std::errc() || length > records.size() || length < head + 1 || *end != ' ' ||
        records[length - 1] != '\n')
      return false;
    const std::string_view record = records.substr(head, length - head - 1);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") extension.name = value;
    if (key == "size") {
      std::uint64_t size = 0;
      const auto [last, wrong] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (wrong != std::errc() || last != value.data() + value.size()) return false;
      extension.size = size;
    }
    extension.sparse = extension.sparse || key.starts_with("GNU.sparse.");
    records.remove_prefix(length);
  }
  return true;
}

TarEntry damaged_entry(std::string problem, std::string name = {}) {
  return {.found = TarEntry::Found::kDamaged, .name = std::move(name), .problem = std::move(problem)};
}

std::string name_in_head(const char* head) {
  std::string name(text_of(field_of(head, kName)));
  // Old GNU heads have other fields in the place of the prefix.
  if (field_of(head, {kUstarMagic.offset, 6}) != std::string_view("ustar\0", 6)) return name;
  const std::string_view prefix = text_of(field_of(head, kPrefix));
  return prefix.empty() ? name : std::string(prefix) + "/" + name;
}

/// Why an entry of `type` cannot be a member; empty for files, and for what is not a member.
std::string refusal_of_type(char type) {
  switch (type) {
    case '0':
    case '\0':
    case '5':
    case '7':
    case 'V':
      return {};
    case '1':
    case '2':
      return "is a link, but members must be files; write the archive with the links followed";
    default:
      return std::string("has the type '") + type + "', but members must be files";
  }
}

constexpr const char* kSparseProblem =
    "is stored as a sparse file, which is not supported; write the archive without that";

/// The entry whose own head, at `at`, has this type.
TarEntry entry_of(char type, std::string name, const TarExtension& extension, std::uint64_t at,
                  std::uint64_t size) {
  const bool has_data = type != '1' && type != '2' && type != '5';
  TarEntry entry{.found = TarEntry::Found::kMember, .data = at + kTarBlock, .size = has_data ? size : 0};
  entry.problem = extension.sparse ? kSparseProblem : refusal_of_type(type);
  if (type == '5' || type == 'V' || (entry.problem.empty() && name.ends_with('/')))
    entry.found = TarEntry::Found::kOther;
  entry.name = std::move(name);
  entry.bytes = entry.data + padded(entry.size);
  return entry;
}

}  // namespace

TarEntry scan_tar_entry(std::span<const char> piece, bool whole) {
  TarExtension extension;
  std::uint64_t at = 0;
  while (true) {
    if (piece.size() < at + kTarBlock) {
      if (!whole) return {.found = TarEntry::Found::kMore, .bytes = at + kTarBlock};
      return damaged_entry(piece.size() == at && at == 0
                               ? "the archive ends without its end mark, so it was probably cut off"
                               : "the archive ends inside the head of a member");
    }
    const char* const head = piece.data() + at;
    if (std::all_of(head, head + kTarBlock, [](char byte) { return byte == 0; })) {
      if (at > 0) return damaged_entry("the archive ends after the long name of a member");
      return {.found = TarEntry::Found::kEnd};
    }
    if (!has_right_checksum(head)) return damaged_entry("there is no tar head, or its checksum is wrong");
    const std::optional<std::uint64_t> stored = number_of(field_of(head, kSize));
    const char type = head[kType];
    const bool extends = type == 'x' || type == 'X' || type == 'L' || type == 'K' || type == 'g';
    const std::uint64_t size =
        extends ? stored.value_or(kMaxData + 1) : extension.size.value_or(stored.value_or(kMaxData + 1));
    std::string name = extension.name ? *extension.name : name_in_head(head);
    if (size > (extends ? kMaxExtension : kMaxData)) return damaged_entry("has an impossible size", name);
    if (!extends) {
      // The map of an old sparse file may take further blocks, so what comes after it cannot be found.
      if (type == 'S') return damaged_entry(kSparseProblem, std::move(name));
      return entry_of(type, std::move(name), extension, at, size);
    }
    if (piece.size() < at + kTarBlock + padded(size)) {
      if (whole) return damaged_entry("the archive ends inside the head of a member");
      return {.found = TarEntry::Found::kMore, .bytes = at + 2 * kTarBlock + padded(size)};
    }
    const std::string_view text(head + kTarBlock, static_cast<std::size_t>(size));
    if (type == 'L') extension.name = text_of(text);
    if ((type == 'x' || type == 'X') && !read_pax(text, extension))
      return damaged_entry("has malformed pax records", name);
    at += kTarBlock + padded(size);
    if (at > 4 * kMaxExtension) return damaged_entry("has too many heads", name);
  }
}

}  // namespace torch_distinput
