// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/steps_ahead.h"

#include <algorithm>
#include <vector>

#include "distribute/coordination/agreement.h"
#include "distribute/steps/read_ahead.h"
#include "execution/read_ahead.h"

namespace torch_distinput {
namespace {

/// The first op, from the source on, that runs users' code; null if there is none.
const Node* users_code(const Node& node) {
  for (const NodePtr& input : node.inputs()) {
    if (const Node* const found = users_code(*input)) return found;
  }
  return node.runs_user_code() ? &node : nullptr;
}

const Node* users_code(const Distribution& distribution) {
  for (const DistributionPtr& pipeline : distribution.pipelines) {
    if (const Node* const found = users_code(*pipeline->assignment.node)) return found;
  }
  return users_code(*distribution.assignment.node);
}

}  // namespace

StepsAhead::StepsAhead(const Distribution& distribution) {
  const std::int64_t buffer = distribution.input.per_replica_buffer_size;
  if (distribution.options.prefetch) {
    least_ = std::min(*distribution.options.prefetch, Agreement::kMaxAhead);
    why_ = "set by `prefetch`";
    return;
  }
  least_ = buffer == 0 ? 0 : std::min(1 + 2 * buffer, Agreement::kMaxAhead);
  const std::string most = std::to_string(Agreement::kMaxAhead);
  if (buffer == 0) {
    why_ = "because `per_replica_buffer_size` is 0; `prefetch=" + most + "` makes it one for " +
           std::to_string(Agreement::kMaxAhead / 2);
  } else if (const Node* const code = users_code(distribution)) {
    why_ = "because " + code->describe() + " would run early; `prefetch=" + most +
           "` allows that and makes it one for " + std::to_string(Agreement::kMaxAhead / 2);
  } else {
    bytes_ = prefetch_bytes(distribution.options);
    why_ = "fewer if they take more than " + std::to_string(bytes_) + " bytes (`prefetch_bytes`)";
  }
}

std::int64_t StepsAhead::beside(std::int64_t steps, std::int64_t bytes) const {
  if (bytes_ == 0) return least_;
  // bytes_ / (bytes / steps), in floating point so that nothing overflows.
  const double room = static_cast<double>(bytes_) / static_cast<double>(std::max<std::int64_t>(bytes, 1)) *
                      static_cast<double>(steps);
  return std::clamp(static_cast<std::int64_t>(std::min<double>(room, Agreement::kMaxAhead)), least_,
                    Agreement::kMaxAhead);
}

std::string StepsAhead::describe() const {
  const std::int64_t steps = bytes_ > 0 ? Agreement::kMaxAhead : least_;
  const std::int64_t a_round = (steps + 1) / 2;
  std::string text = "a round for ";
  text += a_round <= 1 ? "each step" : "about " + std::to_string(a_round) + " steps";
  return text + ", " + (steps == 0 ? "none" : std::to_string(steps)) + " ahead, " + why_;
}

}  // namespace torch_distinput
