// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/tokens/stored_lengths.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "io/crc32c.h"
#include "io/file.h"
#include "io/file_error.h"
#include "io/host_share.h"
#include "io/index_set.h"
#include "io/stored_file.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

static_assert(std::endian::native == std::endian::little, "stored lengths are little-endian");

constexpr std::string_view kLengthsMagic = "TDILENGTHS 1\n";
constexpr std::size_t kHashDigits = 40;
constexpr std::size_t kLengthsHead = kLengthsMagic.size() + kHashDigits + sizeof(std::int64_t);

std::uint64_t stored_bytes(std::int64_t count) {
  return kLengthsHead + static_cast<std::uint64_t>(count) * sizeof(std::uint32_t) + sizeof(std::uint32_t);
}

template <class T>
void append_bytes(std::vector<char>& bytes, const T* items, std::size_t count) {
  const auto* const data = reinterpret_cast<const char*>(items);
  bytes.insert(bytes.end(), data, data + count * sizeof(T));
}

/// The part of a neighbour's name that tells pipelines over one file apart.
std::string kind_of(const LengthsOf& of) { return "lengths-" + of.hash.substr(0, 8); }

/// The lengths in the file that the user named; nullopt where there is none, or one of something else.
std::optional<Lengths> load_named(const LengthsOf& of) {
  std::vector<char> bytes(static_cast<std::size_t>(stored_bytes(of.count)) + 1);
  try {
    const File file(of.named);
    if (!file.stamp().is_regular)
      throw FileError(FileError::Kind::kSystem, of.named,
                      "this is not a regular file, so it cannot hold lengths");
    bytes.resize(file.read(bytes, 0));
  } catch (const FileError& error) {
    if (error.kind() == FileError::Kind::kMissing) return std::nullopt;
    throw;
  }
  const std::string_view begin(bytes.data(), std::min(bytes.size(), kLengthsMagic.size()));
  if (begin != kLengthsMagic.substr(0, begin.size()))
    throw FileError(of.named, 0, "this file holds something else than lengths, and is left as it is");
  return decode_lengths(bytes, of);
}

void store_named(const std::string& path, std::span<const char> bytes) {
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  if (!file) throw_system_error(temporary, "create", errno);
  file.write(bytes.data(), std::ssize(bytes));
  file.close();
  if (file && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int code = errno;
  std::remove(temporary.c_str());
  throw_system_error(path, "write", code);
}

std::optional<Lengths> load(const LengthsOf& of) {
  if (!of.named.empty()) return load_named(of);
  std::optional<Lengths> found;
  load_stored(of.beside, kind_of(of), stored_bytes(of.count), [&](std::span<const char> bytes) {
    found = decode_lengths(bytes, of);
    return found.has_value();
  });
  return found;
}

void store(const LengthsOf& of, std::span<const char> bytes) {
  if (!of.named.empty()) return store_named(of.named, bytes);
  store_beside(of.beside, kind_of(of), bytes);
}

}  // namespace

std::vector<char> encode_lengths(const LengthsOf& of, const Lengths& lengths) {
  std::vector<char> bytes;
  bytes.reserve(static_cast<std::size_t>(stored_bytes(of.count)));
  append_bytes(bytes, kLengthsMagic.data(), kLengthsMagic.size());
  append_bytes(bytes, of.hash.data(), of.hash.size());
  append_bytes(bytes, &of.count, 1);
  append_bytes(bytes, lengths.data(), lengths.size());
  const std::uint32_t crc = crc32c(bytes);
  append_bytes(bytes, &crc, 1);
  return bytes;
}

std::optional<Lengths> decode_lengths(std::span<const char> bytes, const LengthsOf& of) {
  if (bytes.size() != stored_bytes(of.count)) return std::nullopt;
  std::uint32_t crc = 0;
  const std::span<const char> content = bytes.first(bytes.size() - sizeof(crc));
  std::memcpy(&crc, content.data() + content.size(), sizeof(crc));
  if (crc32c(content) != crc) return std::nullopt;
  const std::vector<char> head = encode_lengths(of, {});
  if (!std::equal(head.begin(), head.end() - sizeof(crc), content.begin())) return std::nullopt;
  Lengths lengths(static_cast<std::size_t>(of.count));
  if (!lengths.empty())
    std::memcpy(lengths.data(), content.data() + kLengthsHead, lengths.size() * sizeof(std::uint32_t));
  return lengths;
}

Lengths stored_lengths(
    const LengthsOf& of,
    const std::function<Lengths(const std::function<void(std::int64_t)>& counted)>& count) {
  Lengths lengths;
  const auto accept = [&](std::span<const char> bytes) {
    auto found = decode_lengths(bytes, of);
    if (!found) return false;
    lengths = *std::move(found);
    return true;
  };
  const auto make = [&](const std::function<void(std::uint64_t)>& report) {
    if (auto found = load(of)) {
      lengths = *std::move(found);
      return encode_lengths(of, lengths);
    }
    lengths = count([&](std::int64_t counted) { report(static_cast<std::uint64_t>(counted)); });
    std::vector<char> bytes = encode_lengths(of, lengths);
    store(of, bytes);
    return bytes;
  };
  share_on_host("lengths 1 " + of.hash + " " + of.place(), stored_bytes(of.count), accept, make,
                interrupt_check());
  return lengths;
}

}  // namespace torch_distinput
