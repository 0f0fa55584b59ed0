// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/own_steps.h"

#include <utility>

#include "distribute/missing_part.h"

namespace torch_distinput {

OwnSteps::OwnSteps(DistributionPtr distribution, const Start& start, std::int64_t row_start)
    : distribution_(std::move(distribution)), at_(start), row_start_(row_start) {}

BuiltStep OwnSteps::complete(BuiltStep own, const Round::Step& agreed) {
  if (own.last) left_out_.assign(own.left_out.begin(), own.left_out.end());
  if (distribution_->input.tail == Tail::kPadded) last_parts_ = own.parts;
  return agree(std::move(own), agreed);
}

BuiltStep OwnSteps::empty(const Round::Step& agreed) {
  BuiltStep step;
  const auto count = distribution_->dealing.local.size();
  for (std::size_t replica = 0; replica < count; ++replica)
    step.parts.push_back(ended_part(*distribution_, replica, last_parts_));
  step.info.step = at_.position.step;
  step.info.num_replicas = distribution_->dealing.replicas.all();
  step.info.valid.assign(count, 0);
  step.info.has_value.assign(count, false);
  if (!left_out_.empty()) {
    step.info.has_value = std::move(left_out_.front());
    left_out_.pop_front();
  }
  step.after = at_;
  ++step.after.position.step;
  return agree(std::move(step), agreed);
}

BuiltStep OwnSteps::agree(BuiltStep step, const Round::Step& agreed) {
  at_ = step.after;
  step.complete = step.complete && agreed.complete;
  step.last = agreed.last;
  step.last_complete = agreed.last_complete;
  step.info.global_valid = agreed.global_valid;
  step.info.row_start = std::exchange(row_start_, row_start_ + agreed.global_valid);
  step.info.loss_scale.clear();
  for (const std::int64_t valid : step.info.valid)
    step.info.loss_scale.push_back(loss_scale(step.info, valid));
  return step;
}

}  // namespace torch_distinput
