// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace torch_distinput {

/// The first code point that UTF-16 writes as two surrogates.
inline constexpr char32_t kFirstSupplementary = 0x10000;

/// Removes the first code point of `text`, which must not be empty, and returns it. A byte that is not UTF-8
/// is U+DC00 plus the byte, as Python's "surrogateescape" has it.
char32_t take_code_point(std::string_view& text);

/// Appends `code` to `text`: the reverse of `take_code_point`. Another surrogate is written as three bytes.
void append_code_point(std::string& text, char32_t code);

/// The high and the low surrogate of a code point from `kFirstSupplementary` on, and the code point of both.
std::pair<char32_t, char32_t> surrogates_of(char32_t code);
char32_t code_of_surrogates(char32_t high, char32_t low);
bool is_high_surrogate(char32_t code);
bool is_low_surrogate(char32_t code);

}  // namespace torch_distinput
