// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "distribute/steps/distribution.h"
#include "distribute/steps/plan_rows.h"

namespace torch_distinput {

/// How `distribution` deals rows by lanes: how many, by how many processes a block is read, and how far
/// batches are from those of a full shuffle; "" where it does not. `rows`: of the first epoch, or null where
/// they are not known.
std::string lanes_text(const Distribution& distribution, const std::shared_ptr<PlanRows>& rows);

}  // namespace torch_distinput
