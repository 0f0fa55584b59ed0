// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace torch_distinput {

/// How the value of a field is stored in protobuf's wire format. Groups, which proto3 does not have, are
/// malformed here.
enum class WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// Walks the fields of a protobuf message. The message may hold any bytes: each method returns false where
/// they are malformed, and never reads outside of them. One thread at a time.
class WireReader {
 public:
  explicit WireReader(std::string_view message) noexcept
      : at_(message.data()), end_(message.data() + message.size()) {}

  /// Whether all bytes are read.
  bool done() const noexcept { return at_ == end_; }

  /// Reads the head of the next field: its number and type.
  bool head(std::uint64_t& field, WireType& type) noexcept {
    std::uint64_t tag;
    if (!varint(tag)) return false;
    field = tag >> 3;
    type = static_cast<WireType>(tag & 7);
    return field != 0 && field <= kMaxField;
  }
  bool varint(std::uint64_t& value) noexcept {
    if (at_ != end_ && (static_cast<unsigned char>(*at_) & 0x80) == 0) {
      value = static_cast<unsigned char>(*at_++);
      return true;
    }
    return long_varint(value);
  }
  bool bytes(std::string_view& value) noexcept {
    std::uint64_t size;
    if (!varint(size) || size > left()) return false;
    value = {at_, static_cast<std::size_t>(size)};
    at_ += size;
    return true;
  }
  /// Reads a number of `sizeof(Number)` bytes, 4 or 8.
  template <class Number>
  bool fixed(Number& value) noexcept {
    if (left() < sizeof(value)) return false;
    std::memcpy(&value, at_, sizeof(value));
    at_ += sizeof(value);
    return true;
  }
  /// Skips the value of a field.
  bool skip(WireType type) noexcept {
    std::uint64_t number;
    std::uint32_t narrow;
    std::string_view text;
    switch (type) {
      case WireType::kVarint:
        return varint(number);
      case WireType::kFixed64:
        return fixed(number);
      case WireType::kBytes:
        return bytes(text);
      case WireType::kFixed32:
        return fixed(narrow);
    }
    return false;
  }

 private:
  static constexpr std::uint64_t kMaxField = (std::uint64_t{1} << 29) - 1;

  std::uint64_t left() const noexcept { return static_cast<std::uint64_t>(end_ - at_); }

  bool long_varint(std::uint64_t& value) noexcept {
    value = 0;
    for (int shift = 0; shift < 70 && at_ != end_; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= shift < 64 ? static_cast<std::uint64_t>(byte & 0x7f) << shift : 0;
      if ((byte & 0x80) == 0) return true;
    }
    return false;
  }

  const char* at_;
  const char* end_;
};

/// Appends fields of a protobuf message to a string.
class WireWriter {
 public:
  /// Appends to `out`, which must outlive the writer.
  explicit WireWriter(std::string& out) noexcept : out_(out) {}

  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }
  void head(std::uint32_t field, WireType type) {
    varint(std::uint64_t{field} << 3 | static_cast<std::uint64_t>(type));
  }
  void bytes(std::uint32_t field, std::string_view value) {
    head(field, WireType::kBytes);
    varint(value.size());
    out_ += value;
  }

 private:
  std::string& out_;
};

}  // namespace torch_distinput
