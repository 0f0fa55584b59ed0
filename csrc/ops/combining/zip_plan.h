// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "torch_distinput/element.h"
#include "torch_distinput/plan.h"
#include "torch_distinput/structure.h"

namespace torch_distinput {

/// `structure` with `parts` in the places of its leaves, in order.
/// REQUIRES: one part a leaf.
StructurePtr substitute(const StructurePtr& structure, const std::vector<StructurePtr>& parts);

/// One element that holds `parts` in the places of `structure`'s leaves.
Element side_by_side(const StructurePtr& structure, std::vector<Element> parts);

/// The elements of `parts` side by side, up to the shortest. Rows are known where
/// every element has as many in all parts. REQUIRES: at least one part.
PlanPtr zip_plan(StructurePtr structure, std::vector<PlanPtr> parts);

}  // namespace torch_distinput
