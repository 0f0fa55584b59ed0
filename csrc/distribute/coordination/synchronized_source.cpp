// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/synchronized_source.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/polling.h"
#include "base/process_owned.h"
#include "base/stage.h"
#include "core/interrupt_watch.h"
#include "core/message_of.h"
#include "core/stop_scope.h"
#include "distribute/coordination/agreement.h"
#include "distribute/coordination/own_steps.h"
#include "distribute/coordination/round_summary.h"
#include "distribute/coordination/steps_ahead.h"
#include "distribute/steps/open_step_source.h"
#include "runtime/worker_thread.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

/// A hash of the stream's position after `step` and of the step's rows that count.
std::int64_t place_after(const BuiltStep& step) {
  const std::string seen = step.after.upstream->state.str() + " " + std::to_string(step.info.global_valid);
  return static_cast<std::int64_t>(hash_of(seen));
}

std::int64_t bytes_of(const BuiltStep& step) {
  std::int64_t bytes = 0;
  for (const Element& part : step.parts) bytes += part.bytes();
  return bytes;
}

/// What the reading thread, the thread of the rounds and the consumer share. `mutex` guards all of it.
struct Table {
  explicit Table(Agreement counts) : agreement(std::move(counts)) {}

  std::mutex mutex;
  std::condition_variable room;       // for the reading thread
  std::condition_variable round_due;  // for the thread of the rounds
  std::condition_variable released;   // for the consumer
  Agreement agreement;
  std::deque<BuiltStep> own;  // own steps, released or not, that `next` has not returned
  std::int64_t own_bytes = 0;
  std::int64_t ready_since = 0;  // when this rank was last able to report a first step, or its end
  std::exception_ptr own_error;  // after them
  std::exception_ptr error;      // after the released steps
  bool wanted = false;           // the consumer waits
  bool stopped = false;

  bool settled() const { return error || agreement.settled(); }
  bool reads() const { return stopped || agreement.wants_steps(); }
  bool holds_round() const { return stopped || settled() || agreement.wants_round(); }
  bool hands_out() const { return agreement.released() > 0 || settled(); }
};

/// Locks the table for a change. The destructor unlocks it first and then wakes the threads that the change
/// concerns. The others sleep on, because wake-ups are most of the cost of a tiny step.
class Change {
 public:
  explicit Change(Table& table) : table_(table), lock_(table.mutex) {}
  ~Change() {
    const bool reads = table_.reads(), holds_round = table_.holds_round(), hands_out = table_.hands_out();
    lock_.unlock();
    if (reads) table_.room.notify_one();
    if (holds_round) table_.round_due.notify_one();
    if (hands_out) table_.released.notify_one();
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  Table* operator->() { return &table_; }

 private:
  Table& table_;
  std::unique_lock<std::mutex> lock_;
};

class SynchronizedStepSource final : public StepSource {
 public:
  using OpenSource = std::function<std::unique_ptr<StepSource>(const Start&)>;

  /// `open`: opens the rank's own stream at a position.
  SynchronizedStepSource(const DistributionPtr& distribution, OpenSource open, OwnSteps own_steps,
                         const Start& start, std::shared_ptr<PeerRounds> rounds, Counters& counters,
                         StepsAhead ahead)
      : open_(std::move(open)),
        own_(open_(start)),
        own_at_(start),
        rounds_(std::move(rounds)),
        counters_(counters),
        first_step_(start.position.step),
        shared_(distribution->one_stream()),
        ahead_(std::move(ahead)),
        table_(std::make_shared<Table>(
            Agreement(std::max<std::int64_t>(ahead_.at_first(), 1), rules_of(*distribution)))),
        own_steps_(std::move(own_steps)) {
    if (ahead_.at_first() == 0) return;
    reading_thread_.emplace("tdi-distribute", [this] { read(); });
    agreeing_thread_.emplace("tdi-agree", [this] { hold_rounds(); });
  }
  ~SynchronizedStepSource() override {
    if (table_.inherited()) return;
    Change(*table_)->stopped = true;
  }

  std::optional<BuiltStep> next() override {
    if (!reading_thread_) catch_up();
    wait();
    auto taken = take();
    if (!taken) return std::nullopt;
    if (taken->own.empty()) return own_steps_.empty(taken->agreed);
    if (taken->agreed.merged) return own_steps_.merged(std::move(taken->own), taken->agreed);
    return own_steps_.complete(std::move(taken->own.front()), taken->agreed);
  }

