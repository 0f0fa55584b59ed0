// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/utf8.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

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

/// The form of a UTF-8 character, by table 3-7 of the Unicode standard: its number of bytes (0 if no
/// character begins with this byte) and the bounds of its second byte.
struct Form {
  std::size_t bytes;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
};

Form form_of(unsigned char lead) noexcept {
  if (lead >= 0xc2 && lead <= 0xdf) return {2};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {3};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead >= 0xf1 && lead <= 0xf3) return {4};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

}  // namespace

std::size_t utf8_prefix(std::span<const char> text) noexcept {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  std::size_t at = 0;
  while ((at = ascii_prefix(text, at)) < text.size()) {
    const Form form = form_of(byte(at));
    if (form.bytes == 0 || text.size() - at < form.bytes) return at;
    if (byte(at + 1) < form.low || byte(at + 1) > form.high) return at;
    for (std::size_t i = 2; i < form.bytes; ++i) {
      if ((byte(at + i) & 0xc0) != 0x80) return at;
    }
    at += form.bytes;
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
