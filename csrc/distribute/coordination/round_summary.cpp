// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/round_summary.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

namespace torch_distinput {
namespace {

using Place = std::optional<std::int64_t>;
using Step = RoundSummary::Step;
using Limits = std::numeric_limits<std::int64_t>;

constexpr const char* kRoundText = "DistributedIterator: the summary of a round";

/// The beginning of `message`, without a part of a character of UTF-8 at its end.
std::string shortened(const std::string& message) {
  constexpr std::string_view kMore = "...";
  if (message.size() <= RoundSummary::kMaxMessage) return message;
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; };
  std::size_t size = RoundSummary::kMaxMessage - kMore.size();
  while (size > 0 && continues(message[size])) --size;
  return message.substr(0, size).append(kMore);
}

Step join_steps(const Step& one, const Step& other) {
  return {one.rows + other.rows,       one.lacks || other.lacks, one.reaches && other.reaches,
          one.waiting + other.waiting, one.ended + other.ended,  one.failed + other.failed};
}

void encode_step(PeerTextWriter& text, const Step& step) {
  text.integer(step.waiting);
  text.integer(step.ended);
  text.integer(step.failed);
  text.integer(step.rows);
  text.integer((step.lacks ? 1 : 0) + (step.reaches ? 2 : 0));
}

/// `left`: ranks that have all steps before this one. Subtracts those that do not have this one.
Step decode_step(PeerTextReader& text, std::int64_t& left) {
  const auto ranks = [&](const char* what) {
    const std::int64_t count = text.integer(what, 0, left);
    left -= count;
    return count;
  };
  Step step;
  step.waiting = ranks("the ranks that wait");
  step.ended = ranks("the ranks that have ended");
  step.failed = ranks("the ranks that have failed");
  step.rows = text.integer("the rows of a step", 0, RoundSummary::kMaxRows * left);
  const std::int64_t flags = text.integer("the flags of a step", 0, 3);
  step.lacks = flags % 2 == 1;
  step.reaches = flags >= 2;
  return step;
}

void encode_place(PeerTextWriter& text, const Place& place) {
  text.flag(place.has_value());
  if (place) text.integer(*place);
}

std::int64_t decode_hash(PeerTextReader& text) {
  return text.integer("a position's hash", Limits::min(), Limits::max());
}

Place decode_place(PeerTextReader& text) {
  return text.flag("whether there is a position") ? Place(decode_hash(text)) : std::nullopt;
}

}  // namespace

RoundSummary RoundSummary::of(int rank, const RankStatus& status, std::int64_t replicas) {
  RoundSummary summary;
  summary.ranks_ = 1;
  summary.first_ = rank;
  for (std::int64_t step = 0; step <= status.ready(); ++step) {
    const std::int64_t rows = status.rows(step) + (step > 0 ? status.rows(step - 1) : 0);
    summary.steps_.push_back({status.rows(step), status.lacks(step), rows >= replicas});
  }
  Step& after = summary.steps_.back();
  after.waiting = status.after == RankStatus::After::kMore ? 1 : 0;
  after.ended = status.after == RankStatus::After::kEnd ? 1 : 0;
  after.failed = status.after == RankStatus::After::kFailure ? 1 : 0;
  if (after.failed > 0) summary.failure_ = {status.ready(), rank, shortened(status.failure)};
  summary.places_ = status.places;
  return summary;
}

void RoundSummary::join(const RoundSummary& other) {
  join_places(other);
  ranks_ += other.ranks_;
  first_ = std::min(first_, other.first_);
  steps_.resize(std::max(steps_.size(), other.steps_.size()));
  for (std::size_t i = 0; i < steps_.size(); ++i)
    steps_[i] = join_steps(steps_[i], i < other.steps_.size() ? other.steps_[i] : Step());
  const auto order = [](const Failure& failure) { return std::tuple(failure.ready, failure.rank); };
  if (other.failure_ && (!failure_ || order(*other.failure_) < order(*failure_))) failure_ = other.failure_;
}

