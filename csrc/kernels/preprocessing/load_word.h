// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstring>

namespace torch_distinput::preprocessing {

static_assert(std::endian::native == std::endian::little, "strings are read as little-endian words");

/// The number whose bytes, which may lie anywhere, are the first ones at `from`.
template <class Word>
Word load_word(const char* from) noexcept {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

}  // namespace torch_distinput::preprocessing
