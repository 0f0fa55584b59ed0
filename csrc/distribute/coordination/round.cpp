// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/round.h"

#include <algorithm>
#include <limits>

namespace torch_distinput {
namespace {

using After = RankStatus::After;

bool has_ended(const RankStatus& text) { return text.after == After::kEnd; }

/// Number of steps that every rank has ready. Ranks that have ended may lack theirs, unless `until_first`.
std::int64_t count_released(const std::vector<RankStatus>& texts, bool until_first) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = 0;
  for (const RankStatus& text : texts) {
    most = std::max(most, text.ready());
    if (until_first || !has_ended(text)) least = std::min(least, text.ready());
  }
  return std::min(least, most);
}

Round::Step decide_step(const std::vector<RankStatus>& texts, std::int64_t step, bool until_first) {
  Round::Step decided;
  bool all_end = true;
  bool one_ends = false;
  for (const RankStatus& text : texts) {
    if (step < text.ready()) decided.global_valid += text.valid[static_cast<std::size_t>(step)];
    decided.complete = decided.complete && step < text.ready();
    all_end = all_end && text.ends_by(step + 1);
    one_ends = one_ends || text.ends_by(step + 1);
  }
  decided.last = until_first ? one_ends : all_end;
  decided.last_complete = one_ends;
  return decided;
}

/// The first of the steps, the last of `count`, that are released as one; `count` if each is for itself.
std::int64_t find_merged(const std::vector<RankStatus>& texts, std::int64_t count, const RoundRules& rules) {
  if (rules.merged_replicas == 0 || count == 0) return count;
  const std::int64_t last = count - 1;
  if (std::none_of(texts.begin(), texts.end(), [&](const RankStatus& text) { return text.lacks(last); }))
    return count;
  const std::int64_t first = std::max<std::int64_t>(last - 1, 0);
  const auto reaches_all = [&](const RankStatus& text) {
    const std::int64_t rows = text.rows(last) + (first < last ? text.rows(first) : 0);
    return rows >= rules.merged_replicas;
  };
  return std::all_of(texts.begin(), texts.end(), reaches_all) ? first : count;
}

Round::Step merge_from(const std::vector<RankStatus>& texts, std::int64_t first) {
  Round::Step merged{.last = true, .last_complete = true, .merged = true};
  for (const RankStatus& text : texts) {
    for (std::int64_t step = first; step < text.ready(); ++step) merged.global_valid += text.rows(step);
  }
  return merged;
}

/// The first rank whose position after step `step` of the one stream differs from rank 0's, if any does.
std::optional<int> find_apart(const std::vector<RankStatus>& texts, std::int64_t step) {
  const auto place = [&](const RankStatus& text) {
    const auto at = static_cast<std::size_t>(step);
    return at < text.places.size() ? std::optional(text.places[at]) : std::nullopt;
  };
  const auto apart = std::find_if(texts.begin(), texts.end(), [&](const RankStatus& text) {
    return place(text) != place(texts.front());
  });
  if (apart == texts.end()) return std::nullopt;
  return static_cast<int>(apart - texts.begin());
}

}  // namespace

Round decide_round(const std::vector<RankStatus>& texts, const RoundRules& rules) {
  const bool until_first = rules.until_first;
  Round round;
  std::int64_t released = count_released(texts, until_first);
  const auto ends = [&](const RankStatus& text) { return text.ends_by(released); };
  const auto fails = [&](const RankStatus& text) {
    return text.after == After::kFailure && text.ready() == released;
  };
  round.ended = until_first ? std::any_of(texts.begin(), texts.end(), ends)
                            : std::all_of(texts.begin(), texts.end(), ends);
  const bool holds_back = rules.merged_replicas > 0 && released > 0 && !round.ended &&
                          std::none_of(texts.begin(), texts.end(), fails);
  if (holds_back) --released;
  const std::int64_t merged = round.ended ? find_merged(texts, released, rules) : released;
  for (std::int64_t step = 0; step < merged; ++step) {
    if ((round.failed = find_apart(texts, step))) {
      round.apart = true;
      round.ended = false;
      return round;
    }
    round.released.push_back(decide_step(texts, step, until_first));
  }
  if (merged < released) round.released.push_back(merge_from(texts, merged));
  if (holds_back) return round;
  // With `until_first`, a rank that has not yet reported what follows may still end the epoch before the
  // failure. The result must not depend on which rank reports first, so the failure waits for all reports.
  const auto tells = [&](const RankStatus& text) {
    return text.ready() > released || text.after != After::kMore;
  };
  if (round.ended || (until_first && !std::all_of(texts.begin(), texts.end(), tells))) return round;
  const auto failed = std::find_if(texts.begin(), texts.end(), fails);
  if (failed != texts.end()) round.failed = static_cast<int>(failed - texts.begin());
  return round;
}

}  // namespace torch_distinput
