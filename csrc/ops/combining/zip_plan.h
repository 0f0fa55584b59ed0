// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "torch_distinput/element.h"
#include "torch_distinput/plan.h"
#include "torch_distinput/structure.h"

namespace torch_distinput {

/// Returns `structure` with `parts` in the places of its leaves, in order. REQUIRES: one part for each leaf.
StructurePtr substitute(const StructurePtr& structure, const std::vector<StructurePtr>& parts);

/// Returns one element that holds `parts` in the places of the leaves of `structure`. REQUIRES: one part for
/// each leaf.
Element side_by_side(const StructurePtr& structure, std::vector<Element> parts);

/// Returns the plan of elements that hold element i of each part, up to the end of the shortest part. Rows
/// are known if each element has as many in all parts. REQUIRES: one part for each leaf, and at least one.
PlanPtr zip_plan(StructurePtr structure, std::vector<PlanPtr> parts);

}  // namespace torch_distinput
