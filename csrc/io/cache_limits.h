// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace torch_distinput {

/// What a cache may take.
struct CacheLimits {
  std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max();  ///< of its files
  /// Bytes of the file system that stay free; unset: a twentieth of it.
  std::optional<std::uint64_t> least_free = std::nullopt;
  bool operator==(const CacheLimits&) const = default;
};

/// Those of the variables `TDI_CACHE_BYTES` and `TDI_CACHE_FREE`. Throws std::invalid_argument naming one
/// that is no number of bytes.
CacheLimits cache_limits();

}  // namespace torch_distinput
