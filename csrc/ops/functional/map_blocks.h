// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "ops/functional/map_function.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// The iterator of a `map` on the sequential path whose function gets up to `block` elements at once, fewer
/// where they are large. It reads them ahead in the consumer's thread. Where a call for a block throws, the
/// function gets its elements one by one, so that only those are lost that it cannot take. The state is that
/// of a `map` without blocks.
IteratorPtr map_blocks(IteratorPtr input, std::shared_ptr<const MapFunction> function, std::int64_t block,
                       const IterContext& context);

}  // namespace torch_distinput
