// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "distribute/sharding/row_assignment.h"
#include "distribute/splitting/step_schedule.h"
#include "distribute/steps/distribution.h"
#include "distribute/steps/plan_rows.h"
#include "torch_distinput/row_ledger.h"

namespace torch_distinput {

/// The arithmetic of one epoch, of one process or of all replicas that share a stream. Immutable; safe from
/// any thread.
struct RowLedger::Impl {
  /// Each element of `last` is a step. Throws c10::ValueError, naming the op, where it has no plan.
  Impl(NodePtr last, const IterContext& context);
  /// Throws also where the rows of elements are known only when they are read.
  Impl(const Distribution& distribution, const IterContext& context);

  std::vector<std::int64_t> rows_of_element(std::int64_t element) const;
  /// REQUIRES: `rows` is not null.
  std::vector<std::int64_t> rows_of_part(std::int64_t step, std::int64_t replica) const;

  NodePtr node;
  PlanPtr plan;
  std::shared_ptr<PlanRows> rows = {};  ///< null: each element is a step
  ScheduleRules rules = {};
  RowAssignment assignment = {};
  std::int64_t num_steps = 0;
};

/// The ledger of `Dataset::ledger` and of `DistributedDataset::ledger`. `own_seed`: of epochs without one.
RowLedger ledger_of(const NodePtr& last, const LedgerEpoch& epoch, std::uint64_t own_seed);
RowLedger ledger_of(const Distribution& distribution, const LedgerEpoch& epoch, std::uint64_t own_seed);

}  // namespace torch_distinput
