// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "ops/functional/map_function.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// The iterator of a `map` whose results are asked for ahead, as far as those who make them allow. It reads
/// its input in the consumer's thread. The state is that of a `map` that calls its function for one element
/// after the other. REQUIRES: `function->calls()` is not null.
IteratorPtr asked_map(IteratorPtr input, std::shared_ptr<const MapFunction> function,
                      const IterContext& context);

}  // namespace torch_distinput
