// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distribute/sharding/row_assignment.h"
#include "execution/row_costs.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// Checks the options of `distribute_dataset`. Throws c10::ValueError naming the field for a value out of
/// range or a combination without a meaning, c10::NotImplementedError for `ReplicationMode::kPerReplica`.
void check_input_options(const InputOptions& options, const Replicas& replicas);

/// The costs by which `options` exchange the rows of `assignment`, checked; null where they do not. Throws
/// c10::ValueError and c10::TypeError naming the field for costs that do not fit, and where replicas do not
/// share one stream of batches. `skips`: rows that fail are skipped.
std::shared_ptr<const RowCosts> balance_of(const InputOptions& options, const RowAssignment& assignment,
                                           bool skips);

/// Throws c10::ValueError where `options` deal rows by lanes and the rows of `assignment` have none, and as
/// `balance_of`.
void check_lanes(const InputOptions& options, const RowAssignment& assignment, bool skips);

/// `check_input_options` for `distribute_datasets_from_function`. `per_replica`: the strategy supports
/// `ReplicationMode::kPerReplica`.
void check_function_options(const InputOptions& options, bool per_replica);

}  // namespace torch_distinput