  bool ready() const override {
    const std::lock_guard lock(table_->mutex);
    return table_->agreement.released() > 0;
  }
  std::int64_t waits() const override { return waits_.value(); }
  bool survives_interrupt() const override { return true; }

 private:
  static RoundRules rules_of(const Distribution& distribution) {
    const Tail tail = distribution.input.tail;
    return {.until_first = tail == Tail::kUntilFirst || tail == Tail::kDrop,
            .merged_replicas = distribution.merges_by_agreement() ? std::ssize(distribution.devices) : 0};
  }

  /// The reading thread: makes own steps as long as there is room.
  void read() noexcept {
    const StopScope stop([this] {
      const std::lock_guard lock(table_->mutex);
      return table_->stopped;
    });
    while (true) {
      {
        std::unique_lock lock(table_->mutex);
        table_->room.wait(lock, [this] { return table_->reads(); });
        if (table_->stopped) return;
      }
      while (may_read()) {
        try {
          if (!read_step()) return;
        } catch (const Stopped&) {
          return;
        }
      }
    }
  }

  bool may_read() {
    const std::lock_guard lock(table_->mutex);
    return !table_->stopped && table_->agreement.has_room();
  }

  /// The thread of the rounds.
  void hold_rounds() noexcept {
    // A store that does not answer must not delay the destructor.
    const InterruptScope unless_stopped([this] { throw_if_stopped(); });
    while (true) {
      {
        std::unique_lock lock(table_->mutex);
        table_->round_due.wait(lock, [this] { return table_->holds_round(); });
        if (table_->stopped || table_->settled()) return;
      }
      try {
        hold_round();
      } catch (const Stopped&) {
        return;
      } catch (...) {
        settle(std::current_exception());
        return;
      }
    }
  }

  /// Without threads: reads own steps and takes part in rounds until a step is released.
  void catch_up() {
    while (table_->agreement.released() == 0 && !table_->settled()) {
      if (table_->agreement.has_room()) read_step();
      hold_round();
    }
  }

  /// Makes one own step; returns false if none follows. Throws an interrupt, which does not count as a
  /// failure of the stream; the stream is opened again at the same position if it did not survive the
  /// interrupt.
  bool read_step() {
    const InterruptWatch watch;
    std::optional<BuiltStep> step;
    std::exception_ptr error;
    try {
      if (interrupted_) own_ = open_(own_at_);
      interrupted_ = false;
      step = own_->next();
    } catch (...) {
      error = std::current_exception();
    }
    if (watch.interrupt()) {
      // Also if there is a step: reading ahead met the interrupt and took it for an error after this step.
      interrupted_ = interrupted_ || step.has_value() || !own_->survives_interrupt();
      std::rethrow_exception(watch.interrupt());
    }
    if (step) own_at_ = step->after;
    Change table(*table_);
    Agreement& agreement = table->agreement;
    if (table->own.empty()) table->ready_since = clock_ns();
    if (error) {
      table->own_error = error;
      agreement.fail(message_of(error));
      return false;
    }
    const bool ends = !step || step->last;
    if (step) {
      const auto& valid = step->info.valid;
      agreement.add_step({.valid = std::accumulate(valid.begin(), valid.end(), std::int64_t{0}),
                          .place = shared_ ? std::optional(place_after(*step)) : std::nullopt,
                          .lacks = std::find(valid.begin(), valid.end(), 0) != valid.end()});
      table->own_bytes += bytes_of(*step);
      table->own.push_back(std::move(*step));
      if (ahead_.at_first() > 0)
        agreement.read_ahead(ahead_.beside(std::ssize(table->own), table->own_bytes));
    }
    if (ends) agreement.end();
    return !ends;
  }

  /// Takes part in one round: sends the steps that are ready, receives those of the others, releases steps.
  void hold_round() {
    std::int64_t step = 0;
    {
      const std::lock_guard lock(table_->mutex);
      // A round that an interrupt ended continues with the summary that was sent.
      if (!sent_) sent_ = table_->agreement.summary(rounds_->rank()).encode();
      step = first_step_ + released_;
    }
    const int size = rounds_->size();
    const auto join = [size](const std::vector<std::string>& texts) { return join_rounds(texts, size); };
    const StageScope waits(Stage::kWait);
    const RoundSummary all = round_of_all(
        rounds_->run(*sent_, join, step, [this] { throw_if_stopped(); }, [this] { return wanted(); }), size);
    sent_.reset();
    counters_.rounds.add();
    if (!reading_thread_) counters_.peer_ns.add(clock_ns() - waits.began());
    Change table(*table_);
    const auto before = table->agreement.released();
    table->agreement.apply(all);
    released_ += table->agreement.released() - before;
    if (const auto& failure = table->agreement.failure()) table->error = describe(*failure);
  }

