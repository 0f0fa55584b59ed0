// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distribute/splitting/part.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

/// The number of rows of element number `number`, as splitters count them. `whole`: an element without rows
/// counts as one row. `cuts_leaves`: leaves may have different numbers of rows, the largest counts. Otherwise
/// throws c10::ValueError, which names the element, the leaf and what to do.
std::int64_t count_rows(const Element& element, std::int64_t number, bool whole, bool cuts_leaves);

/// The rows of `element` in `segment` of `part`; shares memory with `element`. If leaves have different
/// numbers of rows or none, piece `part.piece` of `part.pieces` of each leaf; throws c10::ValueError if
/// `part.pieces` is 0.
Element cut_part(const Element& element, const Segment& segment, const Part& part);

/// The rows of `element` in memory of their own.
Element copy_rows(const Element& element);

}  // namespace torch_distinput
