// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace torch_distinput {

/// Returns how many leading bytes of `text` are whole, valid UTF-8 characters: all of them if the text is
/// valid. As in Python's decoder, surrogates and overlong forms are not valid. Safe from any thread.
std::size_t utf8_prefix(std::span<const char> text) noexcept;

/// Returns `text` with each byte that is not valid UTF-8 written as an escape such as `\xff`, as Python's
/// error handler "backslashreplace" does.
std::string escape_non_utf8(std::string_view text);

}  // namespace torch_distinput
