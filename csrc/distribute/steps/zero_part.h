// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distribute/steps/distribution.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

/// What a replica without rows gets, as the elements of `node` look: zero rows. `spec`: of the elements; null
/// if it was not known before. Throws c10::ValueError where it still is not.
Element zero_part(const SpecPtr& spec, const Node& node);

/// The same where replicas take whole elements, which may have no dimension that counts rows: such a leaf
/// becomes a 0, as recorded from tf.distribute, and only `StepInfo::has_value` tells it from data.
Element zero_element(const SpecPtr& spec, const Node& node);

}  // namespace torch_distinput
