// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/combining/mean_length.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "execution/named_leaf.h"

namespace torch_distinput {
namespace {

/// The lengths of so many elements are looked up at most: 10 ms, and a mean that is off by 0.2 % where
/// lengths vary as much as their mean.
constexpr std::int64_t kMost = std::int64_t{1} << 18;

/// What has the same elements as `node`, each as often as every other, in a fixed order.
const Node& without_order(const Node& node) {
  const std::vector<NodePtr> inputs = node.inputs();
  const Traits traits = node.traits();
  const bool keeps_mean =
      inputs.size() == 1 && traits.order.permutes && traits.rows.follows == Follows::kChosen;
  return keeps_mean ? without_order(*inputs.front()) : node;
}

}  // namespace

double MeanLengths::of(std::size_t input, const Node& node, const std::optional<std::string>& key,
                       std::string_view op) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = found_.find(input); known != found_.end()) return known->second;
  }
  // Without the lock, because it may run users' code.
  const double mean = mean_length(node, key, op);
  const std::lock_guard lock(mutex_);
  return found_.emplace(input, mean).first->second;
}

double mean_length(const Node& node, const std::optional<std::string>& key, std::string_view op) {
  const SpecPtr spec = node.spec();
  if (spec == nullptr) return 1;
  const std::size_t leaf = named_leaf(spec->structure, key, op);
  const Node& elements = without_order(node);
  const PlanPtr plan = elements.plan(epoch_context(make_execution_context(node.options()), 0, 0, false));
  TORCH_CHECK_VALUE(
      plan != nullptr && plan->knows_lengths(leaf), op, ": the lengths of the elements of `", node.describe(),
      "` are not known before they are read, so that their tokens have no weight; `with_lengths` "
      "counts and stores them.");
  const std::int64_t step = std::max<std::int64_t>(1, plan->size() / kMost);
  const std::int64_t count = std::min(plan->size(), kMost);
  if (count == 0) return 1;
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int64_t>(i) * step;
  plan->lengths(leaf, lengths);
  const std::int64_t sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  TORCH_CHECK_VALUE(sum > 0, op, ": the elements of `", node.describe(), "` have no tokens.");
  return static_cast<double>(sum) / static_cast<double>(count);
}

}  // namespace torch_distinput
