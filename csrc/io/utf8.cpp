// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/utf8.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/utf8_head.h"

namespace torch_distinput {
namespace {

std::size_t ascii_prefix(std::span<const char> text, std::size_t at) noexcept {
  constexpr std::uint64_t kHighBits = 0x8080808080808080U;
  constexpr std::size_t kStep = 4 * sizeof(std::uint64_t);
  for (; at + kStep <= text.size(); at += kStep) {
    std::uint64_t words[4];
    std::memcpy(words, text.data() + at, kStep);
    if (((words[0] | words[1] | words[2] | words[3]) & kHighBits) != 0) break;
  }
  while (at < text.size() && static_cast<signed char>(text[at]) >= 0) ++at;
  return at;
}

}  // namespace

std::size_t utf8_prefix(std::span<const char> text) noexcept {
  std::size_t at = 0;
  while ((at = ascii_prefix(text, at)) < text.size()) {
    const auto [size, whole] = utf8_head({text.data() + at, text.size() - at});
    if (!whole) return at;
    at += size;
  }
  return at;
}

std::string escape_non_utf8(std::string_view text) {
  std::string escaped;
  while (true) {
    const std::size_t valid = utf8_prefix(text);
    escaped += text.substr(0, valid);
    if (valid == text.size()) return escaped;
    std::array<char, 5> byte;
    std::snprintf(byte.data(), byte.size(), "\\x%02x",
                  static_cast<unsigned int>(static_cast<unsigned char>(text[valid])));
    escaped += byte.data();
    text.remove_prefix(valid + 1);
  }
}

}  // namespace torch_distinput
