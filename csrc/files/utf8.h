// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace torch_distinput {

/// How many leading bytes of `text` are whole, valid UTF-8 characters (as Python sees it: no surrogates, no
/// overlong forms): all of them where the text is UTF-8.
std::size_t utf8_prefix(std::span<const char> text) noexcept;

}  // namespace torch_distinput
