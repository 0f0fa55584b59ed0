// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/random_access_source.h"

#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/state_reader.h"
#include "core/stop_flag.h"
#include "distribute/splitting/step_schedule.h"
#include "distribute/steps/read_ahead.h"
#include "execution/execution_context.h"
#include "execution/remote_run.h"
#include "kernels/rows.h"
#include "runtime/ordered_producer.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// The steps of a run by number, planned in order even if they are taken out of order. Safe from any thread.
class PlannedSteps {
 public:
  PlannedSteps(ScheduleRules rules, const StepPosition& start, std::shared_ptr<PlanRows> rows)
      : schedule_(std::move(rules), start), rows_(std::move(rows)) {}

  /// Step `index`, counted from the start of the run; nullopt after the end. Take each index once.
  std::optional<PlannedStep> take(std::int64_t index) {
    const std::lock_guard lock(mutex_);
    while (first_ + std::ssize(slots_) <= index) slots_.push_back({schedule_.next(*rows_)});
    Slot& slot = slots_[static_cast<std::size_t>(index - first_)];
    slot.taken = true;
    auto step = std::move(slot.step);
    for (; !slots_.empty() && slots_.front().taken; ++first_) slots_.pop_front();
    return step;
  }

 private:
  struct Slot {
    std::optional<PlannedStep> step;
    bool taken = false;
  };

  std::mutex mutex_;
  StepSchedule schedule_;
  std::shared_ptr<PlanRows> rows_;
  std::deque<Slot> slots_;
  std::int64_t first_ = 0;  // index of the first slot
};

/// Announces what this rank's parts of `step` will be made of.
void announce_step(const Distribution& distribution, const PlanRows& rows, const PlannedStep& step) {
  const Plan& plan = *rows.plan();
  std::vector<Segment> segments;
  for (const std::int64_t index : distribution.assignment.local) {
    const Part& part = step.parts[static_cast<std::size_t>(index)];
    if (part.segments.empty()) continue;
    // A part without rows reads one for its shape, unless a part before it has rows.
    if (part.rows == 0 && segments.empty() && !rows.unbatched()) plan.will_take(part.segments);
    if (part.rows > 0 || rows.unbatched())
      segments.insert(segments.end(), part.segments.begin(), part.segments.end());
  }
  if (segments.empty()) return;
  if (!rows.unbatched()) return plan.will_take(segments);
  std::vector<std::int64_t> positions;
  for (const Segment& segment : segments) positions.push_back(segment.element);
  plan.will_read(positions);
}

/// Announces the steps from `start` on. They are planned a second time, so that none is held until it is
/// made.
ReadAnnouncer::Announce announce_steps(const DistributionPtr& distribution,
                                       const std::shared_ptr<PlanRows>& rows, const StepPosition& start) {
  return [distribution, rows, schedule = std::make_shared<StepSchedule>(distribution->rules(), start)](
             std::int64_t begin, std::int64_t end) {
    for (; begin < end; ++begin) {
      if (const auto step = schedule->next(*rows)) announce_step(*distribution, *rows, *step);
    }
  };
}

/// The steps from `start` on where they come over a network, else null.
std::unique_ptr<RemoteRun> remote_run(const DistributionPtr& distribution,
                                      const std::shared_ptr<PlanRows>& rows, const StepPosition& start) {
  const PlanTraits traits = rows->plan()->traits();
  if (!traits.remote) return nullptr;
  const bool ahead = distribution->input.per_replica_buffer_size > 0;
  const std::int64_t horizon = ahead ? announced_bytes(traits, distribution->options) : 0;
  return std::unique_ptr<RemoteRun>(
      new RemoteRun{{announce_steps(distribution, rows, start), 0, std::numeric_limits<std::int64_t>::max(),
                     horizon, step_bytes(*distribution, *rows).value_or(0)}});
}

/// Makes steps; safe from any thread.
class StepMaker {
 public:
  StepMaker(DistributionPtr distribution, std::shared_ptr<PlanRows> rows, const StepPosition& start,
            DeviceTransferPtr transfer)
      : distribution_(std::move(distribution)),
        rows_(rows),
        remote_(remote_run(distribution_, rows, start)),
        steps_(distribution_->rules(), start, std::move(rows)),
        transfer_(std::move(transfer)) {}

