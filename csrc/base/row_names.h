// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace torch_distinput {

/// `element 7`, in messages.
inline std::string element_name(std::int64_t number) { return "element " + std::to_string(number); }

/// `row 7`, or where a source was asked for several rows at once, which does not say which of them it was
/// reading: `one of the 4 rows 0 to 3`.
inline std::string rows_name(std::span<const std::int64_t> positions) {
  if (positions.empty()) return "no row";
  const std::string first = std::to_string(positions.front());
  if (positions.size() == 1) return "row " + first;
  return "one of the " + std::to_string(positions.size()) + " rows " + first + " to " +
         std::to_string(positions.back());
}

}  // namespace torch_distinput
