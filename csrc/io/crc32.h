// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace torch_distinput {

/// The CRC-32 of zip and gzip of the bytes whose CRC-32 is `before` and then `bytes`; that of no bytes is 0.
/// Safe from any thread.
std::uint32_t crc32(std::uint32_t before, std::span<const char> bytes);

}  // namespace torch_distinput
