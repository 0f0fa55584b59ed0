// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/step_schedule.h"

#include <algorithm>
#include <numeric>

namespace torch_distinput {

std::optional<PlannedStep> StepSchedule::next(RowCounts& counts) {
  if (!error_) {
    learn_batch(counts);
    look_ahead(counts);
  }
  if (settled_ > 0 && ends(0)) {
    ahead_.clear();
    settled_ = 0;
    data_ended_ = true;
  }
  if (settled_ > 0) return plan_front(counts);
  if (error_) std::rethrow_exception(error_);
  return std::nullopt;
}

void StepSchedule::learn_batch(RowCounts& counts) {
  const bool needed = fills() || rules_.tail == Tail::kDrop;
  if (!needed || rules_.schedule || rules_.batch >= 0 || rules_.splitter->round_rows()) return;
  rules_.batch = counts.rows(counts.from_start(0)).value_or(0);
}

void StepSchedule::look_ahead(RowCounts& counts) {
  while (settled_ < steps_wanted() && !data_ended_) assign(counts);
  if (rules_.tail == Tail::kMerge) merge_last();
}

/// The next step, the one after it, which shows whether the next is the last, and one more where that one may
/// be dropped or merged.
std::size_t StepSchedule::steps_wanted() const {
  if (rules_.tail == Tail::kMerge) return settled_ > 1 && lacks_rows(ahead_[1]) ? 3 : 2;
  return rules_.tail == Tail::kDrop ? 3 : 2;
}

/// Joins the last step to the one before it, if there is one, where it lacks rows and both together do not.
void StepSchedule::merge_last() {
  if (settled_ == 0 || !is_last(settled_ - 1) || !lacks_rows(ahead_[settled_ - 1])) return;
  if (settled_ == 1) {
    deal_to_all(ahead_.front(), nullptr, *rules_.splitter);
    return;
  }
  if (!deal_to_all(ahead_[settled_ - 2], &ahead_[settled_ - 1], *rules_.splitter)) return;
  --settled_;
  ahead_.erase(ahead_.begin() + static_cast<std::ptrdiff_t>(settled_));
}

void StepSchedule::assign(RowCounts& counts) {
  AssignedStep step{.before = assigned_to_, .after = assigned_to_};
  try {
    step.parts = rules_.splitter->assign(step.after, counts, rules_.width);
  } catch (...) {
    // The data had not ended, so the empty steps that are held back are not at the end.
    error_ = std::current_exception();
    data_ended_ = true;
    settled_ = ahead_.size();
    return;
  }
  data_ended_ = step.parts.empty();
  if (data_ended_) return;
  while (std::ssize(step.parts) < rules_.width) step.parts.push_back({.present = false});
  for (const Part& part : step.parts) step.rows += part.rows;
  assigned_to_ = step.after;
  ahead_.push_back(std::move(step));
  if (ahead_.back().rows > 0 || rules_.endless || rules_.keeps_empty) settled_ = ahead_.size();
}

PlannedStep StepSchedule::plan_front(RowCounts& counts) {
  const bool last = is_last(0);
  AssignedStep step = balancer_ ? ahead_.front() : std::move(ahead_.front());
  // First, because it may read data and throw.
  auto dealt = balance(step, last, counts);
  PlannedStep planned{
      .dealt = std::move(dealt), .batch = full_batch(step), .complete = is_complete(step), .before = at_};
  at_ = {.step = at_.step + 1, .row = at_.row + step.rows, .split = step.after};
  planned.after = at_;
  planned.last = last || (settled_ > 1 && ends(1));
  planned.last_complete = planned.last || (settled_ > 1 && !is_complete(ahead_[1]));
  if (planned.last) planned.left_out = left_out();
  planned.valid = fill_short_step(rules_.tail, step, last, shares(step), counts);
  planned.global_valid = std::accumulate(planned.valid.begin(), planned.valid.end(), std::int64_t{0});
  planned.parts = std::move(step.parts);
  ahead_.pop_front();
  --settled_;
  return planned;
}

std::vector<std::int32_t> StepSchedule::balance(AssignedStep& step, bool last, RowCounts& counts) {
  if (!balancer_) return {};
  // The rows that `kRepeat` adds follow those of the step, in order.
  if (rules_.tail != Tail::kRepeat || !last) return balancer_->balance(step, counts);
  balancer_->exchange(step, counts);
  return {};
}

std::vector<std::vector<bool>> StepSchedule::left_out() const {
  std::vector<std::vector<bool>> steps;
  for (std::size_t i = settled_; i < ahead_.size(); ++i) {
    auto& present = steps.emplace_back();
    for (const Part& part : ahead_[i].parts) present.push_back(part.present);
  }
  return steps;
}

bool StepSchedule::is_last(std::size_t index) const {
  return data_ended_ && !error_ && index + 1 == settled_;
}

bool StepSchedule::is_complete(const AssignedStep& step) const {
  return fills() ||
         std::all_of(step.parts.begin(), step.parts.end(), [](const Part& part) { return part.present; });
}

bool StepSchedule::ends(std::size_t index) const {
  if (rules_.tail == Tail::kUntilFirst && is_rest(index)) return false;
  const auto full = shares(ahead_[index]);
  return tail_ends(rules_.tail, ahead_[index], is_last(index),
                   std::accumulate(full.begin(), full.end(), std::int64_t{0}));
}

/// Whether the step is the rest of a batch that an earlier run with another batch size left, so that its size
/// says nothing about the end of the data.
bool StepSchedule::is_rest(std::size_t index) const {
  const SplitPosition& before = ahead_[index].before;
  return before.row > 0 && before == start_ && !is_last(index);
}

std::vector<std::int64_t> StepSchedule::shares(const AssignedStep& step) const {
  if (!fills() && rules_.tail != Tail::kDrop) return {};
  return rules_.splitter->shares(std::max<std::int64_t>(full_batch(step), 0), step.before.part, rules_.width);
}

/// The rows of a full batch at the place of `step`, or -1.
std::int64_t StepSchedule::full_batch(const AssignedStep& step) const {
  return rules_.schedule ? rules_.schedule->size(step.before.element) : rules_.batch;
}

}  // namespace torch_distinput
