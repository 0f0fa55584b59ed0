// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/agreement.h"

#include <algorithm>

#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

constexpr const char* kApart =
    "it skipped other rows than rank 0. Every rank reads the whole stream and skips rows by itself "
    "(`on_error`), so a row must fail on all ranks or on none; otherwise shard the data by file.";

}  // namespace

Agreement::Agreement(std::int64_t ahead, RoundRules rules) : rules_(rules) { read_ahead(ahead); }

void Agreement::read_ahead(std::int64_t ahead) {
  TORCH_INTERNAL_ASSERT(ahead >= 1 && ahead <= kMaxAhead);
  ahead_ = merges() ? std::max<std::int64_t>(ahead, 2) : ahead;
}

void Agreement::add_step(const Ready& step) {
  TORCH_INTERNAL_ASSERT(has_room());
  unreleased_.push_back(step);
}

void Agreement::end() { after_ = RankStatus::After::kEnd; }

void Agreement::fail(const std::string& message) {
  after_ = RankStatus::After::kFailure;
  message_ = message;
}

bool Agreement::has_room() const { return room() >= 1; }

bool Agreement::wants_steps() const { return room() >= std::max<std::int64_t>(ahead_ / 8, 1); }

std::int64_t Agreement::room() const {
  if (after_ != RankStatus::After::kMore) return 0;
  return ahead_ - own_released_ - static_cast<std::int64_t>(unreleased_.size());
}

bool Agreement::wants_round() const {
  if (settled()) return false;
  // This rank has no steps left to release, and the others wait for its status.
  if (exhausted()) return true;
  // A step that is held back is not reported before the next one is known.
  const std::size_t held_back = merges() ? 1 : 0;
  const bool has_news = unreleased_.size() > held_back || after_ != RankStatus::After::kMore;
  return has_news && released() <= ahead_ / 2;
}

RoundSummary Agreement::summary(int rank) const {
  RankStatus status{.after = after_, .failure = message_};
  for (const Ready& step : unreleased_) {
    status.valid.push_back(step.valid);
    if (step.place) status.places.push_back(*step.place);
    if (merges()) status.lacking.push_back(step.lacks);
  }
  return RoundSummary::of(rank, status, rules_.merged_replicas);
}

void Agreement::apply(const RoundSummary& all) {
  const Round round = decide_round(all, rules_);
  const bool takes_all = !round.released.empty() && round.released.back().merged;
  const auto own = takes_all ? unreleased_.size() : std::min(unreleased_.size(), round.released.size());
  unreleased_.erase(unreleased_.begin(), unreleased_.begin() + static_cast<std::ptrdiff_t>(own));
  own_released_ += static_cast<std::int64_t>(own);
  released_.insert(released_.end(), round.released.begin(), round.released.end());
  ended_ = round.ended;
  if (!round.failed) return;
  failure_ = {*round.failed, round.apart ? kApart : round.failure, round.apart};
}

Round::Step Agreement::take(std::int64_t& own) {
  const Round::Step step = released_.front();
  released_.pop_front();
  own = step.merged ? own_released_ : std::min<std::int64_t>(own_released_, 1);
  own_released_ -= own;
  return step;
}

}  // namespace torch_distinput
