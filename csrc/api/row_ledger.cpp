// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/row_ledger.h"

#include <optional>
#include <utility>

#include <c10/util/Exception.h>

#include "api/check_in_range.h"
#include "core/state_reader.h"
#include "distribute/steps/open_step_source.h"
#include "execution/changed_weights.h"
#include "execution/excluded_rows.h"
#include "execution/find_source_row.h"
#include "execution/without_plan.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

constexpr const char* kCall = "RowLedger";

/// `last` without the rows that are excluded in `epoch`.
NodePtr left_of(const NodePtr& last, const LedgerEpoch& epoch) {
  if (epoch.position.is_null()) return last;
  return without_rows(last, excluded_rows_in(epoch.position, kCall), epoch.epoch, kCall);
}

/// The weights set up to the saved position, as they hold in `epoch`.
ChangedWeights weights_in(const LedgerEpoch& epoch, const Node& last) {
  if (epoch.position.is_null()) return {};
  const std::int64_t saved = StateReader(epoch.position, kCall).count("epoch", kMaxEpochs);
  std::vector<WeightsFromPosition> weights = changed_weights_in(epoch.position, last, kCall);
  if (weights.empty() || epoch.epoch < saved) return {};
  if (epoch.epoch > saved) weights = {{0, std::move(weights.back().weights)}};
  return {&mixture_of(last, /*runs_plan=*/true, kCall), std::move(weights)};
}

IterContext context_of(const Node& node, const Options& options, const LedgerEpoch& epoch,
                       std::uint64_t own_seed) {
  TORCH_CHECK_VALUE(epoch.epoch >= 0, kCall, ": `epoch` must be at least 0, but is ", epoch.epoch, ".");
  auto execution = make_execution_context(options);
  execution->changed_weights = weights_in(epoch, node);
  return epoch_context(std::move(execution), epoch.seed.value_or(own_seed), epoch.epoch,
                       /*stream_only=*/false);
}

PlanPtr plan_of(const Node& node, const IterContext& context) {
  PlanPtr plan = node.plan(context);
  TORCH_CHECK_VALUE(plan != nullptr, kCall, ": `", op_without_plan(node, context),
                    "` has no random access, so that only reading tells its rows.");
  return plan;
}

/// Whether each element is the step of the only replica, so that its rows need not be counted.
bool steps_are_elements(const RowAssignment& assignment) {
  return assignment.replicas.all() == 1 && !assignment.splitter->round_rows();
}

}  // namespace

RowLedger::Impl::Impl(NodePtr last, const IterContext& context)
    : node(std::move(last)), plan(plan_of(*node, context)), num_steps(plan->size()) {}

RowLedger::Impl::Impl(const Distribution& distribution, const IterContext& context)
    : node(distribution.assignment.node),
      plan(plan_of(*node, context)),
      rows(plan_rows(distribution, context)),
      rules(distribution.rules()),
      assignment(distribution.assignment) {
  if (rows == nullptr && steps_are_elements(assignment)) {
    num_steps = plan->size();
    return;
  }
  TORCH_CHECK_VALUE(rows != nullptr, kCall,
                    ": the numbers of rows of the elements must be known before they are read; map rows "
                    "before they are batched, or with `row_wise`.");
  num_steps = count_steps(rules, *rows, /*only_complete=*/false).value_or(kEndless);
}

std::vector<std::int64_t> RowLedger::Impl::rows_of_element(std::int64_t element) const {
  std::vector<std::int64_t> numbers;
  plan->source_rows({&element, 1}, numbers);
  return numbers;
}

std::vector<std::int64_t> RowLedger::Impl::rows_of_part(std::int64_t step, std::int64_t replica) const {
  const PlannedStep planned = find_step(rules, *rows, step).value();
  const Part& part = planned.parts[static_cast<std::size_t>(assignment.place_of(replica))];
  std::vector<std::int64_t> numbers;
  if (!assignment.unbatched) {
    plan->source_rows_of({part.segments.data(), part.segments.size()}, numbers);
    return numbers;
  }
  std::vector<std::int64_t> elements;
  for (const Segment& segment : part.segments) elements.push_back(segment.element);
  plan->source_rows(elements, numbers);
  return numbers;
}

RowLedger ledger_of(const NodePtr& last, const LedgerEpoch& epoch, std::uint64_t own_seed) {
  NodePtr node = left_of(last, epoch);
  const IterContext context = context_of(*node, node->options(), epoch, own_seed);
  return RowLedger(std::make_shared<const RowLedger::Impl>(std::move(node), context));
}

RowLedger ledger_of(const Distribution& whole, const LedgerEpoch& epoch, std::uint64_t own_seed) {
  TORCH_CHECK_VALUE(whole.one_stream() && whole.pipelines.empty(), kCall,
                    ": all replicas must share one stream, but here replicas or processes read their own.");
  Distribution distribution = whole;
  RowAssignment& assignment = distribution.assignment;
  assignment.node = left_of(assignment.node, epoch);
  const IterContext context =
      assignment.context_of_stream(context_of(*assignment.node, distribution.options, epoch, own_seed));
  return RowLedger(std::make_shared<const RowLedger::Impl>(distribution, context));
}

std::int64_t RowLedger::num_steps() const { return impl_->num_steps; }

std::vector<NodePtr> RowLedger::pipelines() const { return {impl_->node}; }

std::vector<std::int64_t> RowLedger::rows(std::int64_t step, std::int64_t replica) const {
  check_in_range(kCall, "step", step, impl_->num_steps);
  check_in_range(kCall, "replica", replica, impl_->assignment.replicas.all());
  return impl_->rows ? impl_->rows_of_part(step, replica) : impl_->rows_of_element(step);
}

SourceRow RowLedger::locate(std::int64_t row) const {
  check_in_range(kCall, "row", row, impl_->plan->num_source_rows());
  return impl_->plan->source_row(row);
}

Element RowLedger::rebuild(std::int64_t row, bool unbatched) const {
  const std::optional<SourceRowPlace> place = find_source_row(*impl_->plan, row);
  TORCH_CHECK_INDEX(place.has_value(), kCall, ": `row` must be a row of the epoch, but is ", row, ".");
  if (unbatched) {
    const Segment own{place->element, place->index, place->index + 1};
    return take_row(impl_->plan->take_rows({&own, 1}), 0, "rebuild");
  }
  std::int64_t position = place->element;
  return std::move(impl_->plan->fetch({&position, 1}).front());
}

}  // namespace torch_distinput
