// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distribute/steps/distribution.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

/// An element of zero rows of the type of the elements of `node`. `spec`: of the elements; null: use
/// `node.spec()`. Throws c10::ValueError if neither is known.
Element zero_part(const SpecPtr& spec, const Node& node);

/// As `zero_part`, for replicas that take whole elements, whose leaves may have no dim 0: such a leaf becomes
/// a 0, as recorded of tf.distribute, and only `StepInfo::has_value` distinguishes it from data.
Element zero_element(const SpecPtr& spec, const Node& node);

}  // namespace torch_distinput
