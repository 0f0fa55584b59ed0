// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include "io/file_error.h"
#include "io/tar_format.h"
#include "io/utf8.h"

namespace torch_distinput {
namespace {

/// Appends to memory that the group is moved down in.
class GroupWriter {
 public:
  explicit GroupWriter(char* to) : to_(to) {}

  template <class Int>
  void number(Int value) {
    std::memcpy(to_ + size_, &value, sizeof(value));
    size_ += sizeof(value);
  }
  void text(const char* from, std::size_t count) {
    if (count > 0) std::memmove(to_ + size_, from, count);
    size_ += count;
  }
  std::uint64_t size() const { return size_; }

 private:
  char* to_;
  std::uint64_t size_ = 0;
};

/// Why a member must not have this name; empty if it may.
std::string refusal_of_name(std::string_view name) {
  if (utf8_prefix({name.data(), name.size()}) < name.size()) return "has a name that is not UTF-8";
  if (name.find('\0') != std::string_view::npos) return "has a NUL byte in its name";
  const std::string path = "/" + std::string(name) + "/";
  if (name.starts_with('/') || path.find("/../") != std::string::npos)
    return "has a name that leads out of the archive";
  return {};
}

/// The error of bytes that are not a group, although an index says so.
FileError not_one_group(const std::string& file) {
  return {FileError::Kind::kChanged, file,
          "the archive changed while it was read, or the index stored for it is not its own"};
}

}  // namespace

bool split_member_name(std::string_view name, std::string_view& key, std::string& suffix) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return false;
  key = name.substr(0, dot);
  suffix = name.substr(dot + 1);
  for (char& letter : suffix)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return true;
}

RecordScan scan_tar_group(std::span<const char> piece, bool whole) {
  std::string key;
  bool begun = false;
  std::uint64_t at = 0;
  while (true) {
    const TarEntry entry = scan_tar_entry(piece.subspan(static_cast<std::size_t>(at)), whole);
    const std::string member = entry.name.empty() ? "" : "member '" + entry.name + "' ";
    if (entry.found == TarEntry::Found::kMore) return {RecordScan::Found::kMore, at + entry.bytes};
    if (entry.found == TarEntry::Found::kDamaged)
      return {RecordScan::Found::kDamaged, 0, member + entry.problem};
    if (entry.found == TarEntry::Found::kEnd) {
      if (!begun) return {RecordScan::Found::kEnd};
      return {RecordScan::Found::kRecord, at};
    }
    std::string_view here;
    std::string suffix;
    if (entry.found == TarEntry::Found::kMember && split_member_name(entry.name, here, suffix)) {
      if (begun && here != key) return {RecordScan::Found::kRecord, at};
      begun = true;
      key = here;
    }
    at += entry.bytes;
    if (at <= piece.size()) continue;
    if (!whole) return {RecordScan::Found::kMore, at + kTarBlock};
    return {RecordScan::Found::kDamaged, 0,
            member + "of " + std::to_string(entry.size) + " bytes does not fit into the rest of the file"};
  }
}

std::uint64_t extract_tar_group(std::span<const char> raw, char* to, const std::string& file,
                                std::uint64_t offset) {
  GroupWriter out(to);
  std::vector<std::string> suffixes;
  std::string first_key;
  std::uint64_t next = 0;
  for (std::uint64_t at = 0; at < raw.size(); at = next) {
    // What is written lies before what is still to be read: a head takes more room than its compact form.
    const TarEntry entry = scan_tar_entry(raw.subspan(static_cast<std::size_t>(at)), /*whole=*/true);
    next = at + entry.bytes;
    const std::string member = "member '" + entry.name + "' ";
    if (entry.found == TarEntry::Found::kOther) continue;
    if (entry.found != TarEntry::Found::kMember || next > raw.size())
      throw FileError(FileError::Kind::kChanged, file, "the archive changed while it was read");
    std::string_view key;
    std::string suffix;
    if (!split_member_name(entry.name, key, suffix)) continue;
    if (!entry.problem.empty()) throw FileError(file, offset + at, member + entry.problem);
    if (const std::string problem = refusal_of_name(entry.name); !problem.empty())
      throw FileError(file, offset + at, member + problem);
    if (!suffixes.empty() && key != first_key) throw not_one_group(file);
    if (std::find(suffixes.begin(), suffixes.end(), suffix) != suffixes.end())
      throw FileError(file, offset + at, member + "occurs twice");
    if (suffixes.empty()) {
      first_key = key;
      out.number(static_cast<std::uint32_t>(key.size()));
      out.text(key.data(), key.size());
    }
    out.number(static_cast<std::uint32_t>(suffix.size()));
    out.number(entry.size);
    out.text(suffix.data(), suffix.size());
    out.text(raw.data() + at + entry.data, static_cast<std::size_t>(entry.size));
    suffixes.push_back(std::move(suffix));
  }
  if (suffixes.empty()) throw not_one_group(file);
  return out.size();
}

TarGroup read_tar_group(std::string_view contents) {
  const auto take = [&](std::size_t size) {
    const std::string_view piece = contents.substr(0, size);
    contents.remove_prefix(size);
    return piece;
  };
  const auto number = [&]<class Int>(Int value) {
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return static_cast<std::size_t>(value);
  };
  TarGroup group;
  group.key = take(number(std::uint32_t{}));
  while (!contents.empty()) {
    const std::size_t suffix = number(std::uint32_t{});
    const std::size_t size = number(std::uint64_t{});
    const std::string_view name = take(suffix);
    group.members.push_back({name, take(size)});
  }
  return group;
}

}  // namespace torch_distinput
