// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/images/pixels.h"

namespace torch_distinput {

/// What each value becomes.
using Table = std::array<std::uint8_t, 256>;

template <class Change>
Table table_of(Change change) {
  Table table{};
  for (int value = 0; value < 256; ++value) table[static_cast<std::size_t>(value)] = change(value);
  return table;
}

/// Each value by the table of its channel.
Pixels looked_up(const Pixels& image, std::span<const Table> tables);
/// Each value by one table.
Pixels looked_up(const Pixels& image, const Table& table);

}  // namespace torch_distinput
