// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

namespace torch_distinput {

/// Calls `copy(bytes)` with a number of bytes that the compiler knows where it is that of one number, so that
/// a memcpy of so many is no call.
template <class Copy>
void with_known_size(std::int64_t bytes, const Copy& copy) {
  switch (bytes) {
    case 1:
      return copy(std::integral_constant<std::int64_t, 1>());
    case 2:
      return copy(std::integral_constant<std::int64_t, 2>());
    case 4:
      return copy(std::integral_constant<std::int64_t, 4>());
    case 8:
      return copy(std::integral_constant<std::int64_t, 8>());
    default:
      copy(bytes);
  }
}

}  // namespace torch_distinput
