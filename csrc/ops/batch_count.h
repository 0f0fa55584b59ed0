// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch_distinput {

/// Batches of `n` rows; `n` is negative where it is not a number of rows.
inline std::int64_t count_batches(std::int64_t n, std::int64_t batch_size, bool drop_remainder) {
  if (n < 0) return n;
  return n / batch_size + (!drop_remainder && n % batch_size != 0 ? 1 : 0);
}

}  // namespace torch_distinput
