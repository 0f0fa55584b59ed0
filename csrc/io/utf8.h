// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace torch_distinput {

/// How many leading bytes of `text` are whole, valid UTF-8 characters (as Python sees it: no surrogates, no
/// overlong forms): all of them where the text is UTF-8.
std::size_t utf8_prefix(std::span<const char> text) noexcept;

/// `text` with `\xff` in the place of each byte that is not UTF-8, as Python's "backslashreplace" does it.
std::string escape_non_utf8(std::string_view text);

}  // namespace torch_distinput
