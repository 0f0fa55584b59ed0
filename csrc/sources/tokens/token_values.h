// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <c10/core/ScalarType.h>

namespace torch_distinput {

/// \file
/// Numbers of tokens as files store them, and as elements have them.

/// Whether tokens may be stored in this type: an integer of up to 64 bits other than uint64.
bool stores_tokens(c10::ScalarType dtype);

/// The value of token `index` of `tokens`.
std::int64_t token_at(const char* tokens, c10::ScalarType dtype, std::int64_t index);

/// How stored tokens become those of elements.
struct TokenConversion {
  c10::ScalarType from;               ///< `stores_tokens`
  c10::ScalarType to;                 ///< Long or Int
  std::optional<std::int64_t> limit;  ///< tokens must be in [0, `limit`); unset: not checked
};

/// Converts `count` tokens. Returns the index of the first token that is out of range; -1 if there is none.
std::int64_t convert_tokens(const TokenConversion& conversion, const char* from, std::int64_t count,
                            char* to);

/// The index of the first token from `begin` on that equals `token`, or `count`.
std::int64_t find_token(const char* tokens, c10::ScalarType dtype, std::int64_t begin, std::int64_t count,
                        std::int64_t token);

}  // namespace torch_distinput
