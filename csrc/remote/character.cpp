// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/character.h"

#include <stdexcept>

namespace torch_distinput {

void append_character(std::string& text, std::uint32_t code) {
  const auto add = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto add_rest = [&](std::uint32_t shift) { add(0x80U | ((code >> shift) & 63U)); };
  if (code >= 0x110000 || (code >= 0xD800 && code < 0xE000))
    throw std::runtime_error("a text has the number of a character that there is not");
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0U | (code >> 6));
  } else if (code < 0x10000) {
    add(0xE0U | (code >> 12));
  } else {
    add(0xF0U | (code >> 18));
  }
  if (code >= 0x10000) add_rest(12);
  if (code >= 0x800) add_rest(6);
  if (code >= 0x80) add_rest(0);
}

}  // namespace torch_distinput
