// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace torch_distinput {

using Sha256 = std::array<std::uint8_t, 32>;

/// The SHA-256 digest of `data` (FIPS 180-4). Of our own, because signatures must be made wherever libcurl
/// can be loaded, whose TLS library may be any; a few hundred bytes are hashed a request.
Sha256 sha256(std::string_view data);
/// HMAC-SHA256 (RFC 2104).
Sha256 hmac_sha256(std::string_view key, std::string_view data);

/// The bytes of a digest, as a key for another.
inline std::string_view bytes_of(const Sha256& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}
/// In lower-case hexadecimal.
std::string hex_of(std::string_view bytes);

}  // namespace torch_distinput