  void throw_if_stopped() {
    const std::lock_guard lock(table_->mutex);
    if (table_->stopped) throw Stopped();
  }

  bool wanted() {
    const std::lock_guard lock(table_->mutex);
    return table_->wanted || !reading_thread_;
  }

  void settle(const std::exception_ptr& error) { Change(*table_)->error = error; }

  /// The error for the consumer, the same on every rank; on the rank that failed, its own error is nested.
  std::exception_ptr describe(const Agreement::Failure& failure) const {
    const PeerError error("DistributedIterator: rank " + std::to_string(failure.rank) + " failed: at step " +
                          std::to_string(first_step_ + released_) + ": " + failure.message);
    if (failure.rank != rounds_->rank() || failure.apart) return std::make_exception_ptr(error);
    try {
      try {
        std::rethrow_exception(table_->own_error);
      } catch (...) {
        std::throw_with_nested(error);
      }
    } catch (...) {
      return std::current_exception();
    }
  }

  /// Waits until a step is released or none follows.
  void wait() {
    std::unique_lock lock(table_->mutex);
    if (table_->hands_out()) return;
    waits_.add();
    table_->wanted = true;
    const std::int64_t began = clock_ns();
    wait_polling(table_->released, lock, [this] { poll(); }, [this] { return table_->hands_out(); });
    table_->wanted = false;
    const std::int64_t peers_since = std::max(began, table_->ready_since);
    counters_.peer_ns.add(std::max<std::int64_t>(clock_ns() - peers_since, 0));
  }

  /// Checks the peers too, because no round does so while the consumer waits for this rank's own stream.
  void poll() const {
    if (const auto& check = interrupt_check()) check();
    rounds_->check(next_step_);
  }

  /// The agreed values of the next step, and the rank's own steps in it.
  struct Taken {
    Round::Step agreed;
    std::vector<BuiltStep> own;
  };

  std::optional<Taken> take() {
    Change table(*table_);
    if (table->agreement.released() == 0) {
      if (table->error) std::rethrow_exception(table->error);
      return std::nullopt;
    }
    std::int64_t own = 0;
    Taken taken{table->agreement.take(own), {}};
    ++next_step_;
    for (; own > 0; --own) {
      taken.own.push_back(std::move(table->own.front()));
      table->own.pop_front();
      table->own_bytes -= bytes_of(taken.own.back());
    }
    return taken;
  }

  // Of the thread that makes own steps.
  OpenSource open_;
  std::unique_ptr<StepSource> own_;
  Start own_at_;              // after the last of them
  bool interrupted_ = false;  // own_ must be opened again

  std::shared_ptr<PeerRounds> rounds_;
  Counters& counters_;
  std::int64_t first_step_;
  bool shared_;  // all ranks read one stream, each by itself
  StepsAhead ahead_;
  ProcessOwned<Table> table_;
  Counter waits_;
  // Of the thread that holds the rounds.
  std::int64_t released_ = 0;
  std::optional<std::string> sent_;  // in a round that is not over
  // Of the consumer.
  std::int64_t next_step_ = first_step_;
  OwnSteps own_steps_;
  // Last, because they use the others.
  std::optional<WorkerThread> reading_thread_;
  std::optional<WorkerThread> agreeing_thread_;
};

}  // namespace

std::unique_ptr<StepSource> open_synchronized_source(const DistributionPtr& distribution,
                                                     const IterContext& context, const Start& start,
                                                     const DeviceTransferPtr& transfer,
                                                     std::shared_ptr<PeerRounds> rounds, Counters& counters,
                                                     std::int64_t row_start) {
  StepsAhead ahead(*distribution);
  const Reading reading = ahead.at_first() > 0 ? Reading::kHere : Reading::kAhead;
  auto open = [=](const Start& at) { return open_step_source(distribution, context, at, transfer, reading); };
  OwnSteps own_steps(distribution, context, start, row_start);
  return std::make_unique<SynchronizedStepSource>(distribution, std::move(open), std::move(own_steps), start,
                                                  std::move(rounds), counters, std::move(ahead));
}

}  // namespace torch_distinput
