// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/tokens/document_lengths.h"

#include <numeric>

namespace torch_distinput {

void DocumentLengths::read(std::int64_t first, std::span<std::int64_t> lengths) const {
  std::iota(lengths.begin(), lengths.end(), first);
  plan_->lengths(leaf_, lengths);
}

}  // namespace torch_distinput
