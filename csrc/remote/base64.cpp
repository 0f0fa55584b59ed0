// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/base64.h"

#include <cstdint>

namespace torch_distinput {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view part = bytes.substr(i, 3);
    std::uint32_t value = 0;
    for (std::size_t j = 0; j < 3; ++j)
      value = (value << 8) | (j < part.size() ? static_cast<unsigned char>(part[j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += j <= part.size() ? kDigits[(value >> (18 - 6 * j)) & 63U] : '=';
  }
  return text;
}

std::optional<std::string> base64_decode(std::string_view text) {
  std::string bytes;
  std::uint32_t value = 0;
  int bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = (value << 6) | static_cast<std::uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>((value >> bits) & 255U);
  }
  if (base64_encode(bytes) != text) return std::nullopt;  // its padding is wrong
  return bytes;
}

}  // namespace torch_distinput
