// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "ops/functional/dataset_function.h"
#include "torch_distinput/node.h"

/// \file
/// The iterators of `interleave`. Slots 0 to `cycle_length` - 1 take turns; a turn is up to `block_length`
/// elements of the slot's dataset. A slot whose dataset has ended gets the next dataset when its turn comes
/// again, which is tf.data's order. All iterators have the same kind of state, so that any of them can resume
/// from the state of another: for each open dataset, the input's state before the element it was made from,
/// and the state of the dataset itself.

namespace torch_distinput {

/// The parameters of the turns.
struct InterleaveTurns {
  std::int64_t cycle_length;  ///< the number of slots, at least 1
  std::int64_t block_length;  ///< the elements of a turn, at least 1
};
/// Shared by the threads of an interleave.
using DatasetFunctionPtr = std::shared_ptr<const DatasetFunction>;

/// The name of the threads that read datasets ahead.
inline constexpr const char* kInterleaveThreads = "tdi-interleave";

/// Reads all datasets in the consumer's thread.
IteratorPtr interleave_iterator(IteratorPtr input, DatasetFunctionPtr function, InterleaveTurns turns,
                                const IterContext& context);

/// Makes datasets and reads them ahead on `threads` threads of its own, which start at the first `next`.
/// Yields the same elements in the same order as `interleave_iterator`.
IteratorPtr ordered_parallel_interleave(IteratorPtr input, DatasetFunctionPtr function, InterleaveTurns turns,
                                        std::int64_t threads, const IterContext& context);
/// The same, but a slot that has no element ready loses its turn, so the order may vary.
IteratorPtr unordered_parallel_interleave(IteratorPtr input, DatasetFunctionPtr function,
                                          InterleaveTurns turns, std::int64_t threads,
                                          const IterContext& context);

}  // namespace torch_distinput
