// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/tables.h"

#include <vector>

namespace torch_distinput {

Pixels looked_up(const Pixels& image, std::span<const Table> tables) {
  const Pixels result = make_pixels(image.extent(), image.channels);
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* from = image.line(y);
    std::uint8_t* to = result.line(y);
    for (std::int64_t x = 0; x < image.width; ++x) {
      for (const Table& table : tables) *to++ = table[*from++];
    }
  }
  return result;
}

Pixels looked_up(const Pixels& image, const Table& table) {
  return looked_up(image, std::vector<Table>(static_cast<std::size_t>(image.channels), table));
}

}  // namespace torch_distinput
