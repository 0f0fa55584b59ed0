// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <c10/util/Exception.h>

namespace torch_distinput {

/// Throws c10::IndexError naming `call` and `name` unless 0 <= `value` < `size`.
inline void check_in_range(const char* call, const char* name, std::int64_t value, std::int64_t size) {
  TORCH_CHECK_INDEX(value >= 0 && value < size, call, ": `", name, "` must be at least 0 and less than ",
                    size, ", but is ", value, ".");
}

}  // namespace torch_distinput
