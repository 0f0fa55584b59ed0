// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/epoch_cache.h"

#include <bit>

#include "execution/changed_weights.h"
#include "execution/execution_context.h"

namespace torch_distinput {

std::vector<std::int64_t> order_key(const IterContext& context) {
  std::vector<std::int64_t> key{
      static_cast<std::int64_t>(context.seed), static_cast<std::int64_t>(context.epoch_key),
      static_cast<std::int64_t>(context.path), static_cast<std::int64_t>(context.stream)};
  for (const WeightsFromPosition& entry : context.execution->changed_weights.weights) {
    key.push_back(entry.position);
    for (const double weight : entry.weights) key.push_back(std::bit_cast<std::int64_t>(weight));
  }
  return key;
}

}  // namespace torch_distinput
