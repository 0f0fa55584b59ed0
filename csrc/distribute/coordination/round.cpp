// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/round.h"

#include <algorithm>

namespace torch_distinput {
namespace {

const RoundSummary::Step& step_of(const RoundSummary& all, std::int64_t step) {
  return all.steps()[static_cast<std::size_t>(step)];
}

/// Number of steps that every rank has ready. Ranks that have ended may lack theirs, unless `until_first`.
std::int64_t count_released(const RoundSummary& all, bool until_first) {
  const auto& steps = all.steps();
  const auto limits = [&](const RoundSummary::Step& step) {
    return step.ranks() > (until_first ? 0 : step.ended);
  };
  const auto least = std::find_if(steps.begin(), steps.end(), limits);
  return std::min<std::int64_t>(least - steps.begin(), std::ssize(steps) - 1);
}

/// Number of ranks that are known to have no step `step`, counted from the first that is ready.
std::int64_t count_ended(const RoundSummary& all, std::int64_t step) {
  std::int64_t ended = 0;
  for (std::int64_t i = 0; i <= step; ++i) ended += step_of(all, i).ended;
  return ended;
}

/// Number of ranks that have step `step` ready.
std::int64_t count_ready(const RoundSummary& all, std::int64_t step) {
  std::int64_t ready = all.ranks();
  for (std::int64_t i = 0; i <= step; ++i) ready -= step_of(all, i).ranks();
  return ready;
}

bool epoch_ends(const RoundSummary& all, std::int64_t step, bool until_first) {
  const std::int64_t ended = count_ended(all, step);
  return until_first ? ended > 0 : ended == all.ranks();
}

Round::Step decide_step(const RoundSummary& all, std::int64_t step, bool until_first) {
  return {.global_valid = step_of(all, step).rows,
          .complete = count_ready(all, step) == all.ranks(),
          .last = epoch_ends(all, step + 1, until_first),
          .last_complete = count_ended(all, step + 1) > 0};
}

/// Index of the first of the trailing steps (the last one or two) that are merged into one; `count` if none
/// are merged.
std::int64_t find_merged(const RoundSummary& all, std::int64_t count, const RoundRules& rules) {
  if (rules.merged_replicas == 0 || count == 0) return count;
  const RoundSummary::Step& last = step_of(all, count - 1);
  return last.lacks && last.reaches ? std::max<std::int64_t>(count - 2, 0) : count;
}

Round::Step merge_from(const RoundSummary& all, std::int64_t first) {
  Round::Step merged{.last = true, .last_complete = true, .merged = true};
  for (std::int64_t step = first; step < std::ssize(all.steps()); ++step)
    merged.global_valid += step_of(all, step).rows;
  return merged;
}

/// Whether a rank that has only these steps may yet end the epoch.
bool may_end_after(const RoundSummary& all, std::int64_t released) {
  const auto begin = all.steps().begin();
  return std::any_of(begin, begin + released + 1,
                     [](const RoundSummary::Step& step) { return step.waiting > 0; });
}

}  // namespace

Round decide_round(const RoundSummary& all, const RoundRules& rules) {
  const bool until_first = rules.until_first;
  Round round;
  std::int64_t released = count_released(all, until_first);
  round.ended = epoch_ends(all, released, until_first);
  const bool fails = all.failure() && all.failure()->ready == released;
  const bool holds_back = rules.merged_replicas > 0 && released > 0 && !round.ended && !fails;
  if (holds_back) --released;
  const std::int64_t merged = round.ended ? find_merged(all, released, rules) : released;
  for (std::int64_t step = 0; step < merged; ++step) {
    if (all.apart() && all.apart()->step == step) {
      round.failed = all.apart()->rank;
      round.apart = true;
      round.ended = false;
      return round;
    }
    round.released.push_back(decide_step(all, step, until_first));
  }
  if (merged < released) round.released.push_back(merge_from(all, merged));
  if (!fails || round.ended) return round;
  // With `until_first`, a rank that has not yet reported what follows may still end the epoch before the
  // failure. The result must not depend on which rank reports first, so the failure waits for all reports.
  if (until_first && may_end_after(all, released)) return round;
  round.failed = all.failure()->rank;
  round.failure = all.failure()->message;
  return round;
}

}  // namespace torch_distinput
