// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/workers/copy_past_caches.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace torch_distinput {

#if defined(__SSE2__)

void copy_past_caches(char* to, const char* from, std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64;
  const std::size_t before = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  if (bytes < before + kLine) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, before);
  const std::size_t end = before + (bytes - before) / kLine * kLine;
  for (std::size_t at = before; at < end; at += kLine) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + at);
    auto* const target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + end, from + end, bytes - end);
  _mm_sfence();  // such writes are not ordered with others
}

#else

void copy_past_caches(char* to, const char* from, std::size_t bytes) noexcept {
  std::memcpy(to, from, bytes);
}

#endif

}  // namespace torch_distinput
