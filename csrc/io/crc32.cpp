// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/crc32.h"

#include <algorithm>
#include <cstddef>

#include "io/zlib_abi.h"

namespace torch_distinput {

std::uint32_t crc32(std::uint32_t before, std::span<const char> bytes) {
  constexpr std::size_t kMaxAtOnce = std::size_t{1} << 30;  // zlib counts in 32 bits
  unsigned long crc = before;                               // NOLINT(google-runtime-int): as zlib declares it
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kMaxAtOnce));
    crc = ::crc32(crc, reinterpret_cast<const unsigned char*>(piece.data()),
                  static_cast<unsigned int>(piece.size()));
    bytes = bytes.subspan(piece.size());
  }
  return static_cast<std::uint32_t>(crc);
}

}  // namespace torch_distinput
