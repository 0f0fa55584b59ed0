// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "ops/functional/dataset_function.h"
#include "torch_distinput/node.h"

/// \file
/// The iterators of `interleave`. Slots 0 to `cycle_length` - 1 take turns; a turn is up to `block_length`
/// elements of the slot's dataset. A slot whose dataset ended is given the next one when its turn comes again
/// (tf.data's order). All of them save positions of one kind, so that one can go on where another one
/// stopped: for each open dataset where the input stood before the element it was made of, and the dataset's
/// own position.

namespace torch_distinput {

struct InterleaveTurns {
  std::int64_t cycle_length;
  std::int64_t block_length;
};
using DatasetFunctionPtr = std::shared_ptr<const DatasetFunction>;

/// Reads in the consumer's thread.
IteratorPtr interleave_iterator(IteratorPtr input, DatasetFunctionPtr function, InterleaveTurns turns,
                                const IterContext& context);

/// Makes datasets and reads them ahead on `threads` threads of its own, which start with the first `next`.
IteratorPtr ordered_parallel_interleave(IteratorPtr input, DatasetFunctionPtr function, InterleaveTurns turns,
                                        std::int64_t threads, const IterContext& context);
/// The same; a slot that has nothing ready is passed over.
IteratorPtr unordered_parallel_interleave(IteratorPtr input, DatasetFunctionPtr function,
                                          InterleaveTurns turns, std::int64_t threads,
                                          const IterContext& context);

}  // namespace torch_distinput
