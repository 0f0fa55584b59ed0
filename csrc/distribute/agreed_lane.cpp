// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/agreed_lane.h"

#include <deque>
#include <exception>
#include <numeric>
#include <utility>
#include <vector>

#include "core/interrupt_watch.h"
#include "distribute/missing_part.h"
#include "distribute/round.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

/// So that a round's text stays small, whatever the read-ahead.
constexpr std::size_t kMostReady = 64;

class AgreedLane final : public Lane {
 public:
  AgreedLane(DistributionPtr distribution, std::unique_ptr<Lane> own, const Start& start, PeerLink& link,
             Counter& rounds, std::int64_t row_start)
      : distribution_(std::move(distribution)),
        own_(std::move(own)),
        link_(link),
        counter_(rounds),
        at_(start),
        row_start_(row_start) {}

  std::optional<BuiltStep> next() override {
    if (released_.empty() && !ended_ && !error_) hold_round();
    if (!released_.empty()) return take_released();
    if (error_) std::rethrow_exception(error_);
    return std::nullopt;
  }

  std::int64_t waits() const override { return own_->waits(); }
  bool survives_interrupt() const override { return own_->survives_interrupt(); }

 private:
  void hold_round() {
    if (!posted_) {
      collect();
      posted_ = say();
    }
    std::vector<RoundText> texts;
    // An interrupt leaves the round posted: the next call goes on with it.
    for (const auto& text : link_.hold_round(rounds_, posted_->encode(), at_.position.step))
      texts.push_back(RoundText::decode(text));
    posted_.reset();
    ++rounds_;
    counter_.add();
    apply(decide_round(texts, until_first()), texts);
  }

  bool until_first() const {
    const Tail tail = distribution_->input.tail;
    return tail == Tail::kUntilFirst || tail == Tail::kDrop;
  }

  /// Takes the next own step, and what else lies ready.
  void collect() {
    const InterruptWatch watch;
    try {
      while (!own_ended_ && !own_error_ && ready_.size() < kMostReady && (ready_.empty() || own_->ready())) {
        auto step = own_->next();
        own_ended_ = !step || step->last;
        if (!step) continue;
        if (step->last) left_out_.assign(step->left_out.begin(), step->left_out.end());
        ready_.push_back(std::move(*step));
      }
    } catch (...) {
      if (watch.interrupt()) throw;
      own_error_ = std::current_exception();
    }
  }

  RoundText say() const {
    RoundText text;
    for (const BuiltStep& step : ready_)
      text.valid.push_back(std::accumulate(step.info.valid.begin(), step.info.valid.end(), std::int64_t{0}));
    if (own_ended_) text.after = RoundText::After::kEnd;
    if (own_error_) {
      text.after = RoundText::After::kFailure;
      text.failure = message_of(own_error_);
    }
    return text;
  }

  void apply(const Round& round, const std::vector<RoundText>& texts) {
    released_.assign(round.released.begin(), round.released.end());
    ended_ = round.ended;
    if (!round.failed) return;
    if (*round.failed == link_.rank()) {
      error_ = own_error_;
      return;
    }
    const auto step = at_.position.step + std::ssize(released_);
    error_ = std::make_exception_ptr(DistributedDatasetError(
        "DistributedIterator: rank " + std::to_string(*round.failed) + " failed: at step " +
        std::to_string(step) + ": " + texts[static_cast<std::size_t>(*round.failed)].failure));
  }

  BuiltStep take_released() {
    const Round::Step agreed = released_.front();
    released_.pop_front();
    BuiltStep step;
    if (ready_.empty()) {
      step = empty_step();
    } else {
      step = std::move(ready_.front());
      ready_.pop_front();
      keep_last_rows(step);
    }
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

  void keep_last_rows(const BuiltStep& step) {
    if (distribution_->input.tail == Tail::kPadded) last_parts_ = step.parts;
  }

  /// What a rank hands out whose stream has ended.
  BuiltStep empty_step() {
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
    return step;
  }

  DistributionPtr distribution_;
  std::unique_ptr<Lane> own_;
  PeerLink& link_;
  Counter& counter_;
  Start at_;                                // after the step last handed out
  std::int64_t row_start_;                  // of the next step
  std::deque<BuiltStep> ready_;             // own steps that are not handed out
  bool own_ended_ = false;                  // behind ready_
  std::deque<std::vector<bool>> left_out_;  // own steps without rows behind the last, which others may fill
  std::exception_ptr own_error_;            // behind ready_
  std::int64_t rounds_ = 0;
  std::optional<RoundText> posted_;  // in a round that is not over
  std::deque<Round::Step> released_;
  bool ended_ = false;        // behind released_
  std::exception_ptr error_;  // behind released_
  std::vector<Element> last_parts_;
};

}  // namespace

std::unique_ptr<Lane> open_agreed_lane(DistributionPtr distribution, std::unique_ptr<Lane> own,
                                       const Start& start, PeerLink& link, Counter& rounds,
                                       std::int64_t row_start) {
  return std::make_unique<AgreedLane>(std::move(distribution), std::move(own), start, link, rounds,
                                      row_start);
}

}  // namespace torch_distinput
