// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distribute/dealing.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// Throws c10::ValueError naming the field for a value out of range or a combination that means nothing,
/// c10::NotImplementedError for replication per replica.
void check_input_options(const InputOptions& options, const Replicas& replicas);

}  // namespace torch_distinput
