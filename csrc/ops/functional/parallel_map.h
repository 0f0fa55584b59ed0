// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "ops/functional/map_function.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// \file
/// The iterators of a `map` on the sequential path with `calls` calls at a time: a user function runs on
/// `calls` threads of its own, a native one on the arena of the execution context. Only the consumer's thread
/// reads the input.

/// Yields results and errors in the order of the input.
IteratorPtr ordered_parallel_map(IteratorPtr input, std::shared_ptr<const MapFunction> function,
                                 std::int64_t calls, const IterContext& context);

/// Yields results and errors in the order in which calls finish.
IteratorPtr unordered_parallel_map(IteratorPtr input, std::shared_ptr<const MapFunction> function,
                                   std::int64_t calls, const IterContext& context);

}  // namespace torch_distinput
