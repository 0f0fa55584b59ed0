// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/changed_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <variant>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/any_op.h"
#include "execution/scheduled_batches.h"
#include "execution/tells_drawn.h"

namespace torch_distinput {
namespace {

bool mixes(const Node& node) { return node.traits().order.mixes; }

/// Whether the elements of `node` before a position depend on no elements of its input but those that are
/// counted there.
bool takes_in_turn(const Node& node, bool runs_plan) {
  if (dynamic_cast<const SchedulesBatches*>(&node) != nullptr) return true;
  if (const auto* const op = dynamic_cast<const TellsDrawn*>(&node)) return op->tells_drawn(runs_plan);
  const Traits traits = node.traits();
  const bool one_for_one = traits.rows.follows == Follows::kEach || traits.rows.follows == Follows::kSame;
  return one_for_one && !traits.order.keeps;
}

/// A weight in a state; JSON does not tell 1 from 1.0.
double weight_in(const State& weight) {
  const auto* const integer = std::get_if<std::int64_t>(&weight.value());
  return integer != nullptr ? static_cast<double>(*integer) : weight.as_double();
}

}  // namespace

const Node& mixture_of(const Node& last, bool runs_plan, std::string_view call) {
  const Node* node = &last;
  while (!mixes(*node)) {
    const std::vector<NodePtr> inputs = node->inputs();
    const Node* mixture = nullptr;
    for (const NodePtr& input : inputs) {
      if (!any_op(*input, mixes)) continue;
      TORCH_CHECK_VALUE(mixture == nullptr, call,
                        ": the pipeline has several `sample_from_datasets` side by side.");
      mixture = input.get();
    }
    TORCH_CHECK_VALUE(mixture != nullptr, call, ": the pipeline has no `sample_from_datasets`.");
    TORCH_CHECK_VALUE(
        takes_in_turn(*node, runs_plan), call, ": what `", node->name(),
        "` after sample_from_datasets has handed out may depend on elements that are mixed later; "
        "move that op to the datasets that are mixed.");
    node = mixture;
  }
  return *node;
}

void check_weights(std::string_view call, const std::vector<double>& weights, std::size_t datasets) {
  TORCH_CHECK_VALUE(weights.size() == datasets, call, ": `weights` must have one entry for each of the ",
                    datasets, " datasets, but has ", weights.size(), ".");
  for (const double weight : weights) {
    TORCH_CHECK_VALUE(std::isfinite(weight) && weight >= 0, call,
                      ": `weights` must be finite and at least 0, but one is ", weight, ".");
  }
  TORCH_CHECK_VALUE(datasets == 0 || std::accumulate(weights.begin(), weights.end(), 0.0) > 0, call,
                    ": `weights` must not all be 0.");
}

std::vector<WeightsFromPosition> with_change(std::vector<WeightsFromPosition> before, std::int64_t position,
                                             std::vector<double> weights) {
  std::erase_if(before, [&](const WeightsFromPosition& entry) { return entry.position >= position; });
  before.push_back({position, std::move(weights)});
  return before;
}

State::List state_of(const std::vector<WeightsFromPosition>& weights) {
  State::List entries;
  for (const WeightsFromPosition& entry : weights) {
    State::List pair;
    pair.emplace_back(entry.position);
    pair.emplace_back(State::List(entry.weights.begin(), entry.weights.end()));
    entries.emplace_back(std::move(pair));
  }
  return entries;
}

std::vector<WeightsFromPosition> changed_weights_in(const State& state, const Node& last,
                                                    std::string_view call) {
  const StateReader saved(state, call);
  if (!saved.has(kChangedWeights)) return {};
  const std::size_t datasets = mixture_of(last, /*runs_plan=*/true, call).inputs().size();
  std::vector<WeightsFromPosition> weights;
  for (const State& entry : saved.list(kChangedWeights)) {
    const State::List& pair = entry.as_list();
    TORCH_CHECK_VALUE(pair.size() == 2, call,
                      ": an entry of the saved `weights` must be a position and weights, "
                      "but is ",
                      brief(entry), ".");
    const std::int64_t position = pair[0].as_int();
    TORCH_CHECK_VALUE(
        position >= (weights.empty() ? 0 : weights.back().position + 1) && position <= kMaxCounted, call,
        ": the positions of the saved `weights` must increase from 0 on, but one is ", position, ".");
    weights.push_back({position, {}});
    for (const State& weight : pair[1].as_list()) weights.back().weights.push_back(weight_in(weight));
    check_weights(call, weights.back().weights, datasets);
  }
  return weights;
}

}  // namespace torch_distinput
