// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/flat_round.h"

#include <algorithm>
#include <limits>

namespace torch_distinput::round_testing {
namespace {

using After = RankStatus::After;

bool has_ended(const RankStatus& status) { return status.after == After::kEnd; }

/// Whether the rank is known to have no step `step`, counted from the first that is ready.
bool ends_by(const RankStatus& status, std::int64_t step) {
  return has_ended(status) && step >= status.ready();
}

/// Number of steps that every rank has ready. Ranks that have ended may lack theirs, unless `until_first`.
std::int64_t count_released(const std::vector<RankStatus>& statuses, bool until_first) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = 0;
  for (const RankStatus& status : statuses) {
    most = std::max(most, status.ready());
    if (until_first || !has_ended(status)) least = std::min(least, status.ready());
  }
  return std::min(least, most);
}

Round::Step decide_step(const std::vector<RankStatus>& statuses, std::int64_t step, bool until_first) {
  Round::Step decided;
  bool all_end = true;
  bool one_ends = false;
  for (const RankStatus& status : statuses) {
    if (step < status.ready()) decided.global_valid += status.valid[static_cast<std::size_t>(step)];
    decided.complete = decided.complete && step < status.ready();
    all_end = all_end && ends_by(status, step + 1);
    one_ends = one_ends || ends_by(status, step + 1);
  }
  decided.last = until_first ? one_ends : all_end;
  decided.last_complete = one_ends;
  return decided;
}

/// Index of the first of the trailing steps (the last one or two) that are merged into one; `count` if none
/// are merged.
std::int64_t find_merged(const std::vector<RankStatus>& statuses, std::int64_t count,
                         const RoundRules& rules) {
  if (rules.merged_replicas == 0 || count == 0) return count;
  const std::int64_t last = count - 1;
  if (std::none_of(statuses.begin(), statuses.end(),
                   [&](const RankStatus& status) { return status.lacks(last); }))
    return count;
  const std::int64_t first = std::max<std::int64_t>(last - 1, 0);
  const auto reaches_all = [&](const RankStatus& status) {
    const std::int64_t rows = status.rows(last) + (first < last ? status.rows(first) : 0);
    return rows >= rules.merged_replicas;
  };
  return std::all_of(statuses.begin(), statuses.end(), reaches_all) ? first : count;
}

Round::Step merge_from(const std::vector<RankStatus>& statuses, std::int64_t first) {
  Round::Step merged{.last = true, .last_complete = true, .merged = true};
  for (const RankStatus& status : statuses) {
    for (std::int64_t step = first; step < status.ready(); ++step) merged.global_valid += status.rows(step);
  }
  return merged;
}

/// The first rank whose position after step `step` of the one stream differs from rank 0's, if any does.
std::optional<int> find_apart(const std::vector<RankStatus>& statuses, std::int64_t step) {
  const auto place = [&](const RankStatus& status) {
    const auto at = static_cast<std::size_t>(step);
    return at < status.places.size() ? std::optional(status.places[at]) : std::nullopt;
  };
  const auto apart = std::find_if(statuses.begin(), statuses.end(), [&](const RankStatus& status) {
    return place(status) != place(statuses.front());
  });
  if (apart == statuses.end()) return std::nullopt;
  return static_cast<int>(apart - statuses.begin());
}

}  // namespace

Round decide_flat(const std::vector<RankStatus>& statuses, const RoundRules& rules) {
  const bool until_first = rules.until_first;
  Round round;
  std::int64_t released = count_released(statuses, until_first);
  const auto ends = [&](const RankStatus& status) { return ends_by(status, released); };
  const auto fails = [&](const RankStatus& status) {
    return status.after == After::kFailure && status.ready() == released;
  };
  round.ended = until_first ? std::any_of(statuses.begin(), statuses.end(), ends)
                            : std::all_of(statuses.begin(), statuses.end(), ends);
  const bool holds_back = rules.merged_replicas > 0 && released > 0 && !round.ended &&
                          std::none_of(statuses.begin(), statuses.end(), fails);
  if (holds_back) --released;
  const std::int64_t merged = round.ended ? find_merged(statuses, released, rules) : released;
  for (std::int64_t step = 0; step < merged; ++step) {
    if ((round.failed = find_apart(statuses, step))) {
      round.apart = true;
      round.ended = false;
      return round;
    }
    round.released.push_back(decide_step(statuses, step, until_first));
  }
  if (merged < released) round.released.push_back(merge_from(statuses, merged));
  if (holds_back) return round;
  // With `until_first`, a rank that has not yet reported what follows may still end the epoch before the
  // failure. The result must not depend on which rank reports first, so the failure waits for all reports.
  const auto has_reported = [&](const RankStatus& status) {
    return status.ready() > released || status.after != After::kMore;
  };
  if (round.ended || (until_first && !std::all_of(statuses.begin(), statuses.end(), has_reported)))
    return round;
  const auto failed = std::find_if(statuses.begin(), statuses.end(), fails);
  if (failed == statuses.end()) return round;
  round.failed = static_cast<int>(failed - statuses.begin());
  round.failure = failed->failure;
  return round;
}

}  // namespace torch_distinput::round_testing
