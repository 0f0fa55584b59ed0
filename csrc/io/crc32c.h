// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace torch_distinput {

/// Returns the CRC32C (Castagnoli) of `data` appended to data whose CRC is `crc`. Uses the processor's CRC
/// instruction where there is one. Safe from any thread, as are the other functions here.
std::uint32_t crc32c(std::span<const char> data, std::uint32_t crc = 0) noexcept;

/// The same without special instructions: the fallback of `crc32c`.
std::uint32_t crc32c_portable(std::span<const char> data, std::uint32_t crc = 0) noexcept;

/// Returns the form in which TFRecord files store a CRC: rotated right by 15 bits, plus a constant. A CRC
/// over data that itself contains CRCs is a weak check; masking avoids that.
constexpr std::uint32_t mask_crc(std::uint32_t crc) noexcept {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace torch_distinput
