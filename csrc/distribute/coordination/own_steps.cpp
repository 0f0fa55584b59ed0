// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/own_steps.h"

#include <algorithm>
#include <utility>

#include "distribute/steps/merge_steps.h"
#include "distribute/steps/missing_part.h"
#include "distribute/steps/open_step_source.h"
#include "distribute/steps/step_source.h"

namespace torch_distinput {

OwnSteps::OwnSteps(DistributionPtr distribution, const IterContext& context, const Start& start,
                   std::int64_t row_start)
    : distribution_(std::move(distribution)),
      at_(start),
      row_start_(row_start),
      first_part_(start.position.split.part),
      batch_(distribution_->assignment.batch),
      pads_(distribution_->input.tail == Tail::kPadded),
      seen_(distribution_->assignment.local.size()),
      last_from_(start.seen_from ? start.seen_from : std::make_shared<const Start>(start)) {
  if (start.seen_from) see_again(context);
}

BuiltStep OwnSteps::complete(BuiltStep own, const Round::Step& agreed) {
  if (pads_ || own.last) see(own, std::make_shared<const Start>(at_));
  if (own.last || some_share_is_empty()) own.after.seen_from = seen_from();
  return agree(std::move(own), agreed);
}

BuiltStep OwnSteps::merged(std::vector<BuiltStep> own, const Round::Step& agreed) {
  return agree(merge_steps(std::move(own), *distribution_->assignment.splitter), agreed);
}

BuiltStep OwnSteps::empty(const Round::Step& agreed) {
  BuiltStep step;
  for (std::size_t replica = 0; replica < seen_.size(); ++replica)
    step.parts.push_back(ended_part(*distribution_, full_rows(replica), seen_[replica].part));
  step.info.step = at_.position.step;
  step.info.num_replicas = distribution_->assignment.replicas.all();
  step.info.valid.assign(seen_.size(), 0);
  step.info.has_value = pass_empty();
  step.after = at_;
  step.after.seen_from = seen_from();
  ++step.after.position.step;
  return agree(std::move(step), agreed);
}

/// Remembers what steps after the end may depend on. `from`: the position before `own`.
void OwnSteps::see(const BuiltStep& own, const std::shared_ptr<const Start>& from) {
  const RowAssignment& assignment = distribution_->assignment;
  first_part_ = (from->position.split.part + assignment.width) % assignment.splitter->parts();
  batch_ = own.batch;
  last_from_ = from;
  if (own.last) {
    left_out_.assign(own.left_out.begin(), own.left_out.end());
    has_left_out_ = !left_out_.empty();
  }
  if (!pads_) return;
  for (std::size_t replica = 0; replica < seen_.size(); ++replica)
    if (own.parts[replica].rows().value_or(0) > 0) seen_[replica] = {own.parts[replica], from};
}

/// Reads the steps from `at_.seen_from` to `at_` again.
void OwnSteps::see_again(const IterContext& context) {
  auto from = at_.seen_from;
  first_part_ = from->position.split.part;
  const auto path = open_step_source(distribution_, context, *from, nullptr, Reading::kHere);
  while (from->position.step < at_.position.step) {
    const auto own = path->next();
    if (!own) break;
    see(*own, from);
    from = std::make_shared<const Start>(own->after);
  }
  for (std::int64_t step = from->position.step; step < at_.position.step; ++step) pass_empty();
}

/// Advances by one step after the end. Returns which of its parts the stream would have had, without rows.
std::vector<bool> OwnSteps::pass_empty() {
  const RowAssignment& assignment = distribution_->assignment;
  first_part_ = (first_part_ + assignment.width) % assignment.splitter->parts();
  std::vector<bool> present(seen_.size(), false);
  if (!left_out_.empty()) {
    present = std::move(left_out_.front());
    left_out_.pop_front();
  }
  return present;
}

/// The position from which the stream's steps must be read again, because steps after its end depend on them.
std::shared_ptr<const Start> OwnSteps::seen_from() const {
  if (!pads_ && !has_left_out_) return nullptr;
  std::shared_ptr<const Start> first = last_from_;
  for (const Seen& seen : seen_)
    if (seen.from && seen.from->position.step < first->position.step) first = seen.from;
  return first;
}

/// Whether replicas have no rows in some full steps, so that their last row may be several steps before the
/// end.
bool OwnSteps::some_share_is_empty() const {
  if (!pads_ || batch_ <= 0) return false;
  const Splitter& splitter = *distribution_->assignment.splitter;
  const auto shares = splitter.shares(batch_, 0, splitter.parts());
  return std::find(shares.begin(), shares.end(), 0) != shares.end();
}

/// The rows of a full part of `replica` in the next step.
std::int64_t OwnSteps::full_rows(std::size_t replica) const {
  if (batch_ <= 0) return 0;
  const RowAssignment& assignment = distribution_->assignment;
  const auto shares = assignment.splitter->shares(batch_, first_part_, assignment.width);
  return shares[static_cast<std::size_t>(assignment.local[replica])];
}

BuiltStep OwnSteps::agree(BuiltStep step, const Round::Step& agreed) {
  at_ = step.after;
  // The agreed values, because a loop that ends on this rank alone makes other ranks wait.
  step.complete = agreed.complete;
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
