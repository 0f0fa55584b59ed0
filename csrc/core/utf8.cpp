// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/utf8.h"

#include <cstddef>

#include "base/utf8_head.h"

namespace torch_distinput {
namespace {

constexpr char32_t kFirstHigh = 0xD800;
constexpr char32_t kFirstLow = 0xDC00;
constexpr char32_t kAfterLow = 0xE000;
constexpr int kBitsOfSurrogate = 10;
constexpr int kBitsOfContinuation = 6;

unsigned byte_at(std::string_view text, std::size_t index) { return static_cast<unsigned char>(text[index]); }

/// How the code points up to the next form begin: the marks of the first of `size` bytes.
struct Form {
  std::size_t size;
  unsigned lead;
  char32_t first;
};
constexpr Form kForms[] = {{1, 0x00, 0}, {2, 0xC0, 0x80}, {3, 0xE0, 0x800}, {4, 0xF0, kFirstSupplementary}};

}  // namespace

char32_t take_code_point(std::string_view& text) {
  const unsigned lead = byte_at(text, 0);
  const auto [size, whole] = utf8_head(text);
  if (!whole) {
    text.remove_prefix(1);
    return kFirstLow + lead;
  }
  char32_t code = lead - kForms[size - 1].lead;
  for (std::size_t i = 1; i < size; ++i) {
    code = (code << kBitsOfContinuation) | (byte_at(text, i) & 0x3FU);
  }
  text.remove_prefix(size);
  return code;
}

void append_code_point(std::string& text, char32_t code) {
  constexpr char32_t kFirstEscaped = kFirstLow + 0x80;
  constexpr char32_t kLastEscaped = kFirstLow + 0xFF;
  if (code >= kFirstEscaped && code <= kLastEscaped) {
    text += static_cast<char>(code - kFirstLow);
    return;
  }
  const Form* form = kForms;
  while (form->size < 4 && code >= (form + 1)->first) ++form;
  int shift = kBitsOfContinuation * static_cast<int>(form->size - 1);
  text += static_cast<char>(form->lead | (code >> shift));
  while (shift > 0) {
    shift -= kBitsOfContinuation;
    text += static_cast<char>(0x80U | ((code >> shift) & 0x3FU));
  }
}

std::pair<char32_t, char32_t> surrogates_of(char32_t code) {
  const char32_t rest = code - kFirstSupplementary;
  return {kFirstHigh + (rest >> kBitsOfSurrogate), kFirstLow + (rest & 0x3FFU)};
}

char32_t code_of_surrogates(char32_t high, char32_t low) {
  return kFirstSupplementary + ((high - kFirstHigh) << kBitsOfSurrogate) + (low - kFirstLow);
}

bool is_high_surrogate(char32_t code) { return code >= kFirstHigh && code < kFirstLow; }
bool is_low_surrogate(char32_t code) { return code >= kFirstLow && code < kAfterLow; }

}  // namespace torch_distinput