  /// Step `index`, counted from the start of the run; nullopt after the end. Call it once for each.
  std::optional<BuiltStep> make(std::int64_t index) {
    const auto planned = steps_.take(index);
    if (!planned) return std::nullopt;
    if (!remote_) return stop_.run([&] { return std::optional(build(*planned)); });
    return remote_->run([&] {
      remote_->announcer.begin(index, 1);
      BuiltStep step = build(*planned);
      std::int64_t bytes = 0;
      for (const Element& part : step.parts) bytes += part.bytes();
      remote_->announcer.measure(1, bytes);
      return std::optional(std::move(step));
    });
  }

  bool is_remote() const { return remote_ != nullptr; }

  /// Asks for the bytes of the first steps. REQUIRES: `is_remote()`.
  void announce() {
    remote_->run([&] { remote_->announcer.begin(0, 0); });
  }

  /// Ends waits for a network, and for other processes, inside of `make`.
  void stop() {
    stop_.set();
    if (remote_) remote_->stop.set();
  }

 private:
  BuiltStep build(const PlannedStep& planned) const {
    Element with_rows;
    return build_step(*distribution_, planned, transfer_, [&](const Part& part) {
      if (rows_->unbatched()) return fetch(part);
      // No need to fetch data for the shape of a part without rows.
      if (part.rows == 0 && with_rows.rows()) return slice_rows(with_rows, 0, 0, "distribute_dataset");
      Element rows = rows_->plan()->take_rows(part.segments);
      if (part.rows > 0) with_rows = rows;
      return rows;
    });
  }

  Element fetch(const Part& part) const {
    std::int64_t position = part.segments.front().element;
    return std::move(rows_->plan()->fetch({&position, 1}).front());
  }

  DistributionPtr distribution_;
  std::shared_ptr<PlanRows> rows_;
  StopFlag stop_;
  std::unique_ptr<RemoteRun> remote_;  ///< null where nothing comes over a network
  PlannedSteps steps_;
  DeviceTransferPtr transfer_;
};

class RandomAccessStepSource final : public StepSource {
 public:
  using Producer = OrderedProducer<std::optional<BuiltStep>>;

  RandomAccessStepSource(std::shared_ptr<StepMaker> maker, ReadAhead ahead, Building building)
      : maker_(std::move(maker)), ahead_(std::move(ahead)) {
    if (building == Building::kAtOnce) {
      build();
    } else if (maker_->is_remote()) {
      maker_->announce();
    }
  }
  ~RandomAccessStepSource() override { maker_->stop(); }

  std::optional<BuiltStep> next() override {
    if (ended_) return std::nullopt;
    if (!producer_) build();
    auto item = producer_->next(interrupt_check());
    ended_ = !item || !*item;
    return ended_ ? std::nullopt : std::move(*item);
  }
  bool ready() const override { return ended_ || (producer_ && producer_->ready()); }
  std::int64_t waits() const override { return producer_ ? producer_->waits() : 0; }
  bool is_remote() const override { return maker_->is_remote(); }
  bool survives_interrupt() const override { return !producer_ || !producer_->failed(); }

 private:
  void build() {
    producer_.emplace([maker = maker_](std::int64_t index) { return maker->make(index); }, 0,
                      std::numeric_limits<std::int64_t>::max(), ahead_.executor, ahead_.options());
  }

  std::shared_ptr<StepMaker> maker_;
  ReadAhead ahead_;
  std::optional<Producer> producer_;  ///< none before steps begin to be built
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<StepSource> open_random_access_source(const DistributionPtr& distribution,
                                                      std::shared_ptr<PlanRows> rows,
                                                      const IterContext& context, const StepPosition& start,
                                                      const DeviceTransferPtr& transfer, Building building) {
  ReadAhead ahead = read_ahead(*distribution, *rows, *context.execution);
  // A copy to a device must begin before its step is requested, so `next` builds no step.
  if (transfer) ahead.inline_threshold = {};
  const StepPosition position = fit_position(start, *rows);
  return std::make_unique<RandomAccessStepSource>(
      std::make_shared<StepMaker>(distribution, std::move(rows), position, transfer), std::move(ahead),
      building);
}

StepPosition fit_position(StepPosition start, const PlanRows& rows) {
  const SplitPosition& split = start.split;
  if (rows.size() == kEndless) check_rows_of_endless("DistributedIterator", split.element, start.row);
  const bool fits = split.element <= rows.size() &&
                    rows.rows_before(split.element) + split.row + split.part_rows == start.row;
  if (!fits) start.split = rows.locate(start.row);
  return start;
}

}  // namespace torch_distinput
