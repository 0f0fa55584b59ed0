// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distribute/sharding/row_assignment.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// Checks the options of `distribute_dataset`. Throws c10::ValueError naming the field for a value out of
/// range or a combination without a meaning, c10::NotImplementedError for `ReplicationMode::kPerReplica`.
void check_input_options(const InputOptions& options, const Replicas& replicas);

/// The same for `distribute_datasets_from_function`. `per_replica`: the strategy supports
/// `ReplicationMode::kPerReplica`.
void check_function_options(const InputOptions& options, bool per_replica);

}  // namespace torch_distinput
