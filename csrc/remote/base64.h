// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace torch_distinput {

/// RFC 4648, with padding.
std::string base64_encode(std::string_view bytes);
/// nullopt where `text` is not base64.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace torch_distinput
