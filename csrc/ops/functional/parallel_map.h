// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "ops/functional/map_function.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// Iterators of a `map` in the sequential path with up to `calls` calls at a time: a
/// user function on `calls` threads of its own, a native one on the execution context's
/// arena. The input is read by the consumer's thread, never by others.

/// Results and errors in the order of the input.
IteratorPtr ordered_parallel_map(IteratorPtr input, std::shared_ptr<const MapFunction> function,
                                 std::int64_t calls, const IterContext& context);

/// Results as they come.
IteratorPtr unordered_parallel_map(IteratorPtr input, std::shared_ptr<const MapFunction> function,
                                   std::int64_t calls, const IterContext& context);

}  // namespace torch_distinput
