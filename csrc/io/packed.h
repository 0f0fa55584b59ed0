// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace torch_distinput {

/// Adds a number, in the order of this machine's bytes.
inline void pack(std::string& to, std::uint64_t number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof(number));
}
/// Adds a text behind its length.
inline void pack(std::string& to, std::string_view text) {
  pack(to, std::uint64_t{text.size()});
  to += text;
}

/// Takes numbers and texts from bytes, which may be anything: each method returns false where they end too
/// early, and never reads outside of them. One thread at a time.
class Unpacker {
 public:
  explicit Unpacker(std::span<const char> bytes) noexcept : left_(bytes.data(), bytes.size()) {}

  bool done() const noexcept { return left_.empty(); }
  bool number(std::uint64_t& value) noexcept {
    if (left_.size() < sizeof(value)) return false;
    std::memcpy(&value, left_.data(), sizeof(value));
    left_.remove_prefix(sizeof(value));
    return true;
  }
  bool text(std::string_view& value) noexcept {
    std::uint64_t size = 0;
    if (!number(size) || size > left_.size()) return false;
    value = left_.substr(0, static_cast<std::size_t>(size));
    left_.remove_prefix(value.size());
    return true;
  }

 private:
  std::string_view left_;
};

}  // namespace torch_distinput
