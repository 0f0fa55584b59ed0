// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "ops/ops.h"
#include "torch_distinput/dataset.h"

namespace torch_distinput {

Dataset Dataset::pack(std::int64_t sequence_length, PackOptions options) const {
  return Dataset(ops::pack(node_, sequence_length, std::move(options)));
}

Dataset Dataset::with_lengths(LengthOptions options) const {
  return Dataset(ops::with_lengths(node_, std::move(options)));
}

}  // namespace torch_distinput
