// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch_distinput {

/// Has the processor fetch `bytes` bytes from `from` on into its cache, without waiting for them. REQUIRES:
/// more than 0.
inline void prefetch_lines(const char* from, std::int64_t bytes) {
  constexpr std::int64_t kCacheLine = 64;
  for (std::int64_t offset = 0; offset < bytes; offset += kCacheLine) __builtin_prefetch(from + offset);
  __builtin_prefetch(from + bytes - 1);
  // GCC takes a function that does no more than prefetch for one without effects, and leaves out its calls.
  asm volatile("");
}

}  // namespace torch_distinput
