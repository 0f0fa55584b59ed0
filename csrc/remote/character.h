// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace torch_distinput {

/// Adds the character of this number, as UTF-8, to `text`. Throws std::runtime_error where there is none:
/// surrogates, and numbers from 0x110000 on.
void append_character(std::string& text, std::uint32_t code);

}  // namespace torch_distinput
