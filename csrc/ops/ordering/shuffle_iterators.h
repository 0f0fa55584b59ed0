// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "torch_distinput/node.h"

/// \file
/// The sequential path of `shuffle`: iterators that yield elements in the order of the plan.

namespace torch_distinput {

/// Shuffles in windows (see `WindowedPermutation`), also an input of unknown length. Holds at most two
/// windows of elements. The state has no elements: it is the position, and the input's state before the first
/// window needed. REQUIRES: 1 <= `window` <= 2^61.
IteratorPtr windowed_shuffle_iterator(IteratorPtr input, std::int64_t window, std::uint64_t key);

/// The order of `size` elements: the number of the one at each position.
using OrderOfAll = std::function<std::vector<std::int64_t>(std::int64_t size)>;

/// A shuffle of all elements of an input that can only be read in order. Holds them; after a restore they are
/// read again. Throws what `order` throws.
IteratorPtr buffered_shuffle_iterator(NodePtr input, const IterContext& input_context, OrderOfAll order);

}  // namespace torch_distinput
