// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distribute/splitting/part.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

/// The rows of element number `number` as splitters see them. `whole`: an element without rows counts as
/// one. `cuts_leaves`: where leaves have different numbers of rows, the largest. Else throws
/// c10::ValueError naming the element, the leaf and what to do.
std::int64_t count_rows(const Element& element, std::int64_t number, bool whole, bool cuts_leaves);

/// The rows of `element` that `segment` of `part` names, sharing memory. Where leaves have different
/// numbers of rows or none, cut `part.piece` of `part.pieces` of each; c10::ValueError where it has none.
Element cut_part(const Element& element, const Segment& segment, const Part& part);

/// The same rows in memory of their own.
Element copy_rows(const Element& element);

}  // namespace torch_distinput
