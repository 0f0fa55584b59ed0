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

Round decide_round(const std::vector<RankStatus>& texts, bool until_first) {
  Round round;
  const std::int64_t released = count_released(texts, until_first);
  for (std::int64_t step = 0; step < released; ++step) {
    if ((round.failed = find_apart(texts, step))) {
      round.apart = true;
      return round;
    }
    round.released.push_back(decide_step(texts, step, until_first));
  }
  const auto ends = [&](const RankStatus& text) { return text.ends_by(released); };
  round.ended = until_first ? std::any_of(texts.begin(), texts.end(), ends)
                            : std::all_of(texts.begin(), texts.end(), ends);
  const auto fails = [&](const RankStatus& text) {
    return text.after == After::kFailure && text.ready() == released;
  };
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
