// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace torch_distinput {

/// Between `dull` (factor 0) and `value` (factor 1), or beyond; fractions are cut off, as in Pillow.
inline std::uint8_t blended(int dull, int value, float factor) {
  const float mixed = static_cast<float>(dull) + factor * static_cast<float>(value - dull);
  return static_cast<std::uint8_t>(std::clamp(mixed, 0.0F, 255.0F));
}

}  // namespace torch_distinput
