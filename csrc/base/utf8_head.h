// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace torch_distinput {

/// What a text begins with: a whole UTF-8 character of `size` bytes, or the longest part of one, at least one
/// byte.
struct Utf8Head {
  std::size_t size;
  bool whole;
};

/// The number of bytes of a character by its first byte (0: none begins with it), and the bounds of the
/// second byte. Table 3-7 of the Unicode standard: no surrogates and no overlong forms.
struct Utf8Form {
  std::size_t size;
  unsigned char least = 0x80;
  unsigned char most = 0xbf;
};

constexpr Utf8Form utf8_form(unsigned char first) noexcept {
  if (first < 0x80) return {1};
  if (first >= 0xc2 && first <= 0xdf) return {2};
  if (first == 0xe0) return {3, 0xa0, 0xbf};
  if (first == 0xed) return {3, 0x80, 0x9f};
  if (first >= 0xe1 && first <= 0xef) return {3};
  if (first == 0xf0) return {4, 0x90, 0xbf};
  if (first >= 0xf1 && first <= 0xf3) return {4};
  if (first == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

/// REQUIRES: `text` is not empty.
constexpr Utf8Head utf8_head(std::string_view text) noexcept {
  const Utf8Form form = utf8_form(static_cast<unsigned char>(text[0]));
  std::size_t size = 1;
  for (; size < form.size && size < text.size(); ++size) {
    const auto byte = static_cast<unsigned char>(text[size]);
    const bool fits = size == 1 ? byte >= form.least && byte <= form.most : (byte & 0xc0U) == 0x80U;
    if (!fits) break;
  }
  return {size, size == form.size};
}

}  // namespace torch_distinput
