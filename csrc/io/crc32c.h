// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace torch_distinput {

/// CRC32C (Castagnoli) of `data` behind data whose CRC is `crc`. Uses the processor's instruction where it
/// has one.
std::uint32_t crc32c(std::span<const char> data, std::uint32_t crc = 0) noexcept;

/// The same without special instructions; what `crc32c` falls back to.
std::uint32_t crc32c_portable(std::span<const char> data, std::uint32_t crc = 0) noexcept;

/// The form in which record files store a CRC, so that data that holds CRCs of its own is no special case:
/// rotated right by 15 bits, plus a constant.
constexpr std::uint32_t mask_crc(std::uint32_t crc) noexcept {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace torch_distinput