/// Positions after the first step where ranks are apart do not matter: so much is decided by that step.
void RoundSummary::join_places(const RoundSummary& other) {
  const auto [mine, theirs] = std::ranges::mismatch(places_, other.places_);
  const bool same = mine == places_.end() && theirs == other.places_.end();
  if (same && !apart_ && !other.apart_) return;
  const auto step = static_cast<std::size_t>(mine - places_.begin());
  // The positions after this step, each with the lowest rank that has it.
  std::vector<std::pair<int, Place>> found;
  for (const RoundSummary* const summary : {&std::as_const(*this), &other}) {
    const bool parts = summary->apart_ && summary->places_.size() == step;
    const Place agreed = step < summary->places_.size() ? Place(summary->places_[step]) : std::nullopt;
    found.emplace_back(summary->first_, parts ? summary->apart_->own : agreed);
    if (parts) found.emplace_back(summary->apart_->rank, summary->apart_->other);
  }
  std::ranges::sort(found);
  const Place lowest = found.front().second;
  const auto differs = std::ranges::find_if(found, [&](const auto& one) { return one.second != lowest; });
  apart_ = {static_cast<std::int64_t>(step), lowest, differs->second, differs->first};
  places_.resize(step);
}

std::string RoundSummary::encode() const {
  PeerTextWriter text;
  text.integer(ranks_);
  text.integer(first_);
  for (const Step& step : steps_) encode_step(text, step);
  if (failure_) {
    text.integer(failure_->rank);
    text.string(failure_->message);
  }
  text.integer(places_.size());
  for (const std::int64_t place : places_) text.integer(place);
  text.flag(apart_.has_value());
  if (apart_) {
    encode_place(text, apart_->own);
    encode_place(text, apart_->other);
    text.integer(apart_->rank);
  }
  return text.take();
}

RoundSummary RoundSummary::decode(PeerTextReader reader, int group) {
  RoundSummary summary;
  summary.ranks_ = reader.integer("the number of ranks", 1, group);
  summary.first_ = static_cast<int>(reader.integer("the lowest rank", 0, group - summary.ranks_));
  const auto rank = [&](const char* what) {
    return static_cast<int>(reader.integer(what, summary.first_, group - 1));
  };
  std::optional<std::int64_t> fails_after;
  for (std::int64_t left = summary.ranks_; left > 0;) {
    const std::int64_t before = std::ssize(summary.steps_);
    if (before > kMaxSteps)
      reader.fail("the steps that are ready", "at most " + std::to_string(kMaxSteps), "more");
    summary.steps_.push_back(decode_step(reader, left));
    if (summary.steps_.back().failed > 0 && !fails_after) fails_after = before;
  }
  if (fails_after) {
    const int failed = rank("the rank that failed");
    const std::string_view message = reader.string("the failure");
    if (message.size() > kMaxMessage)
      reader.fail("the failure", "at most " + std::to_string(kMaxMessage) + " bytes long",
                  std::to_string(message.size()) + " bytes long");
    summary.failure_ = {*fails_after, failed, std::string(message)};
  }
  const std::int64_t places = reader.integer("the number of positions", 0, std::ssize(summary.steps_) - 1);
  while (std::ssize(summary.places_) < places) summary.places_.push_back(decode_hash(reader));
  if (reader.flag("whether ranks are apart")) {
    const Place own = decode_place(reader);
    const Place other = decode_place(reader);
    if (own == other) reader.fail("the positions of two ranks", "different", "the same");
    summary.apart_ = {places, own, other, rank("the rank that is apart")};
  }
  reader.end();
  return summary;
}

std::string join_rounds(const std::vector<std::string>& texts, int group) {
  std::optional<RoundSummary> joined;
  for (const std::string& text : texts) {
    const PeerTextReader reader(text, kRoundText);
    const RoundSummary one = RoundSummary::decode(reader, group);
    if (one.ranks() > group - (joined ? joined->ranks() : 0))
      reader.fail("the ranks of all summaries", "at most " + std::to_string(group), "more");
    if (joined)
      joined->join(one);
    else
      joined = one;
  }
  return joined.value().encode();
}

RoundSummary round_of_all(const std::string& joined, int group) {
  const PeerTextReader reader(joined, kRoundText);
  RoundSummary summary = RoundSummary::decode(reader, group);
  if (summary.ranks() != group)
    reader.fail("the number of ranks", std::to_string(group), std::to_string(summary.ranks()));
  return summary;
}

}  // namespace torch_distinput
