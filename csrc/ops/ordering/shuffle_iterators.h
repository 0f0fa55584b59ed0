// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "torch_distinput/node.h"

/// \file
/// The sequential path of `shuffle`: iterators that give the order that the plan gives.

namespace torch_distinput {

/// Shuffles in windows (see `WindowedPermutation`), also where the length is not
/// known. Holds at most two windows of elements; a saved position has the input's
/// position at the first element held. REQUIRES: 1 <= `window` <= 2^61.
IteratorPtr windowed_shuffle_iterator(IteratorPtr input, std::int64_t window, std::uint64_t key);

/// A full shuffle of an input that can only be read in order: holds all of it.
/// A restart reads it again.
IteratorPtr buffered_shuffle_iterator(NodePtr input, const IterContext& input_context, std::uint64_t key);

/// A full shuffle of a plan whose rows may fail where the options say to skip:
/// reads rows in shuffled order and drops those that fail. `op` names it in messages.
IteratorPtr skipping_shuffle_iterator(PlanPtr rows, const IterContext& context, std::uint64_t key,
                                      const std::string& op);

}  // namespace torch_distinput
